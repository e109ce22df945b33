"""A tiny recipe through the whole loop: what it writes, that it learns, and that it can be repeated."""

import io
import json
import math
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from torch.testing import assert_close

from gram.checkpoints.folder import load_model
from gram.config import Recipe, SampleOptions
from gram.errors import GramError
from gram.evaluation.evaluate import evaluate
from gram.files import read_json
from gram.tasks.nqueens import NQueens
from gram.training.log import RunLog, summary
from gram.training.loop import train
from gram.training.step import checker_of, moving_average

RecipeBuilder = Callable[..., Recipe]
SHORT = {"steps": 5, "slots": 6, "log_every": 2, "eval_every": 3}


def run(recipe: Recipe, out: Path) -> dict[str, Any]:
    return train(recipe, out, Console(file=io.StringIO()))


def metrics_of(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, queens_recipe: RecipeBuilder) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("loop") / "runs" / "tiny"
    learning = {"steps": 60, "slots": 16, "lr": 0.01, "warmup": 5, "log_every": 10, "eval_every": 30}
    return out, run(queens_recipe(train=learning), out)


def test_the_folder_holds_the_model_and_everything_measured(trained: tuple[Path, dict[str, Any]]) -> None:
    out, result = trained
    names = {path.name for path in out.iterdir()}
    files = {"run.json", "config.json", "model.safetensors", "metrics.jsonl", "test.json", "README.md"}
    assert names == files | {"tensorboard", "checkpoints"}
    assert list((out / "tensorboard").glob("events.out.tfevents.*"))
    assert read_json(out / "test.json") == json.loads(json.dumps(result))
    assert (result["train_steps"], result["train_seed"]) == (60, 0)
    assert (result["depth"], result["width"], result["split"]) == (2, 3, "test")
    model, recipe, config = load_model(out)
    assert config["steps"] == 60
    assert recipe.train.steps == 60
    assert result["parameters"] == sum(p.numel() for p in model.parameters())


def test_metrics_are_written_on_time_and_finite_or_null(trained: tuple[Path, dict[str, Any]]) -> None:
    lines = metrics_of(trained[0])
    assert [line["step"] for line in lines if "loss" in line] == [10, 20, 30, 40, 50, 60]
    assert [line["step"] for line in lines if "validation_coverage" in line] == [30, 60]
    for line in lines:
        assert all(value is None or math.isfinite(value) for value in line.values())
    assert {"reconstruction", "kl_1", "kl_2", "halt", "value", "lr", "gradient_norm"} <= lines[0].keys()
    assert {"validation_negative_elbo", "validation_surrogate"} <= lines[-1].keys()


