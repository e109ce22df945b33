"""The commands that evaluate a model: `eval` and `tune`."""

from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Annotated

import typer

from gram.checkpoints.card import write_card
from gram.checkpoints.find import own_folder
from gram.checkpoints.folder import change_eval_settings
from gram.cli.common import console, numbers, refuse_ignored, say, write_json
from gram.cli.options import Ablations, AllowOtherData, JsonFile, Limit, Loading, Model, Seed, Split
from gram.cli.report import show_result, show_tuning
from gram.cli.targets import check_target, check_targets
from gram.config import SampleOptions, settings_text
from gram.errors import GramError
from gram.evaluation.evaluate import evaluate, headlines
from gram.evaluation.tune import WIDTH, Temperatures, Tuning, temperature_settings, tune_settings
from gram.files import locked
from gram.inference.resampling import Resampling
from gram.progress import bar


def evaluate_model(
    model: Model,
    *,
    sampling: Ablations,
    split: Split = "test",
    limit: Limit = None,
    resample: Annotated[str, typer.Option(help="Resample by value (LPRM) after these steps, such as 2,4.")] = "",
    power: Annotated[float | None, typer.Option(help="Resampling weights are value ** power; 1 by default.")] = None,
    calibration: Annotated[
        bool, typer.Option("--calibration", help="Measure and plot the calibration of the halt and value heads.")
    ] = False,
    figure: Annotated[
        Path | None, typer.Option(help="File of the calibration plot; gram-calibration.png by default.")
    ] = None,
    json_file: JsonFile = None,
    submission: Annotated[Path | None, typer.Option(help="ARC: write a Kaggle submission file.")] = None,
    card: Annotated[
        bool, typer.Option("--card", help="Write the results into the model card of the model's folder.")
    ] = False,
    both: Annotated[
        bool, typer.Option("--both", help="With halting: evaluate at full depth as well; --card does so by itself.")
    ] = False,
    allow_other_data: AllowOtherData = False,
) -> None:
    """Evaluate a model on held-out inputs.

    Reports accuracy and coverage of the solutions (validity for generated boards, pass@k for ARC).
    """
    given = sampling.given()
    refuse_ignored(
        (power is not None and not resample, "--power needs --resample."),
        (figure is not None and not calibration, "--figure needs --calibration, which it draws."),
        (calibration and given.get("halt", False), "--calibration needs all steps: leave out --halt."),
        (calibration and "halt_at" in given, "--calibration needs all steps: leave out --halt-at."),
    )
    plot = (figure or Path("gram-calibration.png")) if calibration else None
    check_targets([model], json=json_file, submission=submission, figure=plot)
    folder = own_folder(model) if card else None
    solver = sampling.load(model)
    if not allow_other_data:
        solver.check_data()
    options = sampling.options(solver, **({"halt": False, "keep_steps": True} if calibration else {}))
    resampling = Resampling(numbers("resample", resample), 1.0 if power is None else power) if resample else None
    if resampling is not None:
        options = options if given.get("halt") else replace(options, halt=False)
        resampling.check(options)
    refuse_ignored((both and not options.halt, "--both compares halting with full depth, and nothing halts: --halt."))
    if calibration and not solver.task.has_rules:
        raise GramError(f"Task {solver.task.name} has no checker to calibrate the heads against.")
    if submission is not None and (solver.task.scoring != "votes" or split != "test"):
        raise GramError("A submission is written for the test split of ARC only.")
    examples = solver.task.split(split)
    both = both or (card and options.halt)
    with bar(console, "sampling", len(examples.distinct(limit).rows) * options.width * (1 + both)) as advance:
        result = evaluate(
            solver.model,
            solver.task,
            split,
            options,
            limit=limit,
            progress=advance,
            examples=examples,
            submission=submission,
            resampling=resampling,
            full_depth=both,
        )
    result["model"] = model
    show_result(console, result)
    if plot is not None:
        from gram.plots.curves import calibration_figure  # matplotlib: most evaluations draw nothing

        title = f"{model}: {result['task']}, {split} split, {settings_text(solver.supported(options))}"
        calibration_figure(result["calibration"], title, plot)
        say(f"Calibration plot: {plot}")
    if folder is not None:
        write_card(folder, result, headlines(solver.task), settings_text(solver.supported(options)))
        say(f"Model card: {folder}")
    write_json(json_file, result)


def tune(
    model: Annotated[str, typer.Argument(help="A model folder. Shipped models must be copied first.")],
    *,
    loading: Loading,
    depths: Annotated[str, typer.Option(help="Depths to try.")] = "8,16",
    temperatures: Annotated[
        str, typer.Option(help="Temperatures to try; 1.6:0.6 falls from the first step to the last.")
    ] = "1,1.15,1.3,1.6:0.6",
    accuracy: Annotated[float, typer.Option(min=0, max=1, help="Smallest acceptable accuracy.")] = 0.99,
    width: Annotated[int, typer.Option(min=1, help="Trajectories per puzzle.")] = WIDTH,
    limit: Limit = None,
    seed: Seed = 0,
    json_file: JsonFile = None,
    allow_other_data: AllowOtherData = False,
) -> None:
    """Choose depth, temperature and halting on the VALIDATION split, and write them into the model's folder.

    Among all settings whose accuracy over all samples reaches --accuracy, the one with the highest coverage is chosen;
    if none does, the one with the highest accuracy. Halting is switched on, at the threshold with the fewest steps,
    if its accuracy is within 0.2 points of no halting, and off otherwise; --no-halt goes to full depth.
    """
    folder = own_folder(model)
    check_target(folder / "tuned")  # the folder must be writable
    check_targets([model], json=json_file)
    tried = tuple(numbers("depths", depths)), tuple(numbers("temperatures", temperatures, _temperatures))
    for depth, asked in product(*tried):  # refuses what cannot be sampled
        SampleOptions().changed(depth=depth, width=width, **temperature_settings(asked))
    with locked(folder):  # a training would write its own settings over those that are chosen here
        solver = loading.load(folder)
        if not allow_other_data:
            solver.check_data()
        tuned = tune_settings(solver, Tuning(*tried, limit, accuracy), console, width=width, seed=seed)
        show_tuning(console, tuned)
        change_eval_settings(folder, **tuned.settings, **tuned.halting_settings)
    about = {"model": model, "task": solver.task.name, "split": "validation", "split_hash": solver.task.split_hash()}
    write_json(json_file, {**about, "width": width, "seed": seed, "limit": limit, **asdict(tuned)})


def _temperatures(text: str) -> Temperatures:
    """Parse a temperature, or those of the first and of the last step: 1.6:0.6."""
    first, _, final = text.partition(":")
    return float(first), float(final or first)
