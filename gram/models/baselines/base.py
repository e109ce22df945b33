"""Common parts of the baselines, which sample whole outputs and carry no state.

A model learns p(output | input) for rows of tokens. A position whose target is `IGNORE` carries no label: the model
reads token 0 (padding) there, and it enters no likelihood. A sampler that knows which positions these are holds them
at 0 (`labelled`), and samples all positions otherwise.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from gram.config import SampleOptions, Section
from gram.models.base import Job, Metrics, Model, StepContext, StepResult, Steps
from gram.models.carry import Carry, Rows
from gram.models.noise import derive
from gram.tasks.base import IGNORE, Tokens

PADDING = 0
READ_AT_ONCE = 4096
"""Targets that are looked at together."""
DRAWN_AT_ONCE = 256
"""Outputs that are drawn together: their noise belongs to (seed, number of the chunk)."""


class Baseline(Model):
    """A model of p(output | input) that samples whole outputs and has no latent state."""

    likelihood_meaning = (False, "variational bound")
    labelled: Tensor
    """[length] which positions ever carry a label: the sampler holds the others at padding, as training shows them"""
    draw_outputs: Callable[..., Tensor]
    """Draws one output [rows, length] for each of inputs [rows, length]; token 0 where `labelled` is False. Takes
    `generator`, `labelled` and the sampling options that it supports."""

    def __init__(self, config: Section, *, vocab_size: int, length: int) -> None:
        super().__init__(config, vocab_size=vocab_size, length=length)
        self.register_buffer("labelled", torch.ones(length, dtype=torch.bool))

    def prepare(self, targets: Tokens) -> None:
        """Store which positions have a label in any of the targets [rows, length]."""
        labelled = np.zeros(self.length, dtype=np.bool_)
        for start in range(0, len(targets), READ_AT_ONCE):  # some tasks make their rows when they are read
            labelled |= (targets[start : start + READ_AT_ONCE] != IGNORE).any(axis=0)
        self.labelled.copy_(torch.from_numpy(labelled))

    @abstractmethod
    def loss(self, inputs: Tensor, targets: Tensor, generator: torch.Generator) -> tuple[Tensor, Metrics]:
        """Return the scalar to minimise, per labelled token, for inputs and targets [rows, length], and metrics.

        Every model reports `nats`: -log p(output | input), or its bound, per row.
        """

    @abstractmethod
    def log_likelihood_bound(
        self, inputs: Tensor, targets: Tensor, *, generator: torch.Generator, samples: int = ...
    ) -> Tensor:
        """Return a lower bound of log p(output | input) in nats, without bias, from `samples` draws: [rows]."""

    def training_step(self, rows: Rows, carry: Carry, context: StepContext) -> StepResult:
        """Train on the offered examples, all of which are finished after this step."""
        carry = carry.take(rows)
        generator = self._generator(context.seed, int(carry.rows.deal[0]))
        loss, metrics = self.loss(carry.rows.inputs, carry.rows.targets, generator)
        everything = torch.ones_like(carry.finished)
        carry = Carry(carry.rows, carry.steps + 1, everything)
        return StepResult(loss, carry, carry.rows.targets, {**metrics, "loss": loss.detach()})

    def groups(self, rows: int) -> list[range]:
        """Cut `rows` outputs where `roll_out` does, whose noise belongs to its parts."""
        if self.device.type != "cpu":
            return super().groups(rows)
        return [range(start, min(start + DRAWN_AT_ONCE, rows)) for start in range(0, rows, DRAWN_AT_ONCE)]

    def roll_out(
        self,
        inputs: Tokens,
        jobs: Iterable[Job],
        options: SampleOptions,
        *,
        puzzle_ids: Tokens | None = None,
        chunk: int | None = None,
    ) -> Iterator[Steps]:
        """Draw whole outputs, `DRAWN_AT_ONCE` at a time; only the same jobs in the same order give the same outputs."""
        waiting = iter(jobs)
        while some := list(islice(waiting, DRAWN_AT_ONCE)):
            puzzle, trajectory = np.array(some, dtype=np.int64).T
            generator = self._generator(options.seed, int(puzzle[0]), int(trajectory[0]))
            given = torch.from_numpy(inputs[puzzle]).to(self.device)
            own = options.only(self.supported - {"width", "seed"})
            drawn = self.draw_outputs(given, generator=generator, labelled=self.labelled, **own).cpu().numpy()
            steps = np.full(len(some), options.steps or self.steps_per_output)
            nothing, ended = np.zeros(len(some), dtype=np.float32), np.ones(len(some), dtype=np.bool_)
            states = torch.zeros(len(some), *self.state_shape)
            yield Steps(puzzle, trajectory, steps, drawn, nothing, nothing, ended, ~ended, states)

    @property
    def steps_per_output(self) -> int:
        """The default number of steps per output."""
        return self.sampling_steps or 1

    def log_likelihood(
        self, inputs: Tensor, targets: Tensor, *, puzzle_ids: Tensor | None = None, seed: int = 0
    ) -> Tensor:
        return self.log_likelihood_bound(inputs, targets, generator=self._generator(seed))

    def _generator(self, *key: int) -> torch.Generator:
        number = derive(torch.tensor([key[0]]), *key[1:])
        return torch.Generator(device=self.device).manual_seed(int(number))


def split_targets(targets: Tensor) -> tuple[Tensor, Tensor]:
    """Split targets [rows, length] into tokens, with padding for `IGNORE`, and the mask of labelled positions."""
    labelled = targets != IGNORE
    return torch.where(labelled, targets, PADDING), labelled


def hold_unlabelled(tokens: Tensor, labelled: Tensor | None) -> Tensor:
    """Set tokens [rows, length] to padding where `labelled` ([rows, length] or [length]) is false."""
    return tokens if labelled is None else torch.where(labelled, tokens, PADDING)


def draw(probabilities: Tensor, generator: torch.Generator) -> Tensor:
    """Draw choices [...] by probabilities [..., choices] (any scale); one of probability 0 is never drawn."""
    flat = probabilities.reshape(-1, probabilities.shape[-1])
    return torch.multinomial(flat, 1, generator=generator).view(probabilities.shape[:-1])


def spread(rows: int, generator: torch.Generator, device: torch.device) -> Tensor:
    """Draw uniform numbers [rows] in [0, 1), one in each of `rows` equal parts: a batch sees all times evenly."""
    return spread_samples(1, rows, generator, device)[:, 0]


def spread_samples(rows: int, samples: int, generator: torch.Generator, device: torch.device) -> Tensor:
    """Draw uniform numbers [samples, rows] in [0, 1): those of a row lie one in each of `samples` equal parts."""
    part = torch.arange(samples, device=device)[:, None]
    numbers = (part + torch.rand(samples, rows, generator=generator, device=device)) / samples
    # Sums such as 127 + 0.99999999 round up: the largest number below 1 instead of 1.
    return numbers.clamp(max=1 - torch.finfo(numbers.dtype).eps / 2)


def reveal(
    noisy: Tensor, mask: int, fraction: float, predict: Callable[[Tensor], Tensor], generator: torch.Generator
) -> Tensor:
    """Replace each `mask` in noisy [rows, length] with probability `fraction` by a draw from the prediction.

    `predict(index)` gives probabilities [chosen, length, vocabulary] of the rows index [chosen]. Which tokens are
    revealed does not depend on them, so only rows in which something is are asked for: a row of n tokens costs at most
    n predictions, however many steps are made.
    """
    revealed = (noisy == mask) & (torch.rand(noisy.shape, generator=generator, device=noisy.device) < fraction)
    index = revealed.any(dim=-1).nonzero()[:, 0]
    if not len(index):
        return noisy
    result = noisy.clone()
    result[revealed] = draw(predict(index)[revealed[index]], generator)  # of [revealed tokens, vocabulary]
    return result