def test_validation_samples_at_the_temperature_of_the_recipe(
    queens_recipe: RecipeBuilder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def noted(model: Any, task: Any, split: str, options: SampleOptions, **more: Any) -> dict[str, Any]:
        asked.append((split, options.temperature))
        return evaluate(model, task, split, options, **more)

    for module in ("loop", "validation"):
        monkeypatch.setattr(f"gram.training.{module}.evaluate", noted)
    run(queens_recipe(train=SHORT, eval={"temperature": 0.7, "depth": 2, "width": 3}), tmp_path / "run")
    assert asked == [("validation", 0.7), ("validation", 0.7), ("test", 0.7)]


def test_the_loss_falls(trained: tuple[Path, dict[str, Any]]) -> None:
    lines = [line for line in metrics_of(trained[0]) if "loss" in line]
    assert lines[-1]["loss"] < 0.8 * lines[0]["loss"]
    assert lines[-1]["reconstruction"] < lines[0]["reconstruction"]


def test_an_existing_folder_is_refused_untouched(queens_recipe: RecipeBuilder, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_text("precious")
    with pytest.raises(GramError, match="already exists"):
        run(queens_recipe(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]
    assert (tmp_path / "model.safetensors").read_text() == "precious"


@pytest.mark.parametrize(
    "changes",
    [
        {"task": {"name": "chess"}},
        {"train": {"device": "abacus"}},
        {"task": {"options": {"size": 5, "test_share": 0}}},
    ],
    ids=["task", "device", "no-test"],
)
def test_a_recipe_that_cannot_run_makes_no_folder(
    queens_recipe: RecipeBuilder, tmp_path: Path, changes: dict[str, dict[str, object]]
) -> None:
    with pytest.raises(GramError):
        run(queens_recipe(**changes), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_without_a_validation_split_a_run_trains_on_all_and_measures_at_the_end(
    queens_recipe: RecipeBuilder, tmp_path: Path
) -> None:
    recipe = queens_recipe(task={"options": {"size": 5, "validation_share": 0}}, train=SHORT)
    result = run(recipe, tmp_path / "run")
    assert result["split"] == "test"
    lines = metrics_of(tmp_path / "run")
    assert lines
    assert not any(name.startswith("validation_") for line in lines for name in line)
    assert (tmp_path / "run" / "model.safetensors").exists()


def test_the_same_seed_gives_the_same_weights(queens_recipe: RecipeBuilder, tmp_path: Path) -> None:
    results = {}
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        torch.manual_seed(len(results))  # whatever happened before
        results[name] = run(queens_recipe(train={**SHORT, "seed": seed}), tmp_path / name)
    weights = {name: (tmp_path / name / "model.safetensors").read_bytes() for name in results}
    assert weights["a"] == weights["b"]
    assert weights["a"] != weights["c"]
    for result in results.values():
        del result["train_minutes"]
    assert results["a"] == results["b"]


def test_learning_from_rollouts_needs_the_solutions_as_the_slot_sees_them(
    queens_recipe: RecipeBuilder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = queens_recipe(objective={"learn_from_rollouts": True}, train=SHORT)
    run(recipe, tmp_path / "fine")
    monkeypatch.setattr(NQueens, "augments", True)
    with pytest.raises(GramError, match="augments inputs with several solutions"):
        run(recipe, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_the_saved_weights_are_the_averaged_ones(queens_recipe: RecipeBuilder, tmp_path: Path) -> None:
    for name, ema in (("plain", 0.0), ("averaged", 0.9)):
        run(queens_recipe(train={**SHORT, "ema": ema}), tmp_path / name)
    lines = [metrics_of(tmp_path / name) for name in ("plain", "averaged")]
    assert [line["loss"] for line in lines[0] if "loss" in line] == [
        line["loss"] for line in lines[1] if "loss" in line
    ]
    plain, averaged = (load_model(tmp_path / name)[0].state_dict() for name in ("plain", "averaged"))
    assert torch.equal(plain["h_init"], averaged["h_init"])
    assert not torch.allclose(plain["decoder.lm.weight"], averaged["decoder.lm.weight"], rtol=0, atol=1e-6)


def test_a_deterministic_model_trains_with_halting(queens_recipe: RecipeBuilder, tmp_path: Path) -> None:
    recipe = queens_recipe(
        model={"guidance": "none", "halting": "q_learning", "mixing": "attention", "positions": "rope"},
        objective={"cross_entropy": "stablemax"},
        train={**SHORT, "halt_in_training": True, "optimizer": "adam_atan2"},
        eval={"halt": True},
    )
    result = run(recipe, tmp_path / "run")
    assert 1 <= result["mean_steps"] <= 2
    assert not any(name.startswith("validation_negative") for line in metrics_of(tmp_path / "run") for name in line)


# --- the parts --------------------------------------------------------------------------------------------------------


def test_moving_average_is_its_recurrence() -> None:
    update = moving_average(0.5)
    averaged, expected = [torch.tensor([8.0, -8.0])], torch.tensor([8.0, -8.0])
    for n in range(1, 40):
        current = torch.tensor([float(n), 1.0])
        update(averaged, [current], torch.tensor(n))
        decay = min(0.5, (1 + n) / (10 + n))
        expected = decay * expected + (1 - decay) * current
        assert_close(averaged[0], expected)
    frozen = [torch.ones(2)]
    moving_average(0.0)(frozen, [torch.zeros(2)], 5)
    assert_close(frozen[0], torch.zeros(2))  # no decay: the current weights


def test_checker_is_the_tasks_verdict(queens: NQueens) -> None:
    examples = queens.split("train")
    inputs, targets = torch.from_numpy(examples.inputs[:6]), torch.from_numpy(examples.targets[:6]).clone()
    targets[3:, 0] = 0
    assert checker_of(queens)(inputs, targets).tolist() == [True] * 3 + [False] * 3


def test_log_takes_means_and_writes_null_for_nothing(tmp_path: Path) -> None:
    with RunLog(tmp_path) as log:
        for loss, accuracy in ((1.0, math.nan), (3.0, 0.5)):
            log.add({"loss": loss, "kl_1": 0.25, "posterior_accuracy": 1.0, "rollout_accuracy": accuracy})
        means = log.means()
        shown = summary(means)
        log.write(2, means | {"lr": 0.1})
        log.add({"loss": 7.0, "posterior_accuracy": 1.0, "rollout_accuracy": math.nan})
        log.write(3, log.means())
    first, second = metrics_of(tmp_path)
    assert (first["loss"], first["rollout_accuracy"], first["lr"]) == (2.0, 0.5, 0.1)
    assert (second["loss"], second["rollout_accuracy"]) == (7.0, None)
    assert "loss 2.000" in shown
    assert "kl 0.250" in shown


def test_a_full_disk_is_an_error_of_the_system_also_in_tensorboard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tensorboard.summary.writer.record_writer.RecordWriter.write", full)
    with pytest.raises(OSError, match="No space left"), RunLog(tmp_path) as log:
        log.write(1, {"loss": 0.5})


class OnlineRun:
    """What wandb.init returns, as far as it is used."""

    def __init__(self, **settings: Any) -> None:
        self.settings, self.lines, self.finished = settings, [], False

    def log(self, figures: dict[str, float], step: int) -> None:
        self.lines.append((step, figures))

    def finish(self) -> None:
        self.finished = True


def test_weights_and_biases_gets_the_same_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = types.ModuleType("wandb")
    package.init = lambda **settings: OnlineRun(**settings)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wandb", package)
    with RunLog(tmp_path, wandb="puzzles") as log:
        log.write(3, {"loss": 0.5, "nothing": math.nan})
    assert (log.online.settings["project"], log.online.settings["id"]) == ("puzzles", tmp_path.name)
    assert log.online.lines == [(3, {"loss": 0.5})]
    assert log.online.finished


def test_a_missing_package_is_named_before_any_work(
    queens_recipe: RecipeBuilder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(GramError, match="pip install wandb"):
        run(queens_recipe(train={"wandb": "puzzles"}), tmp_path / "run")
    assert not (tmp_path / "run").exists()
