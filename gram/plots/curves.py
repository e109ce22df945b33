"""Figures of curves: the metrics of runs, and the calibration of the halt and value heads."""

from pathlib import Path
from typing import Any

from matplotlib import pyplot as plt

from gram.plots.style import STYLES, log_axis, save_figure

ELBO = ("validation_negative_elbo", "validation_surrogate")


def runs_figure(runs: dict[str, list[dict[str, Any]]], path: Path) -> None:
    """Plot the metrics of one or several runs: losses, accuracies, and the ELBO beside the surrogate.

    `runs` holds the lines of each run's log. One run has a colour for each metric; several have a colour each.
    """
    names = dict.fromkeys(name for lines in runs.values() for line in lines for name in line)
    validation = [name for name in names if name.startswith("validation_") and name not in ELBO]
    panels = {
        "loss per labelled token": ["reconstruction", *sorted(name for name in names if name.startswith("kl_"))],
        "fraction correct": ["posterior_accuracy", "rollout_accuracy", *validation],
        "negative ELBO, validation": list(ELBO),
    }
    panels = {label: [name for name in some if name in names] for label, some in panels.items()}
    drawn = {label: some for label, some in panels.items() if some} or {"loss": ["loss"]}
    figure, (row,) = plt.subplots(1, len(drawn), figsize=(5 * len(drawn), 4), squeeze=False, layout="constrained")
    for axes, (label, metrics) in zip(row, drawn.items(), strict=True):
        for number, (run, lines) in enumerate(runs.items()):
            for place, name in enumerate(metrics):
                points = [(line["step"], line[name]) for line in lines if line.get(name) is not None]
                if points:
                    axes.plot(
                        *zip(*points, strict=True),
                        STYLES[place % len(STYLES)] if len(runs) > 1 else "-",
                        color=f"C{(number if len(runs) > 1 else place) % 10}",
                        label=f"{Path(run).name}: {name}" if len(runs) > 1 else name,
                        marker="." if len(points) < 20 else "",
                    )
        axes.set(xlabel="optimiser step", ylabel=label)
        if axes.lines:
            axes.legend(fontsize=8)
        if label.startswith("loss"):
            log_axis(axes, "y")
    save_figure(figure, path, ", ".join(runs))


def calibration_figure(found: dict[str, Any], title: str, path: Path) -> None:
    """Plot the predicted against the observed probability for each head, and its AUC after every step."""
    figure, (curve, auc) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
    curve.plot([0, 1], [0, 1], color="grey", linewidth=0.8, label="perfect")
    for head, metrics in found.items():
        points = metrics["curve"]
        label = f"{head}: {metrics['of']}"
        curve.plot([p["predicted"] for p in points], [p["true"] for p in points], marker="o", label=label)
        steps = [(step + 1, value) for step, value in enumerate(metrics["auc_by_step"]) if value is not None]
        if steps:
            auc.plot(*zip(*steps, strict=True), marker=".", label=head)
    curve.set(xlabel="predicted probability", ylabel="fraction that is valid")
    auc.set(xlabel="supervision step", ylabel="AUC")
    for axes in (curve, auc):
        axes.legend(fontsize=8)
    save_figure(figure, path, title)
