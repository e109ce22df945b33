"""Sampling by several processes: each samples a part of the puzzles, and all receive all trajectories."""

from typing import Any, cast

import numpy as np
import torch
from lightning_fabric import Fabric
from numpy.typing import NDArray
from torch import Tensor

from gram.config import SampleOptions
from gram.inference.sample import Progress, Trajectories, sample
from gram.models.base import Model
from gram.tasks.base import Tokens


def sample_together(
    fabric: Fabric,
    model: Model,
    inputs: Tokens,
    options: SampleOptions,
    *,
    puzzle_ids: Tokens | None = None,
    progress: Progress | None = None,
) -> Trajectories:
    """Sample as `sample` does, in parallel; every process must call it with the same arguments.

    `progress` assumes that the other processes are as far as this one.
    """
    if fabric.world_size == 1:
        return sample(model, inputs, options, puzzle_ids=puzzle_ids, progress=progress)
    # The last puzzle fills up the parts, which must be equally large.
    per_process = -(-len(inputs) // fabric.world_size)
    places = np.minimum(np.arange(per_process * fabric.world_size), len(inputs) - 1).reshape(per_process, -1)
    own = places[:, fabric.global_rank]
    ids = None if puzzle_ids is None else puzzle_ids[own]
    every = None if progress is None else lambda count: progress(count * fabric.world_size)
    part = sample(model, inputs[own], options, puzzle_ids=ids, progress=every)

    def gathered(array: NDArray[Any]) -> NDArray[Any]:
        parts = cast(Tensor, fabric.all_gather(torch.from_numpy(np.ascontiguousarray(array)).to(fabric.device)))
        return parts.transpose(0, 1).flatten(0, 1)[: len(inputs)].cpu().numpy()

    return part.each(gathered)
