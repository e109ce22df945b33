"""Samples that grow in a file: what other programs have left beside it is kept, and half a beginning is no obstacle."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from gram.config import SampleOptions
from gram.errors import GramError
from gram.inference.sample import sample
from gram.inference.stream import already_drawn, generate, weights_digest
from gram.models.reasoner import Reasoner
from gram.tasks.images import Digits
from tests.cli.helpers import CannotWrite

OPTIONS = SampleOptions(depth=1, seed=3)


@pytest.fixture(scope="module")
def trained(tiny_model: Callable[..., Reasoner]) -> Any:
    task = Digits()
    return SimpleNamespace(model=tiny_model(vocab_size=task.vocab_size, length=task.length), task=task)


def test_a_foreign_file_beside_the_samples_is_kept(trained: Any, tmp_path: Path) -> None:
    foreign = tmp_path / "samples.npz.new"
    foreign.write_text("mine")
    rows = generate(trained, 3, OPTIONS, path=tmp_path / "samples.npz")
    assert foreign.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["samples.npz", "samples.npz.new"]
    with np.load(tmp_path / "samples.npz") as stored:
        assert np.array_equal(stored["tokens"], rows)
        assert str(stored["task"]) == trained.task.name


@pytest.mark.parametrize("share", [0, 0.5])
def test_a_beginning_without_a_whole_header_is_begun_again(trained: Any, tmp_path: Path, share: float) -> None:
    path, part = tmp_path / "samples.npz", tmp_path / "samples.npz.part"
    expected = generate(trained, 3, OPTIONS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gram.inference.stream._block", broken_off)
        with pytest.raises(KeyboardInterrupt):
            generate(trained, 3, OPTIONS, path=path)
    header = part.read_bytes()
    part.write_bytes(header[: int(share * len(header))])
    assert already_drawn(trained, 3, OPTIONS, path) == 0
    assert np.array_equal(generate(trained, 3, OPTIONS, path=path), expected)
    assert not part.exists()


def test_an_unfinished_file_of_an_earlier_version_is_resumed(
    trained: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The format of a part file is fixed: one line of JSON, and a byte for every token."""
    monkeypatch.setattr("gram.inference.stream.BLOCK", 4)
    expected = generate(trained, 6, OPTIONS)
    header = {
        "task": "digits",
        "weights": weights_digest(trained.model),
        "depth": 1,
        "temperature": 1.0,
        "temperature_final": None,
        "seed": 3,
        "halt": False,
        "halt_at": 0.5,
        "decode": "argmax",
        "initial": "fixed",
        "perturb": 0.0,
        "keep_states": False,
    }
    drawn = expected[:5].tobytes()[:-2]  # one block, and a second one that was cut off
    (tmp_path / "samples.npz.part").write_bytes(json.dumps(header).encode() + b"\n" + drawn)
    counted: list[int] = []
    found = generate(trained, 6, OPTIONS, path=tmp_path / "samples.npz", progress=counted.append)
    assert np.array_equal(found, expected)
    assert counted[0] == 4  # was there already
    assert sum(counted) == 6


def test_a_part_of_another_call_is_refused(trained: Any, tmp_path: Path) -> None:
    part = tmp_path / "samples.npz.part"
    part.write_bytes(b"something else\n")
    with pytest.raises(GramError, match="started with another model"):
        generate(trained, 3, OPTIONS, path=tmp_path / "samples.npz")
    assert part.read_bytes() == b"something else\n"


def broken_off(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_finished_file_is_never_overwritten(trained: Any, tmp_path: Path) -> None:
    path = tmp_path / "samples.npz"
    generate(trained, 4, OPTIONS, path=path)
    before = path.read_bytes()
    for count, options in ((5, OPTIONS), (4, replace(OPTIONS, seed=1))):
        with pytest.raises(GramError, match="already exists with other samples"):
            generate(trained, count, options, path=path)
    assert path.read_bytes() == before
    path.write_bytes(before[:100])
    with pytest.raises(GramError, match="damaged"):
        generate(trained, 4, OPTIONS, path=path)


def test_a_smaller_number_does_not_destroy_a_longer_run(
    trained: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = tmp_path / "samples.npz.part"
    monkeypatch.setattr(np, "savez_compressed", broken := CannotWrite())
    with pytest.raises(OSError, match="disk is full"):
        generate(trained, 12, OPTIONS, path=tmp_path / "samples.npz")
    assert broken.called
    before = part.read_bytes()
    with pytest.raises(GramError, match="already holds 12 samples"):
        generate(trained, 11, OPTIONS, path=tmp_path / "samples.npz")
    assert part.read_bytes() == before


def test_the_numbers_of_trajectories_may_begin_anywhere(trained: Any) -> None:
    blank, options = trained.task.parse("")[None], replace(OPTIONS, width=6)
    all_six = sample(trained.model, blank, options).outputs[0]
    assert_array_equal(sample(trained.model, blank, replace(options, width=2), first=3).outputs[0], all_six[3:5])
