"""The processes that torchrun or SLURM has started together, from their environment variables."""

import os

from gram.errors import GramError


def started_processes() -> tuple[int, int]:
    """Return how many processes there are per node, and how many nodes; (1, 1) for a single process."""
    environment = os.environ
    if "LOCAL_WORLD_SIZE" in environment and "WORLD_SIZE" in environment:  # torchrun
        per_node = _number("LOCAL_WORLD_SIZE", least=1)
        world = _number("WORLD_SIZE", least=1)
        if world % per_node:
            raise GramError(f"WORLD_SIZE ({world}) is not a multiple of LOCAL_WORLD_SIZE ({per_node}).")
        return per_node, world // per_node
    if "SLURM_NTASKS_PER_NODE" in environment and environment.get("SLURM_STEP_ID"):  # srun
        nodes = _number("SLURM_NNODES", least=1) if "SLURM_NNODES" in environment else 1
        return _number("SLURM_NTASKS_PER_NODE", least=1), nodes
    return 1, 1


def process_rank() -> int:
    """Return the number of this process among those that were started together; 0 for a single process."""
    per_node, nodes = started_processes()
    if per_node * nodes == 1:
        return 0
    name = "RANK" if "RANK" in os.environ else "SLURM_PROCID"
    return _number(name, least=0) if name in os.environ else 0


def is_first_process() -> bool:
    """Return whether this process prints and writes for all processes of the run."""
    return process_rank() == 0


def _number(name: str, least: int) -> int:
    text = os.environ[name]
    if not text.strip().isdecimal() or int(text) < least:
        raise GramError(f"The environment variable {name} must be a whole number from {least} up, not '{text}'.")
    return int(text)
