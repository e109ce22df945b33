"""The batch: full while anything waits, left at once by who has ended, bounded whatever the width."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from gram.config import SampleOptions, load_recipe
from gram.inference.sample import sample
from gram.models.reasoner import Reasoner
from gram.models.rollout import CPU_ROWS, GPU_ROWS, Batch, automatic_chunk, bytes_per_row, rows_at_once
from gram.tasks.base import Tokens

ModelBuilder = Callable[..., Reasoner]
OPTIONS = SampleOptions(width=12, depth=6, halt=True)


@pytest.fixture(scope="module")
def puzzles() -> Tokens:
    return np.random.default_rng(1).integers(0, 5, (4, 6))


@pytest.fixture(scope="module")
def undecided(tiny_model: ModelBuilder, puzzles: Tokens) -> Reasoner:
    """A model of which some trajectories halt early and some late."""
    model = tiny_model(dim=16, log_sigma_init=0.0).eval()
    sure = sample(model, puzzles, replace(OPTIONS, halt=False, keep_steps=True)).step_confidence
    middle = float(np.median(sure))
    with torch.no_grad():
        model.decoder.halt.bias[0] -= np.log(middle / (1 - middle))
    return model


def jobs(puzzles: Tokens, width: int = OPTIONS.width) -> list[tuple[int, int]]:
    return [(puzzle, number) for puzzle in range(len(puzzles)) for number in range(width)]


def test_it_is_full_while_anything_waits_and_no_step_is_wasted(undecided: Reasoner, puzzles: Tokens) -> None:
    rows, ended = [], 0
    for made in Batch(undecided, puzzles, OPTIONS).run(jobs(puzzles), chunk=10):
        rows.append(len(made.step))
        waiting = len(jobs(puzzles)) - ended - rows[-1]
        assert rows[-1] == 10 or waiting == 0
        ended += int(made.ended.sum())
    steps = sample(undecided, puzzles, OPTIONS).steps
    assert len(np.unique(steps)) > 1  # some halt earlier than others, or this would show nothing
    assert sum(rows) == steps.sum() < OPTIONS.depth * len(jobs(puzzles))


def test_every_trajectory_ends_once_and_says_why(undecided: Reasoner, puzzles: Tokens) -> None:
    ends = []
    for made in Batch(undecided, puzzles, OPTIONS).run(jobs(puzzles), chunk=7):
        assert np.array_equal(made.ended, made.halted | (made.step == OPTIONS.depth))
        assert np.array_equal(made.halted, made.confidence > 0.5)
        ends += list(zip(made.puzzle[made.ended].tolist(), made.trajectory[made.ended].tolist(), strict=True))
    assert sorted(ends) == jobs(puzzles)


def test_halting_at_a_higher_probability_takes_longer(undecided: Reasoner, puzzles: Tokens) -> None:
    steps = [sample(undecided, puzzles, replace(OPTIONS, halt_at=at)).steps.mean() for at in (0.3, 0.5, 0.7)]
    assert steps == sorted(steps)
    assert steps[0] < steps[-1]


def test_a_halted_trajectory_is_the_full_one_cut_short(undecided: Reasoner, puzzles: Tokens) -> None:
    full = sample(undecided, puzzles, replace(OPTIONS, halt=False, keep_steps=True))
    cut = sample(undecided, puzzles, OPTIONS)
    for place in np.ndindex(*cut.steps.shape):
        assert np.array_equal(cut.outputs[place], full.step_outputs[place][cut.steps[place] - 1])


def test_the_chunk_is_smaller_for_larger_models(tiny_model: ModelBuilder) -> None:
    small, large = (automatic_chunk(tiny_model(length=length)) for length in (6, 4000))
    assert small == CPU_ROWS
    assert 1 <= large < small


def test_noise_makes_a_deterministic_model_search(tiny_model: ModelBuilder, puzzles: Tokens) -> None:
    still = tiny_model(guidance="none")
    found = sample(still, puzzles, SampleOptions(width=6, depth=3, perturb=1.0))
    assert any(len(np.unique(outputs, axis=0)) > 1 for outputs in found.outputs)
    again = sample(still, puzzles, SampleOptions(width=3, depth=3, perturb=1.0), chunk=5)
    assert np.array_equal(found.outputs[:, :3], again.outputs)


def test_a_gpu_gets_as_many_rows_as_its_memory_holds() -> None:
    recipe = load_recipe("arc-1/gram-paper")
    with torch.device("meta"):
        model = Reasoner(recipe.model.model_copy(update={"puzzles": 10}), vocab_size=12, length=900)
    per_row = bytes_per_row(model)
    assert per_row > 2**20
    assert rows_at_once(per_row, None) < 5  # what is right for a CPU
    for free in (8 * 2**30, 24 * 2**30, 80 * 2**30):
        rows = rows_at_once(per_row, free)
        assert rows > 100
        assert 2 * rows * per_row < free  # room for as much again
    assert rows_at_once(per_row, 24 * 2**30) == pytest.approx(3 * rows_at_once(per_row, 8 * 2**30), rel=0.01)
    assert rows_at_once(1000, 2**40) == GPU_ROWS
    assert rows_at_once(2**40, 2**30) == 1  # something must run
    assert rows_at_once(1000, None) == CPU_ROWS


def test_puzzles_with_options_of_their_own_share_a_batch_and_answer_as_if_alone(
    undecided: Reasoner, puzzles: Tokens
) -> None:
    each = [
        replace(OPTIONS, width=3, seed=number, temperature=temperature, depth=3 + number, halt=number % 2 == 0)
        for number, temperature in enumerate((1.0, 0.3, 0.0, 2.0))
    ]
    batch = Batch(undecided, puzzles[:0], OPTIONS)
    numbers = [batch.admit(given, options) for given, options in zip(puzzles, each, strict=True)]
    found: dict[tuple[int, int], tuple[list[int], int]] = {}
    for made in batch.run([(number, trajectory) for trajectory in range(3) for number in numbers], chunk=5):
        for row in np.flatnonzero(made.ended).tolist():
            found[int(made.puzzle[row]), int(made.trajectory[row])] = (made.outputs[row].tolist(), int(made.step[row]))
    for number, options in zip(numbers, each, strict=True):
        alone = sample(undecided, puzzles[[number]], options)
        for trajectory in range(3):
            assert found[number, trajectory] == (alone.outputs[0, trajectory].tolist(), alone.steps[0, trajectory])


def test_a_released_puzzle_leaves_nothing_behind(undecided: Reasoner, puzzles: Tokens) -> None:
    batch = Batch(undecided, puzzles, OPTIONS)
    batch.add(jobs(puzzles, 2))
    batch.release(1)
    assert sorted(set(batch.puzzle.tolist())) == [0, 2, 3]
    assert set(batch.advance().puzzle.tolist()) == {0, 2, 3}
    assert sorted(batch.puzzles) == [0, 2, 3]
    with pytest.raises(ValueError, match="decode"):
        batch.admit(puzzles[0], replace(OPTIONS, decode="sample"))
