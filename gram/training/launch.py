"""How many processes train together: as many as `torchrun` or SLURM has started; otherwise this one alone."""

import os
from datetime import timedelta

from lightning_fabric import Fabric
from lightning_fabric.strategies.ddp import DDPStrategy

PATIENCE = timedelta(minutes=10)
"""How long a process waits for the others before it gives up: longer than one of them may need to prepare its data."""


def make_fabric(device: str, precision: str) -> Fabric:
    """The processes of this run, connected."""
    accelerator, _, number = device.partition(":")
    per_node, nodes = _started()
    if per_node * nodes == 1:
        return Fabric(accelerator=accelerator, devices=[int(number)] if number else 1, precision=precision)  # type: ignore[arg-type]
    # Some ablations leave a head without use: without this, the exchange would wait for its gradient.
    strategy = DDPStrategy(find_unused_parameters=True, timeout=PATIENCE)
    fabric = Fabric(
        accelerator=accelerator,
        devices=per_node,
        num_nodes=nodes,
        strategy=strategy,
        precision=precision,  # type: ignore[arg-type]
    )
    fabric.launch()
    return fabric


def _started() -> tuple[int, int]:
    """Processes per node, and nodes."""
    environment = os.environ
    if "LOCAL_WORLD_SIZE" in environment and "WORLD_SIZE" in environment:  # torchrun
        per_node = int(environment["LOCAL_WORLD_SIZE"])
        return per_node, int(environment["WORLD_SIZE"]) // per_node
    if "SLURM_NTASKS_PER_NODE" in environment and environment.get("SLURM_STEP_ID"):  # srun
        return int(environment["SLURM_NTASKS_PER_NODE"]), int(environment.get("SLURM_NNODES", 1))
    return 1, 1
