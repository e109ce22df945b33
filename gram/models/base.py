"""The contract that every model obeys, recursive or not: one training loop, one sampler and one evaluation serve all.

Rows of integer tokens go in, rows of integer tokens come out. Training is a sequence of supervision steps on *slots*: a
slot holds an example and whatever the model carries for it from step to step; where an example is finished, the slot
takes the next one.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gram.config import SampleOptions, Section
from gram.errors import GramError
from gram.models.carry import Carry, Rows
from gram.tasks.base import Structure, Task, Tokens

Checker = Callable[[Tensor, Tensor], Tensor]
"""Judges outputs [rows, length] for inputs [rows, length]: [rows] bool, "a valid solution"."""
Job = tuple[int, int]
"""(input, trajectory) to be sampled"""
Metrics = dict[str, Tensor]
"""Detached scalars for the log; NaN where nothing was measured in this step."""


@dataclass(frozen=True)
class StepContext:
    """What a training step is told of the run."""

    seed: int = 0
    """Seed of all noise."""
    progress: float = 0.0
    """Fraction of the run that has been made, for schedules."""
    checker: Checker | None = None
    """The task's verdict; without one, an output is right if it equals the target."""
    halt: bool = False
    """Finish an example when the halt head says so."""
    release: float = 0.0
    """Chance that a slot whose output is right takes a new example."""


@dataclass(frozen=True)
class StepResult:
    """What one supervision step of all slots leaves behind."""

    loss: Tensor
    carry: Carry
    outputs: Tensor
    """[slots, length] what the slots now decode to"""
    metrics: Metrics


@dataclass(frozen=True)
class Steps:
    """What one step of sampling produced; the first axis of everything is the row."""

    puzzle: Tokens
    """[rows] index of the input"""
    trajectory: Tokens
    """[rows]"""
    step: Tokens
    """[rows] supervision steps made so far"""
    outputs: Tokens
    """[rows, length] decoded now"""
    values: NDArray[np.float32]
    """[rows] LPRM: the estimated quality of the trajectory's end, 0..1"""
    confidence: NDArray[np.float32]
    """[rows] the halt head's probability that the output is right"""
    ended: NDArray[np.bool_]
    """[rows] this was the trajectory's last step"""
    halted: NDArray[np.bool_]
    """[rows] ... because its halt head said so"""
    h: Tensor
    """[rows, tokens, dim] the states; without tokens for a model that has none"""


class Model(nn.Module, ABC):
    """Anything that is trained on pairs of inputs and targets, and sampled."""

    settings: ClassVar[type[Section]]
    """The class of its settings, with a `kind` by which recipes name it."""
    recursive: ClassVar[bool] = False
    """Whether it reasons in supervision steps, with states and heads to look at."""
    steps_per_example: int = 1
    """Supervision steps that an example stays by default [N_sup]."""

    def __init__(self, config: Section, *, vocab_size: int, length: int) -> None:
        super().__init__()
        self.config: Any = config
        self.vocab_size, self.length = vocab_size, length
        self.structure = Structure()

    @classmethod
    @abstractmethod
    def build(cls, config: Section, objective: Section, *, vocab_size: int, length: int, structure: Structure) -> Self:
        """Make a fresh model by the sections of a recipe."""

    @property
    def state_shape(self) -> tuple[int, int]:
        """Tokens and width of a row's state h; a model that carries none has none."""
        return 0, 0

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return next(self.parameters()).device

    @property
    def parameter_count(self) -> int:
        """How many numbers are trained."""
        return sum(p.numel() for p in self.parameters())

    @property
    def checkpoint_type(self) -> str:
        """What its weights belong to, where names and shapes do not tell."""
        return str(self.config.kind)

    @property
    def puzzle_embeddings(self) -> nn.Parameter | None:
        """The table of puzzle embeddings, for models that have one: it is trained by an optimiser of its own."""
        return None

    def share_puzzle_embeddings(self, other: "Model") -> None:
        """Use the puzzle embeddings of another model of the same kind, if there are any."""
        return

    def prepare(self, targets: Tokens) -> None:
        """Take note, before training, of what the targets [rows, length] of the training split have in common."""
        return

    # --- training -----------------------------------------------------------------------------------------------------

    def init_carry(self, slots: int) -> Carry:
        """Return empty slots, all of which take the first examples that are offered."""
        tokens = torch.zeros(slots, self.length, dtype=torch.long, device=self.device)
        zeros = tokens[:, 0]
        ids = None if self.puzzle_embeddings is None else zeros
        rows = Rows(tokens, tokens, zeros, zeros, zeros, zeros, ids)
        return Carry(rows, zeros - 1, torch.ones_like(zeros, dtype=torch.bool))

    @abstractmethod
    def training_step(self, rows: Rows, carry: Carry, context: StepContext) -> StepResult:
        """Make one supervision step in every slot, after the examples in `rows` have entered those that finished."""

    def rollout_rows(self, slots: int) -> int:
        """Return how many slots (the first ones) follow the prior instead of the posterior."""
        return 0

    @torch.no_grad()
    def validation_metrics(
        self, inputs: Tensor, targets: Tensor, *, puzzle_ids: Tensor | None = None, seed: int = 0
    ) -> dict[str, float]:
        """Measure what is followed during training beside the metrics of the task."""
        nats = self.log_likelihood(inputs, targets, puzzle_ids=puzzle_ids, seed=seed)
        return {"nats": -float(nats.mean())}

    # --- sampling and likelihood --------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def supported(self) -> frozenset[str]:
        """The names of the sampling options that it supports."""

    def check(self, options: SampleOptions) -> None:
        """Raise `GramError`, before any work, for options that it cannot be sampled with."""
        if (options.keep_steps or options.keep_states) and not self.recursive:
            raise GramError("This model samples whole outputs and has no supervision steps to keep.")

    @property
    def sampling_steps(self) -> int | None:
        """Steps of its sampler where they can be chosen (`options.steps`)."""
        return None

    def is_deterministic(self, options: SampleOptions) -> bool:
        """Return whether every trajectory of an input is the same."""
        return False

    @abstractmethod
    def roll_out(
        self,
        inputs: Tokens,
        jobs: Iterable[Job],
        options: SampleOptions,
        *,
        puzzle_ids: Tokens | None = None,
        chunk: int | None = None,
    ) -> Iterator[Steps]:
        """Sample the trajectories that `jobs` name, at most `chunk` at a time; yield what every step produced."""

    @property
    @abstractmethod
    def likelihood_meaning(self) -> tuple[bool, str]:
        """Whether `log_likelihood` is exact (otherwise a lower bound), and in words what it is."""

    @abstractmethod
    def log_likelihood(
        self, inputs: Tensor, targets: Tensor, *, puzzle_ids: Tensor | None = None, seed: int = 0
    ) -> Tensor:
        """Return log p(target | input) in nats, or a lower bound of it: [rows]."""


class Trained(Protocol):
    """A model together with its task, such as `gram.Solver`."""

    model: Model
    task: Task
