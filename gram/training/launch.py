"""The processes of a training: those that `torchrun` or SLURM has started, otherwise this one only."""

import os
from datetime import timedelta

import torch
from lightning_fabric import Fabric
from lightning_fabric.strategies.ddp import DDPStrategy
from torch import distributed
from torch.distributed.rendezvous import rendezvous

from gram.config import TrainConfig
from gram.machine import check_precision, choose_device, keep_freed_memory
from gram.processes import started_processes

RESTARTS = "TORCHELASTIC_RESTART_COUNT"
"""Environment variable in which torchrun counts how often it has restarted the processes."""
PATIENCE = timedelta(minutes=10)
"""How long a process waits for the others before it gives up: longer than one of them may need to prepare its data."""


def prepare_machine(config: TrainConfig) -> str:
    """Set threads and allocator up and return the device; raise `GramError` for what this machine does not support."""
    device = choose_device(config.device)
    check_precision(config.precision, device)
    if config.threads:
        torch.set_num_threads(config.threads)
    keep_freed_memory()
    return device


def make_fabric(device: str, precision: str) -> Fabric:
    """Connect the processes of this run."""
    accelerator, _, number = device.partition(":")
    per_node, nodes = started_processes()
    if per_node * nodes == 1:
        return Fabric(accelerator=accelerator, devices=[int(number)] if number else 1, precision=precision)  # type: ignore[arg-type]
    if RESTARTS in os.environ:
        _join(accelerator)
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


def _join(accelerator: str) -> None:
    """Connect torchrun's processes before Fabric would do it.

    torchrun keeps its table of addresses when it restarts the processes, and a new process may read the address of an
    old one there. Each start has a part of the table to itself.
    """
    store, rank, size = next(rendezvous("env://", timeout=PATIENCE))
    store = distributed.PrefixStore(f"start-{os.environ[RESTARTS]}", store)  # type: ignore[attr-defined]
    backend = "nccl" if accelerator == "cuda" else "gloo"
    distributed.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=PATIENCE)
