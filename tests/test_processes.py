"""What torchrun and SLURM say of the processes that they started, and what is refused."""

import pytest

from gram.errors import GramError
from gram.processes import is_first_process, process_rank, started_processes

NAMES = ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "SLURM_PROCID", "SLURM_NTASKS_PER_NODE", "SLURM_STEP_ID")


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*NAMES, "SLURM_NNODES"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("environment", "started", "rank"),
    [
        ({}, (1, 1), 0),
        ({"RANK": "1"}, (1, 1), 0),  # nobody has started several
        ({"RANK": "3", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}, (2, 2), 3),
        ({"SLURM_PROCID": "1", "SLURM_NTASKS_PER_NODE": "2", "SLURM_STEP_ID": "0"}, (2, 1), 1),
    ],
)
def test_who_was_started(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], started: tuple[int, int], rank: int
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert (started_processes(), process_rank(), is_first_process()) == (started, rank, rank == 0)


@pytest.mark.parametrize("name", ["RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"])
@pytest.mark.parametrize("value", ["two", "", "-1", "1.5"])
def test_what_is_no_number_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    for other in NAMES[:3]:
        monkeypatch.setenv(other, "2")
    monkeypatch.setenv(name, value)
    with pytest.raises(GramError, match=f"{name} must be a whole number"):
        process_rank()
