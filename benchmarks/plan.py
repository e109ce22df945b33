"""Cost of training a recipe from the FLOP counter, without data and without running it (meta tensors).

python benchmarks/plan.py gram/recipes/arc-1/gram-paper.yaml --gpus 8 --tflops 165 --share 0.35
"""

import argparse
from pathlib import Path

import torch
from torch import Tensor

from gram.cli.bench import count_flops
from gram.config import Recipe
from gram.models.reasoner import Reasoner
from gram.recipe import load_recipe
from gram.tasks import make_task


class OneSlot:
    """One supervision step of one slot, on tensors without content."""

    def __init__(self, recipe: Recipe) -> None:
        task = make_task(recipe.task.name, **recipe.task.options)
        config = recipe.model
        if config.puzzle_width:  # a task with puzzle ids; their number does not matter for the count
            config = config.model_copy(update={"puzzles": 1})
        self.model = Reasoner(config, vocab_size=task.vocab_size, length=task.length)
        self.tokens = torch.zeros(1, task.length, dtype=torch.long)
        self.ids = torch.zeros(1, dtype=torch.long) if config.puzzles else None

    def _noise(self, _transition: int) -> Tensor:
        return torch.zeros(1, self.model.tokens, self.model.config.dim)

    def guided(self) -> None:
        """Forward and backward with the posterior (or without guidance)."""
        guidance = self.model.guidance
        e_y = None if guidance is None else guidance.embed_targets(self.tokens)
        e_x = self.model.encoder(self.tokens, self.ids)
        output = self.model.step(self.model.initial_state(1), e_x, self._noise, e_y=e_y)
        heads = [part for side in (output.priors, output.posteriors) for part in side]
        loss = self.model.decoder.logits(output.state.h).sum() + sum(head.mean.sum() for head in heads)
        loss.backward()

    @torch.no_grad()
    def rollout(self) -> None:
        """Forward from the prior."""
        self.model.step(self.model.initial_state(1), self.model.encoder(self.tokens, self.ids), self._noise)


def flops_per_step(recipe: Recipe) -> float:
    """Of one optimiser step with all its slots."""
    with torch.device("meta"):
        slot = OneSlot(recipe)
        guided, rollout = count_flops(slot.guided), count_flops(slot.rollout)
    share = recipe.objective.prior_share if recipe.model.guidance != "none" else 0.0
    learns = 1.0 if recipe.objective.learn_from_rollouts else 1 - share
    return recipe.train.slots * (learns * guided + share * rollout)


def main() -> None:
    """Print one line per recipe."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="+", type=Path)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--tflops", type=float, default=165, help="peak of one device in the precision that is used")
    parser.add_argument("--share", type=float, default=0.35, help="share of that peak that training reaches")
    options = parser.parse_args()
    for path in options.recipes:
        recipe = load_recipe(path)
        step = flops_per_step(recipe)
        total = step * recipe.train.steps
        hours = total / (options.gpus * options.tflops * 1e12 * options.share) / 3600
        print(
            f"{path}: {step / 1e12:.2f} TFLOP per step x {recipe.train.steps:,} steps = {total / 1e18:.2f} EFLOP, "
            f"{hours:.1f} hours on {options.gpus} devices"
        )


if __name__ == "__main__":
    main()
