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
from gram.models.noise import derive, example_keys, puzzle_key, uniform
from gram.tasks.base import IGNORE, Tokens

PADDING = 0
READ_AT_ONCE = 4096
"""Targets that are looked at together."""
DRAWN_AT_ONCE = 256
"""Outputs that are drawn together by default."""
TIMES, CHOICES, FIRST = range(-1, -4, -1)
"""Labels of noise: the times of a likelihood, which tokens take what is revealed, and what a sampler starts from. Those
of its steps are 0, 1, ..."""


class Baseline(Model):
    """A model of p(output | input) that samples whole outputs and has no latent state."""

    likelihood_meaning = (False, "variational bound")
    labelled: Tensor
    """[length] which positions ever carry a label: the sampler holds the others at padding, as training shows them"""
    draw_outputs: Callable[..., Tensor]
    """Draws one output [rows, length] for each of inputs [rows, length]; token 0 where `labelled` is False. Takes
    `key` [rows], `labelled` and the sampling options that it supports."""

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
    def loss(self, inputs: Tensor, targets: Tensor, key: Tensor) -> tuple[Tensor, Metrics]:
        """Return the scalar to minimise, per labelled token, for inputs and targets [rows, length], and metrics.

        All noise of an example belongs to its key [rows], of `example_keys`. Every model reports `nats`:
        -log p(output | input), or its bound, per row.
        """

    @abstractmethod
    def log_likelihood_bound(self, inputs: Tensor, targets: Tensor, *, key: Tensor, samples: int = ...) -> Tensor:
        """Return a lower bound of log p(output | input) in nats, without bias, from `samples` draws: [rows]."""

    def training_step(self, rows: Rows, carry: Carry, context: StepContext) -> StepResult:
        """Train on the offered examples, all of which are finished after this step."""
        carry = carry.take(rows)
        key = example_keys(carry.rows.deal, context.seed)
        loss, metrics = self.loss(carry.rows.inputs, carry.rows.targets, key)
        everything = torch.ones_like(carry.finished)
        carry = Carry(carry.rows, carry.steps + 1, everything)
        return StepResult(loss, carry, carry.rows.targets, {**metrics, "loss": loss.detach()})

    def groups(self, rows: int) -> list[range]:
        """Cut `rows` outputs into parts that are drawn together, or side by side on a CPU."""
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
        """Draw whole outputs, `chunk` at a time; the noise of an output belongs to (seed, puzzle, trajectory, step)."""
        waiting = iter(jobs)
        while some := list(islice(waiting, chunk or DRAWN_AT_ONCE)):
            puzzle, trajectory = np.array(some, dtype=np.int64).T
            key = self.keys(inputs, puzzle, trajectory, options.seed)
            given = torch.from_numpy(inputs[puzzle]).to(self.device)
            own = options.only(self.supported - {"width", "seed"})
            drawn = self.draw_outputs(given, key=key, labelled=self.labelled, **own).cpu().numpy()
            steps = np.full(len(some), options.steps or self.steps_per_output)
            nothing, ended = np.zeros(len(some), dtype=np.float32), np.ones(len(some), dtype=np.bool_)
            states = torch.zeros(len(some), *self.state_shape)
            yield Steps(puzzle, trajectory, steps, drawn, nothing, nothing, ended, ~ended, states)

    def process_keys(self, inputs: Tensor, seed: int) -> Tensor:
        """Return the keys [rows] of trajectory i for row i of inputs [rows, length]."""
        row = np.arange(len(inputs))
        return self.keys(inputs.cpu().numpy(), row, row, seed)

    def keys(self, inputs: Tokens, puzzle: Tokens, trajectory: Tokens, seed: int) -> Tensor:
        """Return the keys [rows] of trajectories [rows] of the inputs with these numbers, puzzle [rows]."""
        asked, place = np.unique(puzzle, return_inverse=True)
        of_asked = torch.tensor([puzzle_key(inputs[number]) for number in asked])
        return derive(of_asked[place], seed, torch.from_numpy(trajectory)).to(self.device)

    @property
    def steps_per_output(self) -> int:
        """The default number of steps per output."""
        return self.sampling_steps or 1

    def log_likelihood(
        self, inputs: Tensor, targets: Tensor, *, puzzle_ids: Tensor | None = None, seed: int = 0
    ) -> Tensor:
        key = example_keys(torch.arange(len(inputs), device=inputs.device), seed)
        return self.log_likelihood_bound(inputs, targets, key=key)


def split_targets(targets: Tensor) -> tuple[Tensor, Tensor]:
    """Split targets [rows, length] into tokens, with padding for `IGNORE`, and the mask of labelled positions."""
    labelled = targets != IGNORE
    return torch.where(labelled, targets, PADDING), labelled


def hold_unlabelled(tokens: Tensor, labelled: Tensor | None) -> Tensor:
    """Set tokens [rows, length] to padding where `labelled` ([rows, length] or [length]) is false."""
    return tokens if labelled is None else torch.where(labelled, tokens, PADDING)


def draw(probabilities: Tensor, chance: Tensor) -> Tensor:
    """Draw choices [...] by probabilities [..., choices] (any scale) and chance [...], uniform in [0, 1).

    One of probability 0 is never drawn.
    """
    cumulative = probabilities.cumsum(dim=-1)
    return (cumulative <= chance[..., None] * cumulative[..., -1:]).sum(dim=-1)


def spread_samples(key: Tensor, samples: int) -> Tensor:
    """Return uniform numbers [samples, rows] in [0, 1) of key [rows]: those of a row lie one in each of equal parts."""
    part = torch.arange(samples, device=key.device)
    numbers = (part + uniform(derive(key, TIMES), samples)) / samples
    # Sums such as 127 + 0.99999999 round up: the largest number below 1 instead of 1.
    return numbers.clamp(max=1 - torch.finfo(numbers.dtype).eps / 2).T


def reveal(noisy: Tensor, mask: int, fraction: float, predict: Callable[[Tensor], Tensor], key: Tensor) -> Tensor:
    """Replace each `mask` in noisy [rows, length] with probability `fraction` by a draw from the prediction.

    `predict(index)` gives probabilities [chosen, length, vocabulary] of the rows index [chosen]. Which tokens are
    revealed does not depend on them, so only rows in which something is are asked for: a row of n tokens costs at most
    n predictions, however many steps are made.
    """
    length = noisy.shape[1]
    revealed = (noisy == mask) & (uniform(key, length) < fraction)
    index = revealed.any(dim=-1).nonzero()[:, 0]
    if not len(index):
        return noisy
    chance, where = uniform(derive(key[index], CHOICES), length), revealed[index]
    result = noisy.clone()
    result[revealed] = draw(predict(index)[where], chance[where])  # of [revealed tokens, vocabulary]
    return result
