"""Latent trajectories: the states of every supervision step in two dimensions, over the loss landscape."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from numpy.typing import NDArray
from scipy.spatial import KDTree
from sklearn.decomposition import PCA

from gram.config import SampleOptions
from gram.errors import GramError
from gram.inference.judge import judge
from gram.models.losses import reconstruction_loss
from gram.models.rollout import Batch
from gram.plots.style import PLAIN_NUMBERS, save_figure
from gram.tasks.base import Tokens

if TYPE_CHECKING:
    from gram.solver import Solver

NEIGHBOURS = 8
"""Visited states that a point of the landscape is interpolated from."""
GRID = 160
SMALLEST = 1e-6
"""Losses below this are drawn alike."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Paths:
    """Trajectories of one puzzle in the plane of their two main directions."""

    points: Floats
    """[trajectories, steps + 1, 2], from h_0 on"""
    losses: Floats
    """[trajectories, steps + 1] cross-entropy per token with the nearest solution"""
    valid: NDArray[np.bool_]
    """[trajectories] the last output is a solution"""
    explained: Floats
    """[2] share of the variance along each axis"""


def latent_paths(solver: "Solver", given: Tokens, options: SampleOptions) -> Paths:
    """Follow the trajectories (one is enough for a deterministic model) of one puzzle [length] to the full depth."""
    width, depth = 1 if solver.reasoner.is_deterministic(options) else options.width, options.depth
    solutions = solver.task.solutions(given)
    if solutions is None or not len(solutions):
        raise GramError(
            f"The solutions of this {solver.task.name} puzzle cannot be listed, so the loss cannot be computed."
        )
    if width * depth < 2:
        raise GramError("A single state has no principal directions: raise --width or --depth.")
    batch = Batch(solver.reasoner, given[None], replace(options, halt=False))
    batch.add([(0, number) for number in range(width)])
    states, losses = [batch.state.h.flatten(1).cpu().numpy()], [_loss(solver, batch.state.h, solutions)]
    for _ in range(depth):
        made = batch.advance()
        states.append(batch.state.h.flatten(1).cpu().numpy())
        losses.append(_loss(solver, batch.state.h, solutions))
    valid = judge(solver.task, given, made.outputs).valid
    visited = np.stack(states, axis=1)  # [width, steps + 1, tokens x dim]
    flat = visited.reshape(-1, visited.shape[-1])
    # h_0 is the same for all puzzles and far from every other state: it would take the first direction for itself.
    thinking = visited[:, 1:].reshape(-1, visited.shape[-1])
    pca = PCA(n_components=2, svd_solver="randomized", random_state=0).fit(thinking)
    points = pca.transform(flat).reshape(width, depth + 1, 2).astype(np.float64)
    return Paths(points, np.stack(losses, axis=1), valid, pca.explained_variance_ratio_)


@torch.inference_mode()
def _loss(solver: "Solver", h: torch.Tensor, solutions: Tokens) -> Floats:
    """[rows] of states [rows, tokens, dim]: the smallest loss over all solutions [solutions, length]."""
    logits = solver.reasoner.decoder.logits(h)
    kind = solver.recipe.objective.cross_entropy
    targets = torch.from_numpy(solutions).to(h.device)
    each = [reconstruction_loss(logits, target.expand(len(h), -1), kind) for target in targets]
    return torch.stack(each).amin(dim=0).double().cpu().numpy()


def landscape(paths: Paths, x: Floats, y: Floats) -> Floats:
    """[len(y), len(x)] loss, interpolated from the nearest visited states by inverse squared distance."""
    tree = KDTree(paths.points.reshape(-1, 2))
    grid = np.stack(np.meshgrid(x, y), axis=-1)
    count = min(NEIGHBOURS, tree.n)
    distance, index = tree.query(grid.reshape(-1, 2), k=range(1, count + 1))
    weights = 1 / (np.square(distance) + 1e-9)
    values = paths.losses.reshape(-1)[index]
    return ((weights * values).sum(axis=1) / weights.sum(axis=1)).reshape(len(y), len(x))  # type: ignore[no-any-return]


def latent_figure(paths: Paths, title: str, path: Path) -> None:
    """Write the paths over their landscape to a file."""
    figure, axes = plt.subplots(figsize=(7, 5.6), layout="constrained")
    draw_paths(axes, paths)
    save_figure(figure, path, title)


def draw_paths(axes: Axes, paths: Paths) -> None:
    """Draw paths from h_0 (square) to their ends (circle: a solution; cross: none) over the landscape (dark: low)."""
    flat = paths.points.reshape(-1, 2)
    margin = 0.08 * (np.ptp(flat, axis=0) + 1e-6)
    low, high = flat.min(axis=0) - margin, flat.max(axis=0) + margin
    x, y = np.linspace(low[0], high[0], GRID), np.linspace(low[1], high[1], GRID)
    image = axes.imshow(
        np.maximum(landscape(paths, x, y), SMALLEST),
        origin="lower",
        extent=(low[0], high[0], low[1], high[1]),
        aspect="auto",
        cmap="plasma",
        norm=LogNorm(),
    )
    axes.get_figure(root=True).colorbar(  # type: ignore[union-attr]
        image, ax=axes, label="cross-entropy per token, nearest solution", format=PLAIN_NUMBERS
    )
    for points in paths.points:
        axes.plot(*points.T, color="white", linewidth=0.7, alpha=0.6, marker=".", markersize=2)
    start = paths.points[:, 0]
    seen: Any = {"edgecolor": "black", "linewidth": 0.6, "zorder": 3}
    axes.scatter(start[:, 0], start[:, 1], color="#E69F00", marker="s", s=30, label="h_0", **seen)
    # Shape and colour both tell ends apart, for readers who see few colours.
    kinds = ((True, "#56B4E9", "o", "end, a solution"), (False, "white", "X", "end, not a solution"))
    for valid, color, marker, label in kinds:
        ends = paths.points[paths.valid == valid, -1]
        if len(ends):
            text = f"{label} ({len(ends)})"
            axes.scatter(ends[:, 0], ends[:, 1], color=color, marker=marker, s=26, label=text, **seen)
    axes.set(
        xlabel=f"first component ({100 * paths.explained[0]:.0f}% of the variance)",
        ylabel=f"second component ({100 * paths.explained[1]:.0f}%)",
    )
    axes.legend(fontsize=7, frameon=True, framealpha=0.85, facecolor="white")
