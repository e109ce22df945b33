"""The paper's table of image generators: Inception Score and FID of every model, a recursive one at several depths."""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gram.config import SampleOptions
from gram.evaluation.image_scores import ImageScores, Network, image_scores
from gram.inference.sample import Progress, sample_depths
from gram.inference.stream import blank_input, generate
from gram.solver import Solver

AT_ONCE = 250
"""Trajectories whose steps are kept together."""
SHOWN = 10


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    model: str
    steps: int
    """supervision steps, diffusion steps, or 1"""
    parameters: int
    settings: dict[str, Any]
    """what else it was told"""
    scores: ImageScores
    shown: NDArray[np.uint8]
    """[SHOWN, length] the first samples"""

    def as_json(self) -> dict[str, Any]:
        """Return everything except the images."""
        scores = asdict(self.scores)
        return {"model": self.model, "steps": self.steps, "parameters": self.parameters, **self.settings, **scores}


def image_rows(
    name: str,
    solver: Solver,
    *,
    count: int,
    depths: list[int],
    options: SampleOptions,
    network: Network = "classifier",
    device: str = "auto",
    progress: Progress | None = None,
) -> list[Row]:
    """Return the lines of one model: `count` images each, at each of `depths` if it is recursive.

    At a constant temperature all depths use the same trajectories, so they differ only in the number of steps.
    """
    if solver.model.recursive:
        drawn = _by_depth(solver, count, depths, options, progress)
    else:
        steps = options.steps or solver.model.sampling_steps or 1
        drawn = {steps: generate(solver, count, options, progress=progress)}
    rows = []
    for steps, images in drawn.items():
        scores = image_scores(images, network=network, device=device, seed=options.seed)
        settings = options.only(solver.model.supported & {"temperature", "temperature_final", "seed"})
        rows.append(Row(name, steps, solver.model.parameter_count, settings, scores, images[:SHOWN]))
    return rows


def _by_depth(
    solver: Solver, count: int, depths: list[int], options: SampleOptions, progress: Progress | None
) -> dict[int, NDArray[np.uint8]]:
    """Images [count, length] at each depth."""
    blocks: dict[int, list[NDArray[np.uint8]]] = {depth: [] for depth in depths}
    model, blank = solver.model, blank_input(solver.task)
    for start in range(0, count, AT_ONCE):
        some = replace(options, width=min(AT_ONCE, count - start))
        for depth, found in sample_depths(model, blank, some, depths, first=start, progress=progress):
            blocks[depth].append(found.outputs[0].astype(np.uint8))
    return {depth: np.concatenate(parts) for depth, parts in blocks.items()}
