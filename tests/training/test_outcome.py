"""What a training starts from, which weights it keeps, what it prints on the way, and the card that it leaves."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file

from gram.checkpoints.card import read_card
from gram.config import Recipe
from gram.errors import GramError, Interrupted
from gram.training import loop
from gram.training.loop import resume, train
from gram.training.step import Trainer

RecipeBuilder = Callable[..., Recipe]


def quiet() -> Console:
    return Console(file=io.StringIO())


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(tensor, other[name]) for name, tensor in one.items())


@pytest.fixture
def pretend_validation(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[float]], None]:
    """Let the validations of a run come to these accuracies."""

    def pretend(accuracies: list[float]) -> None:
        def figures(*_: Any, **__: Any) -> dict[str, float]:
            return {"validation_accuracy_all_samples": accuracies.pop(0), "validation_coverage": 0.5}

        monkeypatch.setattr(loop, "validate", figures)

    return pretend


# --- which weights are kept ------------------------------------------------------------------------------------------


def test_the_best_weights_are_kept_and_tested(
    queens_recipe: RecipeBuilder, tmp_path: Path, pretend_validation: Callable[[list[float]], None]
) -> None:
    steps = {"steps": 6, "eval_every": 2, "keep": "best"}
    pretend_validation([0.2, 0.6, 0.4])
    result = train(queens_recipe(train=steps), tmp_path / "best", quiet())
    assert json.loads((tmp_path / "best" / "config.json").read_text())["steps"] == 4
    pretend_validation([0.2, 0.6, 0.4])
    last = train(queens_recipe(train=steps | {"keep": "last"}), tmp_path / "last", quiet())
    assert json.loads((tmp_path / "last" / "config.json").read_text())["steps"] == 6
    assert not same(weights(tmp_path / "best"), weights(tmp_path / "last"))
    assert result.keys() == last.keys()
    # test.json is of the weights that were kept
    from gram.solver import load

    again = load(tmp_path / "best").evaluate("test")
    assert all(result[key] == again[key] for key in ("accuracy_all_samples", "coverage", "conflicts"))


def test_a_resumed_run_remembers_the_best(
    queens_recipe: RecipeBuilder,
    tmp_path: Path,
    pretend_validation: Callable[[list[float]], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recipe, out = queens_recipe(train={"steps": 6, "eval_every": 2, "keep": "best", "save_every": 1}), tmp_path / "run"
    pretend_validation([0.6, 0.4, 0.3])
    step = Trainer.step

    def killed(trainer: Trainer) -> dict[str, Any]:
        if trainer.step_number == 3:
            raise KeyboardInterrupt
        return step(trainer)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "step", killed)
        with pytest.raises(KeyboardInterrupt):
            train(recipe, out, quiet())
    resume(out, quiet())
    assert json.loads((out / "config.json").read_text())["steps"] == 2


def test_best_needs_something_to_choose_by(queens_recipe: RecipeBuilder, tmp_path: Path) -> None:
    options = {"options": {"size": 5, "validation_share": 0}}
    with pytest.raises(GramError, match="keep: best needs"):
        train(queens_recipe(train={"keep": "best"}, task=options), tmp_path / "run", quiet())
    assert not (tmp_path / "run").exists()


# --- starting from a model -------------------------------------------------------------------------------------------


def test_a_run_starts_from_the_weights_of_a_model(
    queens_recipe: RecipeBuilder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    train(queens_recipe(), first, quiet())
    seen = []
    step = Trainer.step

    def noted(trainer: Trainer) -> dict[str, Any]:
        if not seen:
            seen.append({name: tensor.clone() for name, tensor in trainer.model.state_dict().items()})
            waiting = trainer.pool.take().state
            assert waiting is not None
            assert torch.equal(waiting.h, trainer.model.h_init.expand_as(waiting.h))
        return step(trainer)

    monkeypatch.setattr(Trainer, "step", noted)
    train(queens_recipe(train={"seed": 1}), second, quiet(), start=first)
    assert same(weights(first), seen[0])
    assert not same(weights(first), weights(second))


def test_a_run_that_stops_at_once_resumes_from_these_weights(
    queens_recipe: RecipeBuilder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, whole, out = tmp_path / "first", tmp_path / "whole", tmp_path / "run"
    train(queens_recipe(), first, quiet())
    recipe = queens_recipe(train={"seed": 1})
    train(recipe, whole, quiet(), start=first)

    def killed(_: Trainer) -> dict[str, Any]:
        raise Interrupted("killed", 15)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "step", killed)
        with pytest.raises(Interrupted):
            train(recipe, out, quiet(), start=first)
    resume(out, quiet())
    assert same(weights(whole), weights(out))


def test_a_model_of_another_shape_is_refused_before_the_run_begins(
    queens_recipe: RecipeBuilder, tmp_path: Path
) -> None:
    train(queens_recipe(), tmp_path / "first", quiet())
    with pytest.raises(GramError, match="does not fit"):
        train(queens_recipe(model={"dim": 8, "heads": 2}), tmp_path / "run", quiet(), start=tmp_path / "first")
    assert not (tmp_path / "run" / "run.json").exists()


# --- what is printed and written -------------------------------------------------------------------------------------


def test_without_a_terminal_there_is_a_line_for_every_line_of_the_log(
    queens_recipe: RecipeBuilder, tmp_path: Path
) -> None:
    text = io.StringIO()
    train(queens_recipe(), tmp_path / "run", Console(file=text, width=80))
    lines = text.getvalue().splitlines()
    assert [line.partition(":")[0] for line in lines if line.startswith("step ")] == ["step 2 of 4", "step 4 of 4"]
    assert any(line.startswith("validation: 8 of 8") for line in lines)
    assert any(line.startswith("evaluating on the test split: ") for line in lines)
    assert max(map(len, lines)) <= 80


def test_in_a_terminal_the_metrics_are_not_cut_at_80_columns(queens_recipe: RecipeBuilder, tmp_path: Path) -> None:
    text = io.StringIO()
    console = Console(file=text, width=80, force_terminal=True, color_system=None)
    train(queens_recipe(), tmp_path / "run", console)
    assert "rollout" in text.getvalue()
    assert "\u2026" not in text.getvalue()


def test_a_limit_on_the_test_inputs_is_named(queens_recipe: RecipeBuilder, tmp_path: Path) -> None:
    from gram.cli.report import show_result

    result = train(queens_recipe(train={"test_inputs": 2}), tmp_path / "run", quiet())
    assert (result["inputs"], result["inputs_in_split"] > 2) == (2, True)
    text = io.StringIO()
    show_result(Console(file=text, width=200), result)
    assert f"2 of {result['inputs_in_split']} inputs of the test split" in text.getvalue()


def test_the_model_card_has_the_results_of_the_test(queens_recipe: RecipeBuilder, tmp_path: Path) -> None:
    result = train(queens_recipe(), tmp_path / "run", quiet())
    card = read_card(tmp_path / "run")
    assert card["task"] == "nqueens-5"
    assert card["parameters"] == result["parameters"]
    assert card["results"]["coverage"] == pytest.approx(result["coverage"], abs=1e-4)
    assert "depth 2 x width 3" in card["settings"]
    from huggingface_hub import ModelCard

    (coverage,) = [
        found.metric_value
        for found in ModelCard.load(tmp_path / "run" / "README.md").data.eval_results or []
        if found.metric_type == "coverage"
    ]
    assert coverage == card["results"]["coverage"]
