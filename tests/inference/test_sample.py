"""Sampling: a trajectory depends on its seed, puzzle and number alone, whatever is sampled beside it."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from gram.config import SampleOptions
from gram.inference.sample import Trajectories, sample, sample_depths, sharing_depths
from gram.models.carry import State
from gram.models.noise import derive, normal, puzzle_key, scaled
from gram.models.reasoner import Reasoner
from gram.models.rollout import TRANSITION
from gram.tasks.base import Tokens

ModelBuilder = Callable[..., Reasoner]

OPTIONS = SampleOptions(width=6, depth=3, keep_steps=True)


@pytest.fixture(scope="module")
def model(tiny_model: ModelBuilder) -> Reasoner:
    """A small guided model whose noise matters and whose halt head is undecided."""
    model = tiny_model(dim=16, log_sigma_init=0.0).eval()
    probe = sample(model, puzzles(8), replace(OPTIONS, depth=2))
    middle = float(np.median(probe.confidence))
    with torch.no_grad():
        model.decoder.halt.bias[0] -= np.log(middle / (1 - middle))
    return model


def puzzles(count: int, length: int = 6) -> Tokens:
    return np.random.default_rng(0).permuted(np.tile(np.arange(5), (count, length)), axis=1)[:, :length]


def assert_same(ours: Trajectories, theirs: Trajectories) -> None:
    """Discrete figures to the bit; probabilities to the rounding of another batch shape."""
    assert np.array_equal(ours.outputs, theirs.outputs)
    assert np.array_equal(ours.steps, theirs.steps)
    np.testing.assert_allclose(ours.values, theirs.values, atol=1e-5)
    np.testing.assert_allclose(ours.confidence, theirs.confidence, atol=1e-5)
    assert (ours.step_outputs is None) == (theirs.step_outputs is None)
    if ours.step_outputs is not None:
        assert np.array_equal(ours.step_outputs, theirs.step_outputs)
        np.testing.assert_allclose(ours.step_values, theirs.step_values, atol=1e-5)
        np.testing.assert_allclose(ours.step_confidence, theirs.step_confidence, atol=1e-5)


def part(found: Trajectories, index: object) -> Trajectories:
    return found.select(index)


# --- independence -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [1, 3, 7, 16, 1000])
@pytest.mark.parametrize("halt", [False, True])
def test_the_chunk_size_changes_nothing(model: Reasoner, chunk: int, halt: bool) -> None:
    options = replace(OPTIONS, halt=halt)
    assert_same(sample(model, puzzles(5), options, chunk=chunk), sample(model, puzzles(5), options))


def test_a_wider_run_begins_with_the_narrower(model: Reasoner) -> None:
    wide = sample(model, puzzles(4), replace(OPTIONS, width=20))
    assert_same(sample(model, puzzles(4), replace(OPTIONS, width=5)), part(wide, np.s_[:, :5]))


def test_a_shallower_depth_is_read_off_with_its_own_values(model: Reasoner) -> None:
    deep = sample(model, puzzles(4), replace(OPTIONS, depth=6))
    for depth in (1, 4):
        assert_same(deep.at_depth(depth), sample(model, puzzles(4), replace(OPTIONS, depth=depth)))
    assert not np.allclose(deep.at_depth(1).values, deep.values)  # the heads change their minds on the way


def test_a_deeper_run_begins_with_the_shallower(model: Reasoner) -> None:
    deep = sample(model, puzzles(4), replace(OPTIONS, depth=6))
    shallow = sample(model, puzzles(4), replace(OPTIONS, depth=2))
    assert np.array_equal(deep.step_outputs[:, :, :2], shallow.step_outputs)
    assert np.array_equal(deep.step_outputs[:, :, 1], shallow.outputs)


def test_other_puzzles_and_their_order_change_nothing(model: Reasoner) -> None:
    inputs = puzzles(6)
    everything = sample(model, inputs, OPTIONS)
    for order in ([3], [5, 0], [4, 3, 2, 1, 0, 5]):
        assert_same(sample(model, inputs[order], OPTIONS), part(everything, order))


def test_the_same_puzzle_twice_gives_the_same_trajectories(model: Reasoner) -> None:
    found = sample(model, puzzles(1)[[0, 0]], OPTIONS)
    assert_same(part(found, [0]), part(found, [1]))


def test_a_sample_can_be_repeated_and_leaves_torchs_generator_alone(model: Reasoner) -> None:
    first = sample(model, puzzles(3), OPTIONS)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    second = sample(model, puzzles(3), OPTIONS)
    assert np.array_equal(first.outputs, second.outputs)
    assert np.array_equal(first.values, second.values)
    assert torch.equal(torch.get_rng_state(), before)


def keys_of(tokens: Tokens, seed: int, trajectory: int, step: int) -> Tensor:
    """What the noise of a step is keyed by: (seed, puzzle, trajectory, step)."""
    return derive(derive(torch.tensor([puzzle_key(tokens)]), seed), trajectory, step)


# --- what does change it ----------------------------------------------------------------------------------------------


def test_seeds_trajectories_and_puzzles_have_noise_of_their_own(model: Reasoner) -> None:
    drawn = [
        normal(keys_of(tokens, seed, trajectory, step), 4)
        for seed in (0, 1)
        for tokens in puzzles(2)
        for trajectory in (0, 1)
        for step in (0, 1)
    ]
    assert len(torch.unique(torch.cat(drawn), dim=0)) == 16
    first, second = (sample(model, puzzles(4), replace(OPTIONS, seed=seed)) for seed in (0, 1))
    assert not np.array_equal(first.outputs, second.outputs)


def test_trajectories_of_a_guided_model_differ(model: Reasoner) -> None:
    found = sample(model, puzzles(4), replace(OPTIONS, width=20))
    for outputs in found.outputs:
        assert len(np.unique(outputs, axis=0)) > 1


@pytest.mark.parametrize("changes", [{}, {"guidance": "none"}, {"guidance": "guide_only"}])
def test_one_answer_without_noise(model: Reasoner, tiny_model: ModelBuilder, changes: dict[str, str]) -> None:
    still = tiny_model(**changes) if changes else model
    temperature = 1.0 if changes else 0.0
    options = replace(OPTIONS, temperature=temperature)
    found = sample(still, puzzles(4), options)
    assert found.outputs.shape == (4, 6, 6)
    assert found.step_outputs.shape == (4, 6, 3, 6)
    assert_same(part(found, np.s_[:, :1]), sample(still, puzzles(4), replace(options, width=1)))
    for outputs, values in zip(found.outputs, found.values, strict=True):
        assert len(np.unique(outputs, axis=0)) == 1
        assert np.ptp(values) < 1e-6


def test_temperature_scales_the_noise(model: Reasoner) -> None:
    spread = [
        float(np.std(sample(model, puzzles(4), replace(OPTIONS, temperature=t, width=20)).values, axis=1).mean())
        for t in (0.0, 0.1, 1.0)
    ]
    assert spread == sorted(spread)
    assert spread[0] < 1e-6 < spread[1]


@pytest.mark.parametrize("option", [{"decode": "sample"}, {"initial": "random"}])
def test_the_ablations_make_a_deterministic_model_vary(tiny_model: ModelBuilder, option: dict[str, str]) -> None:
    still = tiny_model(guidance="none")
    options = replace(OPTIONS, width=20, **option)
    found = sample(still, puzzles(3), options)
    for outputs in found.outputs:
        assert len(np.unique(outputs, axis=0)) > 1
    assert_same(sample(still, puzzles(3), options, chunk=7), found)
    assert not np.array_equal(sample(still, puzzles(3), replace(options, seed=1)).outputs, found.outputs)


def test_sampled_tokens_follow_the_output_distribution(tiny_model: ModelBuilder) -> None:
    model = tiny_model(guidance="none", supervision_steps=1)
    width = 2000
    inputs = puzzles(1)
    with torch.no_grad():
        state = model.step(model.initial_state(1), model.encoder(torch.from_numpy(inputs)), lambda t: None).state
        expected = model.decoder.logits(state.h)[0].softmax(dim=-1).numpy()
    found = sample(model, inputs, SampleOptions(width=width, depth=1, decode="sample")).outputs[0]
    shares = np.stack([(found == token).mean(axis=0) for token in range(5)], axis=1)  # [length, vocabulary]
    assert np.abs(shares - expected).max() < 4.5 * np.sqrt(0.25 / width)


# --- depth and halting ------------------------------------------------------------------------------------------------


def test_history_ends_in_the_outputs(model: Reasoner) -> None:
    for halt in (False, True):
        found = sample(model, puzzles(6), replace(OPTIONS, depth=5, halt=halt))
        assert found.step_outputs.shape == (6, 6, 5, 6)
        assert np.array_equal(found.step_outputs[:, :, -1], found.outputs)
    assert sample(model, puzzles(1), replace(OPTIONS, keep_steps=False)).step_outputs is None


def test_without_halting_every_trajectory_goes_to_the_end(model: Reasoner) -> None:
    assert (sample(model, puzzles(4), replace(OPTIONS, depth=5)).steps == 5).all()


@pytest.mark.parametrize("chunk", [4, 256])
def test_a_trajectory_halts_when_its_head_says_so_and_the_others_go_on(model: Reasoner, chunk: int) -> None:
    depth, inputs = 6, puzzles(6)
    halted = sample(model, inputs, replace(OPTIONS, depth=depth, halt=True), chunk=chunk)
    assert len(np.unique(halted.steps)) >= 3  # some stop early, some late, or compaction is not tested
    free = sample(model, inputs, replace(OPTIONS, depth=depth))
    # The halt head's verdict after each step, from runs of that depth that do not halt.
    by_depth = [sample(model, inputs, replace(OPTIONS, depth=d, keep_steps=False)) for d in range(1, depth + 1)]
    for puzzle in range(len(inputs)):
        for trajectory in range(OPTIONS.width):
            at = puzzle, trajectory
            wants = [d for d in range(1, depth + 1) if by_depth[d - 1].confidence[at] > 0.5]
            steps = min([*wants, depth])
            assert halted.steps[at] == steps
            assert np.array_equal(halted.outputs[at], free.step_outputs[at][steps - 1])
            assert np.array_equal(halted.step_outputs[at][:steps], free.step_outputs[at][:steps])
            assert (halted.step_outputs[at][steps:] == halted.outputs[at]).all()
            assert halted.values[at] == pytest.approx(by_depth[steps - 1].values[at], abs=1e-5)


def test_a_trajectory_halts_when_its_output_is_probable(model: Reasoner) -> None:
    inputs, options = puzzles(6), replace(OPTIONS, depth=6)
    free = sample(model, inputs, options)
    assert free.step_certainty is not None
    # The decoder's probability of its output, the product over all positions.
    last = sample(model, inputs, replace(options, keep_states=True)).states[:, :, -1].reshape(-1, *model.state_shape)
    with torch.inference_mode():
        chances = model.decoder.logits(torch.from_numpy(last)).softmax(dim=-1).amax(dim=-1).prod(dim=-1)
    assert free.step_certainty[:, :, -1].flatten() == pytest.approx(chances.numpy(), rel=1e-4)
    threshold = float(np.median(free.step_certainty.max(axis=2)))  # half of the trajectories reach it
    halted = sample(model, inputs, replace(options, halt=True, halt_at=threshold, halt_by="output"))
    expected = free.halting(threshold, "output")
    assert len(np.unique(halted.steps)) > 1
    assert np.array_equal(halted.steps, expected.steps)
    assert np.array_equal(halted.outputs, expected.outputs)
    assert not np.array_equal(free.halting(threshold).steps, expected.steps)


def test_halting_at_once(tiny_model: ModelBuilder) -> None:
    model = tiny_model()
    with torch.no_grad():
        model.decoder.halt.weight.zero_()
        model.decoder.halt.bias.fill_(1.0)
    found = sample(model, puzzles(2), replace(OPTIONS, depth=4, halt=True))
    assert (found.steps == 1).all()
    assert (found.step_outputs == found.outputs[:, :, None]).all()


def test_step_codes_go_on_through_the_depth(tiny_model: ModelBuilder) -> None:
    model = tiny_model(guidance="none", step_embedding=True)
    inputs = torch.from_numpy(puzzles(3))
    found = sample(model, puzzles(3), SampleOptions(width=1, depth=4, keep_steps=True))
    state = model.initial_state(3)
    with torch.no_grad():
        for step in range(4):
            first = torch.full((3,), step * model.config.transitions)
            state = model.step(state, model.encoder(inputs), lambda t: None, first_transition=first).state
            expected = model.decoder.logits(state.h).argmax(dim=-1).numpy()
            assert np.array_equal(found.step_outputs[:, 0, step], expected)


@pytest.mark.parametrize(
    ("final", "expected_final", "horizon", "size"),
    [(None, 0.7, None, 1), (0.1, 0.1, None, 1), (0.1, 0.1, 3, 1), (0.1, 0.1, 2, 2 / 3), (None, 0.7, 1, 1 / 3)],
)
def test_a_trajectory_is_the_models_own_steps_and_its_figures_the_heads_of_the_last_state(
    model: Reasoner, final: float | None, expected_final: float, horizon: int | None, size: float
) -> None:
    options = replace(OPTIONS, width=2, temperature=0.7, temperature_final=final, horizon=horizon, seed=5)
    inputs, temperatures = puzzles(3), torch.linspace(0.7, expected_final, options.depth) / size**0.5
    shape = (model.tokens, model.config.dim)
    found = sample(model, inputs, options)
    for puzzle, trajectory in np.ndindex(3, 2):
        e_x, state = model.encoder(torch.from_numpy(inputs[[puzzle]])), model.initial_state(1)
        with torch.no_grad():
            for step in range(options.depth):
                key = derive(keys_of(inputs[puzzle], 5, trajectory, step), TRANSITION)
                noise = [normal(derive(key, t), *shape) for t in range(model.config.transitions)]
                after = model.step(state, e_x, scaled(noise.__getitem__, temperatures[step, None])).state
                assert state.l is not None
                assert after.l is not None
                state = State(state.h + size * (after.h - state.h), state.l + size * (after.l - state.l))
                expected = model.decoder.logits(state.h).argmax(dim=-1)[0].tolist()
                assert found.step_outputs[puzzle, trajectory, step].tolist() == expected
            readout = model.decoder.readout(state.h)
        assert found.values[puzzle, trajectory] == pytest.approx(float(readout.value.sigmoid()), abs=1e-5)
        assert found.confidence[puzzle, trajectory] == pytest.approx(float(readout.q_halt.sigmoid()), abs=1e-5)


@pytest.mark.parametrize(("final", "groups"), [(None, [[1, 3, 2]]), (1.0, [[1, 3, 2]]), (0.2, [[1], [3], [2]])])
def test_depths_share_trajectories_unless_the_temperature_falls(
    model: Reasoner, final: float | None, groups: list[list[int]]
) -> None:
    options = replace(OPTIONS, temperature=1.0, temperature_final=final, halt=True, keep_steps=False)
    assert sharing_depths(model, options, (1, 3, 2)) == groups
    seen: list[int] = []
    found = dict(sample_depths(model, puzzles(4), options, (1, 3, 2), first=2, progress=seen.append))
    assert sum(seen) == 4 * OPTIONS.width * len(groups)
    for depth, here in found.items():
        assert_same(here, sample(model, puzzles(4), replace(OPTIONS, depth=depth, temperature_final=final), first=2))


def test_a_model_without_noise_has_the_same_trajectories_at_any_temperature(tiny_model: ModelBuilder) -> None:
    silent = tiny_model(dim=16, guidance="none").eval()
    assert sharing_depths(silent, replace(OPTIONS, temperature_final=0.1), (1, 2)) == [[1, 2]]


# --- the rest ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [1.0, 0.0])
def test_progress_counts_every_trajectory(model: Reasoner, temperature: float) -> None:
    seen: list[int] = []
    sample(model, puzzles(5), replace(OPTIONS, temperature=temperature), chunk=7, progress=seen.append)
    assert sum(seen) == 5 * OPTIONS.width
    assert len(seen) > 1 or temperature == 0
