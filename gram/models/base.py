"""The interface of every model, recursive or not, for the training loop, the sampler and the evaluation.

Inputs and outputs are rows of integer tokens. Training is a sequence of supervision steps on *slots*. A slot holds an
example and whatever the model carries for it from step to step. When an example is finished, its slot takes the next.
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
from gram.tasks.base import Examples, Structure, Task, Tokens

Checker = Callable[[Tensor, Tensor], Tensor]
"""Verifies outputs [rows, length] for inputs [rows, length]: [rows] bool, "a valid solution"."""
Job = tuple[int, int]
"""(input, trajectory) to sample"""
Metrics = dict[str, Tensor]
"""Detached scalars for the log; NaN where nothing was measured in this step."""


@dataclass(frozen=True)
class StepContext:
    """Settings of the run for one training step."""

    seed: int = 0
    """Seed of all noise."""
    progress: float = 0.0
    """Fraction of the run that is done, for schedules."""
    checker: Checker | None = None
    """The task's checker; without one, an output is correct if it equals the target."""
    halt: bool = False
    """Finish an example when the halt head predicts that it is solved."""
    release: float = 0.0
    """Probability that a slot whose output is correct takes a new example."""


@dataclass(frozen=True)
class StepResult:
    """The result of one supervision step of all slots."""

    loss: Tensor
    carry: Carry
    outputs: Tensor
    """[slots, length] decoded outputs"""
    metrics: Metrics


@dataclass(frozen=True)
class Steps:
    """The results of one sampling step; the first axis of every array is the row."""

    puzzle: Tokens
    """[rows] index of the input"""
    trajectory: Tokens
    """[rows]"""
    step: Tokens
    """[rows] supervision steps made so far"""
    outputs: Tokens
    """[rows, length] decoded after this step"""
    values: NDArray[np.float32]
    """[rows] LPRM: the estimated quality of the trajectory's final output, 0..1"""
    confidence: NDArray[np.float32]
    """[rows] the halt head's probability that the output is correct"""
    ended: NDArray[np.bool_]
    """[rows] this was the trajectory's last step"""
    halted: NDArray[np.bool_]
    """[rows] ... because its output is predicted to be correct"""
    h: Tensor
    """[rows, tokens, dim] the states; tokens is 0 for a model without states"""
    certainty: NDArray[np.float32] | None = None
    """[rows] the decoder's probability of the most probable output; None for a model without states"""


class Model(nn.Module, ABC):
    """A model that is trained on pairs of inputs and targets, and sampled."""

    settings: ClassVar[type[Section]]
    """The class of its settings; recipes select the model by the `kind` in it."""
    recursive: ClassVar[bool] = False
    """Whether it makes supervision steps, and has states and heads."""
    steps_per_example: int = 1
    """Training steps per example by default: N_sup, or 1 where one update makes all transitions."""
    trained_depth: int = 1
    """Supervision steps of a sample that makes as many transitions as training does for an example."""

    def __init__(self, config: Section, *, vocab_size: int, length: int) -> None:
        super().__init__()
        self.config: Any = config
        self.vocab_size, self.length = vocab_size, length
        self.structure = Structure()

    @classmethod
    def build(cls, config: Section, objective: Section, *, vocab_size: int, length: int, structure: Structure) -> Self:
        """Build a model from the sections of a recipe; by default from its own section alone."""
        return cls(config, vocab_size=vocab_size, length=length)

    @classmethod
    def for_task(cls, config: Any, task: Task) -> Any:
        """Return the settings with what the task determines filled in; by default they are returned unchanged."""
        return config

    @classmethod
    def check_task(cls, config: Any, objective: Any, task: Task, examples: Examples) -> None:
        """Raise `GramError` if the settings do not fit the task or its training split; the default accepts all."""
        return

    @property
    def state_shape(self) -> tuple[int, int]:
        """Tokens and width of a row's state h; (0, 0) for a model without states."""
        return 0, 0

    @property
    def device(self) -> torch.device:
        """The device of the parameters."""
        return next(self.parameters()).device

    @property
    def parameter_count(self) -> int:
        """The number of trained parameters."""
        return sum(p.numel() for p in self.parameters())

    @property
    def checkpoint_type(self) -> str:
        """The type of the checkpoint, where names and shapes of tensors are ambiguous."""
        return str(self.config.kind)

    @property
    def puzzle_embeddings(self) -> nn.Parameter | None:
        """The table of puzzle embeddings, which has its own optimiser; None for models without."""
        return None

    def share_puzzle_embeddings(self, other: "Model") -> None:
        """Use the puzzle embeddings of another model of the same kind, if there are any."""
        return

    def prepare(self, targets: Tokens) -> None:
        """Prepare for training on these targets [rows, length]; the default does nothing."""
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
        """Return the model's own validation metrics, in addition to those of the task."""
        nats = self.log_likelihood(inputs, targets, puzzle_ids=puzzle_ids, seed=seed)
        return {"nats": -float(nats.mean())}

    # --- sampling and likelihood --------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def supported(self) -> frozenset[str]:
        """The names of the sampling options that it supports."""

    def check(self, options: SampleOptions) -> None:
        """Raise `GramError` for options that the model cannot be sampled with."""
        if (options.keep_steps or options.keep_states) and not self.recursive:
            raise GramError("This model samples whole outputs and has no supervision steps to keep.")

    @property
    def sampling_steps(self) -> int | None:
        """The default of `options.steps`; None if the sampler has no such option."""
        return None

    def is_deterministic(self, options: SampleOptions) -> bool:
        """Return whether every trajectory of an input is the same."""
        return False

    def groups(self, rows: int) -> list[range]:
        """Cut `rows` trajectories into the parts that are sampled one after the other, or side by side.

        They depend on nothing else, so that the outputs do not depend on how many parts are sampled at a time.
        """
        return [range(rows)]

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
        """Sample the trajectories in `jobs`, at most `chunk` at a time; yield the results of every step."""

    def process(self, inputs: Tensor, *, seed: int = 0) -> dict[int, Tokens]:
        """Return how outputs [rows, length] for inputs [rows, length] are generated, by the number of steps made.

        Row i is trajectory i of its input. The default returns the last outputs alone; a model that starts from noise
        has it at step 0.
        """
        outputs, steps = np.zeros(inputs.shape, dtype=np.int64), 0
        jobs = [(row, row) for row in range(len(inputs))]
        for made in self.roll_out(inputs.cpu().numpy(), jobs, SampleOptions(seed=seed)):
            outputs[made.puzzle], steps = made.outputs, max(steps, int(made.step.max()))
        return {steps: outputs}

    @property
    @abstractmethod
    def likelihood_meaning(self) -> tuple[bool, str]:
        """Whether `log_likelihood` is exact (otherwise it is a lower bound), and a description of it."""

    @abstractmethod
    def log_likelihood(
        self, inputs: Tensor, targets: Tensor, *, puzzle_ids: Tensor | None = None, seed: int = 0
    ) -> Tensor:
        """Return log p(target | input) in nats, or a lower bound of it: [rows]."""


class Trained(Protocol):
    """A model together with its task, such as `gram.Solver`."""

    model: Model
    task: Task
