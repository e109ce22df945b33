"""Speed of gram beside the published TRM at equal sizes, both interleaved in one run on one thread of a CPU.

    git clone https://github.com/SamsungSAILMontreal/TinyRecursiveModels ../trm && pip install einops
    python benchmarks/published.py ../trm --json results/speed/published.json

Times are CPU times, so that other work on the machine counts little. A training step is a forward and a backward pass
and an update; ours also clips gradients, averages weights and deals examples, and theirs does not. A step of inference
is one supervision step of every row, decoded. The fraction of the peak counts what torch's counter of operations counts
against the fastest large matrix multiply of this machine.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from gram.cli.bench import count_flops, matmul_speed
from gram.config import SampleOptions, load_recipe
from gram.machine import keep_freed_memory
from gram.models.rollout import Batch
from gram.tasks import make_task
from gram.training.fit import resolve_recipe
from gram.training.launch import make_fabric
from gram.training.step import Trainer

ROWS, TOKENS, DIM, HEADS = 128, 64, 128, 8
HIGH_CYCLES, LOW_CYCLES, DEPTH = 3, 4, 16
TOKEN_HIDDEN, CHANNEL_HIDDEN = 256, 512
"""What the published code makes of an expansion of 4."""
WARM_UP = 2
MIXINGS = {
    "mixing": ["model.mixing=tokens", "model.mixing_norm=tokens", "model.positions=none"],
    "attention": ["model.mixing=attention", "model.positions=rope", f"model.heads={HEADS}"],
}


def ours(mixing: str) -> Trainer:
    """Return the trainer of a TRM of ours in the published sizes; its task is 8-queens, which has 64 tokens."""
    sizes = [
        f"model.dim={DIM}",
        f"model.channel_hidden={CHANNEL_HIDDEN}",
        f"model.low_steps={LOW_CYCLES}",
        f"model.transitions={HIGH_CYCLES}",
        f"model.supervision_steps={DEPTH}",
        "model.readout=first",
        "objective.cross_entropy=stablemax",
        f"train.slots={ROWS}",
    ]
    if mixing == "mixing":
        sizes.append(f"model.token_hidden={TOKEN_HIDDEN}")
    recipe = load_recipe("nqueens-8/trm", [*sizes, *MIXINGS[mixing]])
    task = make_task(recipe.task.name, **recipe.task.options)
    return Trainer(resolve_recipe(recipe, task), task, task.split("train"), make_fabric("cpu", "32-true"))


def theirs(mixing: str, vocabulary: int) -> Any:
    """Return the published model with its loss."""
    from models.losses import ACTLossHead  # type: ignore[import-not-found]
    from models.recursive_reasoning.trm import (  # type: ignore[import-not-found]
        TinyRecursiveReasoningModel_ACTV1 as Published,
    )

    settings = {
        "batch_size": ROWS,
        "seq_len": TOKENS,
        "puzzle_emb_ndim": 0,
        "puzzle_emb_len": 0,
        "num_puzzle_identifiers": 1,
        "vocab_size": vocabulary,
        "H_cycles": HIGH_CYCLES,
        "L_cycles": LOW_CYCLES,
        "H_layers": 0,
        "L_layers": 2,
        "hidden_size": DIM,
        "expansion": 4,
        "num_heads": HEADS,
        "pos_encodings": "none" if mixing == "mixing" else "rope",
        "halt_max_steps": DEPTH,
        "halt_exploration_prob": 0.1,
        "forward_dtype": "float32",
        "mlp_t": mixing == "mixing",
    }
    return ACTLossHead(Published(settings), "stablemax_cross_entropy")


def training_steps(trainer: Trainer, published: Any, batch: dict[str, torch.Tensor]) -> list[Callable[[], Any]]:
    """One training step of each: the published one, ours."""
    optimizer = torch.optim.AdamW(published.parameters(), lr=1e-4, weight_decay=1.0, betas=(0.9, 0.95))
    carry = published.initial_carry(batch)

    def step() -> None:
        nonlocal carry
        carry, loss, *_ = published(carry=carry, batch=batch, return_keys=[])
        (loss / ROWS).backward()
        optimizer.step()
        optimizer.zero_grad()

    return [step, trainer.step]


def inference_steps(trainer: Trainer, published: Any, batch: dict[str, torch.Tensor]) -> list[Callable[[], Any]]:
    """One supervision step of inference of each: the published one, ours."""
    published.eval()
    carry = published.initial_carry(batch)

    @torch.inference_mode()
    def step() -> None:
        nonlocal carry
        carry, *_ = published(carry=carry, batch=batch, return_keys=["preds"])

    rows = Batch(trainer.ema, batch["inputs"].numpy(), SampleOptions(depth=10**6))  # type: ignore[arg-type]
    rows.add([(row, 0) for row in range(ROWS)])
    return [step, rows.advance]


def interleaved(steps: list[Callable[[], Any]], repeats: int) -> list[float]:
    """Median CPU seconds of each step, taken in turn."""
    times: list[list[float]] = [[] for _ in steps]
    for number in range(WARM_UP + repeats):
        for step, found in zip(steps, times, strict=True):
            started = time.process_time()
            step()
            if number >= WARM_UP:
                found.append(time.process_time() - started)
    return [median(found) for found in times]


def peak() -> float:
    """GFLOP/s of the best of several large multiplies."""
    return max(matmul_speed(torch.device("cpu"), clock=time.process_time) for _ in range(5))


def main() -> None:
    """Print one line for each of training and inference, mixing and attention."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="a checkout of SamsungSAILMontreal/TinyRecursiveModels")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", type=Path, help="write the measurements to this file")
    arguments = parser.parse_args()
    if not (arguments.checkout / "models" / "recursive_reasoning" / "trm.py").is_file():
        parser.error(f"{arguments.checkout} is no checkout of the published TRM: it has no trm.py.")
    sys.path.insert(0, str(arguments.checkout))
    torch.set_num_threads(1)
    keep_freed_memory()
    measured: list[dict[str, Any]] = []
    for mixing in MIXINGS:
        trainer = ours(mixing)
        examples = trainer.feeder.examples
        inputs, targets = (np.array(part[:ROWS]) for part in (examples.inputs, examples.targets))
        batch = {"inputs": torch.from_numpy(inputs), "labels": torch.from_numpy(targets)}
        batch["puzzle_identifiers"] = torch.zeros(ROWS, dtype=torch.int32)
        published = theirs(mixing, trainer.model.vocab_size)
        counts = [sum(p.numel() for p in model.parameters()) for model in (published, trainer.model)]
        print(f"{mixing}: {ROWS} rows x {TOKENS} tokens, D = {DIM}, {HIGH_CYCLES} x {LOW_CYCLES} cycles; parameters:")
        print(f"  published {counts[0]:,}, ours {counts[1]:,}", flush=True)
        for name, make in (("training", training_steps), ("inference", inference_steps)):
            steps = make(trainer, published, batch)
            seconds = interleaved(steps, arguments.repeats)
            best = peak()
            fractions = [count_flops(step) / 1e9 / s / best for step, s in zip(steps, seconds, strict=True)]
            measured.append(
                {
                    "mixing": mixing,
                    "what": name,
                    "parameters": {"published": counts[0], "gram": counts[1]},
                    "cpu_seconds": {"published": round(seconds[0], 4), "gram": round(seconds[1], 4)},
                    "fraction_of_peak": {"published": round(fractions[0], 3), "gram": round(fractions[1], 3)},
                    "ratio": round(seconds[0] / seconds[1], 2),
                    "peak_gflops": round(best, 1),
                }
            )
            print(
                f"  {name}: published {seconds[0]:.3f} s ({fractions[0]:.0%} of the peak), ours {seconds[1]:.3f} s "
                f"({fractions[1]:.0%}), ratio {seconds[0] / seconds[1]:.2f}; peak {best:.0f} GFLOP/s",
                flush=True,
            )
    if arguments.json is not None:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(
            json.dumps(
                {"instructions": torch.backends.cpu.get_cpu_capability(), "torch": torch.__version__, "rows": measured},
                indent=1,
            )
            + "\n"
        )


if __name__ == "__main__":
    main()
