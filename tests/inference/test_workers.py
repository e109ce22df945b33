"""Work side by side: in parallel, in order, and with the same outputs to the bit as one part after the other."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from gram.config import SampleOptions
from gram.config.baselines import ArConfig
from gram.evaluation.likelihood import likelihood
from gram.inference.resampling import Resampling, search
from gram.inference.sample import Trajectories, sample
from gram.inference.workers import Check, side_by_side
from gram.models import rollout
from gram.models.baselines.ar import Autoregressive
from gram.models.baselines.base import DRAWN_AT_ONCE
from gram.models.reasoner import Reasoner
from gram.solver import load
from gram.tasks.base import Examples, Tokens

CPU = torch.device("cpu")


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.fixture
def model(tiny_model: Callable[..., Reasoner], monkeypatch: pytest.MonkeyPatch) -> Reasoner:
    """A small guided model of which a few rows are worth a group."""
    monkeypatch.setattr(rollout, "GROUP_FLOPS", 1)
    monkeypatch.setattr(rollout, "GROUP_TOKENS", 1)
    return tiny_model(dim=16, log_sigma_init=0.0).eval()


def puzzles(count: int) -> Tokens:
    return np.random.default_rng(0).integers(0, 5, size=(count, 6))


def identical(ours: Trajectories, theirs: Trajectories) -> bool:
    pairs = [(getattr(ours, field.name), getattr(theirs, field.name)) for field in fields(Trajectories)]
    return all(a is b is None or np.array_equal(a, b) for a, b in pairs)


# --- the mechanism ----------------------------------------------------------------------------------------------------


def test_parts_run_at_the_same_time_with_one_thread_each(threads: Callable[[int], None]) -> None:
    threads(3)
    together = threading.Barrier(3, timeout=20)

    def work(part: int, _check: Check) -> tuple[int, int]:
        together.wait()  # would time out if they came one after the other
        return part, torch.get_num_threads()

    assert side_by_side(work, range(3), CPU) == [(0, 1), (1, 1), (2, 1)]
    assert torch.get_num_threads() == 3


@pytest.mark.parametrize(("count", "parts"), [(1, 4), (3, 1)])
def test_little_work_stays_in_the_calling_thread(threads: Callable[[int], None], count: int, parts: int) -> None:
    threads(count)
    found = side_by_side(lambda _part, _check: (threading.get_ident(), torch.get_num_threads()), range(parts), CPU)
    assert found == [(threading.get_ident(), 1)] * parts
    assert torch.get_num_threads() == count


def test_a_gpu_takes_one_part_after_the_other_and_keeps_its_threads(threads: Callable[[int], None]) -> None:
    threads(3)
    found = side_by_side(lambda part, _check: (part, torch.get_num_threads()), range(2), torch.device("meta"))
    assert found == [(0, 3), (1, 3)]


def test_the_first_error_stops_the_others_and_is_raised(threads: Callable[[int], None]) -> None:
    threads(2)
    begun, ended = [], []

    def work(part: int, check: Check) -> None:
        begun.append(part)
        if part == 1:
            raise ValueError("part 1")
        until = time.monotonic() + 20
        while time.monotonic() < until:
            check()
            time.sleep(0.001)
        ended.append(part)

    with pytest.raises(ValueError, match="part 1"):
        side_by_side(work, range(6), CPU)
    assert sorted(begun) == [0, 1]
    assert not ended
    assert torch.get_num_threads() == 2


def test_an_interrupt_of_the_main_thread_stops_the_work(
    threads: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads(2)
    stopped = []

    def work(part: int, check: Check) -> None:
        try:
            while True:
                check()
                time.sleep(0.001)
        finally:
            stopped.append(part)

    def interrupted(_future: object, timeout: float | None = None) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("concurrent.futures.Future.exception", interrupted)
    with pytest.raises(KeyboardInterrupt):
        side_by_side(work, range(4), CPU)
    assert set(stopped) <= {0, 1}


# --- the same outputs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("halt", [False, True])
def test_sampling_is_the_same_for_one_and_several_workers(
    model: Reasoner, threads: Callable[[int], None], halt: bool
) -> None:
    options = SampleOptions(width=5, depth=4, halt=halt, keep_steps=True, keep_states=True)
    found, progress = [], []
    assert len(model.groups(7 * 5)) > 3
    for count in (1, 2, 3):
        threads(count)
        ended: list[int] = []
        found.append(sample(model, puzzles(7), options, first=2, progress=ended.append))
        progress.append(sum(ended))
    assert identical(found[0], found[1])
    assert identical(found[0], found[2])
    assert progress == [35, 35, 35]


def test_resampling_is_the_same_for_one_and_two_workers(model: Reasoner, threads: Callable[[int], None]) -> None:
    options, found = SampleOptions(width=40, depth=3), []
    for count in (1, 2):
        threads(count)
        resampling = Resampling([1, 2], power=2.0)
        found.append((search(model, puzzles(9), options, resampling), resampling.sample_sizes))
    assert identical(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]
    assert len(found[0][1][1]) == 9


def test_likelihood_is_the_same_for_one_and_two_workers(model: Reasoner, threads: Callable[[int], None]) -> None:
    rows = Examples(puzzles(150), puzzles(150), np.arange(150))
    found = []
    for count in (1, 2):
        threads(count)
        found.append(likelihood(model, rows))
    assert found[0] == found[1]
    assert found[0].rows == 150


def test_a_shipped_model_answers_alike_for_one_and_two_workers(threads: Callable[[int], None]) -> None:
    solver = load("nqueens-8", device="cpu")
    inputs = solver.task.split("test").distinct(4).inputs
    options = replace(solver.options, width=20, depth=2)
    assert len(solver.model.groups(80)) > 1
    found = []
    for count in (1, 2):
        threads(count)
        found.append(sample(solver.model, inputs, options))
    assert identical(*found)


# --- how rows are cut -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 100, 5000])
def test_groups_hold_every_row_once_in_order_and_evenly(model: Reasoner, rows: int) -> None:
    groups = model.groups(rows)
    assert [row for group in groups for row in group] == list(range(rows))
    lengths = [len(group) for group in groups]
    assert max(lengths) - min(lengths) <= 1
    assert max(lengths) <= rollout.GROUP_BATCHES * rollout.automatic_chunk(model)


def test_few_rows_are_not_cut(tiny_model: Callable[..., Reasoner]) -> None:
    assert tiny_model().groups(20) == [range(20)]


def test_whole_outputs_are_cut_into_equal_chunks() -> None:
    baseline = Autoregressive(ArConfig(dim=16, layers=1, heads=2, hidden=16), vocab_size=3, length=64)
    assert [len(group) for group in baseline.groups(2 * DRAWN_AT_ONCE + 5)] == [DRAWN_AT_ONCE, DRAWN_AT_ONCE, 5]
