"""Noise belongs to the example: samples and training do not depend on what else is in the batch."""

from collections.abc import Callable

import pytest
import torch
from numpy.testing import assert_array_equal

from gram.config import Recipe, SampleOptions
from gram.inference.sample import sample
from gram.models.base import Model
from gram.models.baselines.base import draw, spread_samples
from gram.models.noise import spread
from gram.models.registry import build_model
from gram.tasks import make_task
from gram.training.launch import make_fabric
from gram.training.step import Trainer
from tests.models.baselines.helpers import KINDS, keys, recipe_of_kind


@pytest.fixture(params=KINDS)
def recipe(request: pytest.FixtureRequest, queens_recipe: Callable[..., Recipe]) -> Recipe:
    return recipe_of_kind(queens_recipe, request.param)


@pytest.fixture
def model(recipe: Recipe) -> Model:
    task = make_task(recipe.task.name, **recipe.task.options)
    torch.manual_seed(0)
    model = build_model(recipe, vocab_size=task.vocab_size, length=task.length, structure=task.structure)
    for part in model.modules():  # some heads are 0 at first, and their outputs do not depend on anything
        if isinstance(part, torch.nn.Linear) and not part.weight.any():
            torch.nn.init.normal_(part.weight, std=0.1)
    return model.eval()


def test_an_output_belongs_to_its_puzzle_seed_and_number(model: Model) -> None:
    inputs = torch.randint(3, (4, model.length), generator=torch.Generator().manual_seed(0)).numpy()
    options = SampleOptions(width=5, seed=3)
    found = sample(model, inputs, options).outputs
    for chunk in (1, 3, 7, 1000):
        assert_array_equal(sample(model, inputs, options, chunk=chunk).outputs, found)
    assert_array_equal(sample(model, inputs[2:3], options.changed(width=2)).outputs[0], found[2, :2])
    assert_array_equal(sample(model, inputs[1:2], options.changed(width=1), first=4).outputs[0], found[1, 4:])
    rows = {row.tobytes() for row in found.reshape(-1, model.length)}
    assert len(rows) == 20
    assert not (sample(model, inputs, options.changed(seed=4)).outputs == found).all()


def test_training_does_not_depend_on_micro_batches(recipe: Recipe) -> None:
    runs = []
    for micro_batch in (8, 2, 1):
        changed = recipe.model_copy(update={"train": recipe.train.model_copy(update={"micro_batch": micro_batch})})
        task = make_task(recipe.task.name, **recipe.task.options)
        trainer = Trainer(changed, task, task.split("train"), make_fabric("cpu", "32-true"))
        runs.append([float(trainer.step()["loss"].detach()) for _ in range(3)])
    assert runs[1] == pytest.approx(runs[0], rel=1e-4)
    assert runs[2] == pytest.approx(runs[0], rel=1e-4)
    assert len(set(runs[0])) == 3


@pytest.mark.parametrize("start", [0, 12345])
def test_successive_examples_see_all_times_evenly(start: int) -> None:
    count = 100
    seen = spread(keys(start + count)[start:]).sort().values
    gaps = torch.cat((seen.diff(), seen[:1] + 1 - seen[-1:]))
    assert float(gaps.max()) < 2.7 / count  # independent numbers leave gaps of about log(count) / count
    assert not torch.equal(spread(keys(3, seed=1)), spread(keys(3)))


def test_the_times_of_a_likelihood_are_spread_over_equal_parts() -> None:
    times = spread_samples(keys(50), 8)
    assert_array_equal((times * 8).long(), torch.arange(8)[:, None].expand(-1, 50))
    assert len(times.unique()) == times.numel()


def test_draws_follow_the_probabilities() -> None:
    probabilities = torch.tensor([0.0, 3.0, 0.0, 1.0, 0.0])
    chance = torch.tensor([0.0, 0.5, 0.74, 0.76, 1 - 2.0**-24])
    assert draw(probabilities.expand(5, -1), chance).tolist() == [1, 1, 1, 3, 3]
    even = (torch.arange(4000) + 0.5) / 4000
    assert torch.bincount(draw(probabilities.expand(4000, -1), even)).tolist() == [0, 3000, 0, 1000]
    sharp = torch.rand(2000, 11, generator=torch.Generator().manual_seed(0)) ** 8
    sharp[:, -3:] = 0
    assert int(draw(sharp, torch.full((2000,), 1 - 2.0**-24)).max()) < 8  # rounding reaches no impossible choice
