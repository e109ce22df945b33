"""The batch of inference: trajectories that end leave it at once, and waiting ones take their place."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gram.config import SampleOptions
from gram.machine import free_memory
from gram.models.base import Job, Steps
from gram.models.carry import State
from gram.models.noise import Noise, derive, normal, puzzle_key, scaled, step_size, temperature_at
from gram.tasks.base import Tokens

if TYPE_CHECKING:
    from gram.models.reasoner import Reasoner

CPU_ROWS, CPU_BYTES = 128, 2**26
"""More rows do not make multiplies faster on a CPU, and their states and noise should fit its caches."""
GPU_ROWS, GPU_FRACTION = 8192, 0.25
"""A GPU needs thousands of rows to be busy; activations need about as much memory again as is counted here."""

GROUP_FLOPS, GROUP_TOKENS = 2**30, 512
"""Operations of a supervision step, and rows of its multiplies, from which on a group of trajectories pays a thread."""
MOST_GROUPS, GROUP_BATCHES = 5, 4
"""At most 2 to this power, unless a group would be longer than so many batches: a batch that refills stays full."""

SHARED_OPTIONS = ("decode", "initial", "perturb", "halt_at", "halt_by", "horizon")
"""Options that all rows of a batch share; seed, depth, temperature and halt may differ between puzzles."""

TRANSITION, INITIAL_H, INITIAL_L, PERTURB, DECODE = range(5)
"""Labels of the noise of a trajectory's step."""


class Puzzle(NamedTuple):
    """A puzzle whose trajectories may be in the batch."""

    given: Tokens
    """[length]"""
    options: SampleOptions
    puzzle_id: int
    key: int
    """the key of its noise"""


def automatic_chunk(model: "Reasoner") -> int:
    """Return the default number of concurrent trajectories on the model's device."""
    return rows_at_once(bytes_per_row(model), free_memory(model.device))


def bytes_per_row(model: "Reasoner") -> int:
    """Return roughly the memory of a row's states, noise and logits."""
    c = model.config
    return 4 * model.tokens * c.dim * (c.transitions + 6) + 4 * model.length * model.vocab_size


def rows_at_once(per_row: int, free: int | None) -> int:
    """Return how many rows of `per_row` bytes to run at once; `free` is the memory of a GPU, None for a CPU."""
    most, room = (CPU_ROWS, CPU_BYTES) if free is None else (GPU_ROWS, int(GPU_FRACTION * free))
    return int(np.clip(room // per_row, 1, most))


def even_groups(model: "Reasoner", rows: int) -> list[range]:
    """Cut rows into equal groups that each pay a thread: a power of two, or more where groups would become too long."""
    c = model.config
    # Weights of sets have a third axis, and few numbers to multiply: there are far fewer sets than positions.
    numbers = sum(weight.numel() for weight in model.low.parameters() if weight.ndim == 2)
    flops = 2 * model.tokens * numbers * (c.low_steps + 1) * c.transitions
    fewest = max(-(-GROUP_FLOPS // flops), -(-GROUP_TOKENS // model.tokens))
    worth = 2 ** min(max(rows // fewest, 1).bit_length() - 1, MOST_GROUPS)
    count = max(worth, -(-rows // (GROUP_BATCHES * automatic_chunk(model))))
    return [range(rows * i // count, rows * (i + 1) // count) for i in range(count)]


class Batch:
    """Active trajectories, one per row; `run` advances all of them by one supervision step at a time."""

    def __init__(
        self, model: "Reasoner", inputs: Tokens, options: SampleOptions, puzzle_ids: Tokens | None = None
    ) -> None:
        self.model, self.options = model, options
        self.device = model.device
        self.inputs, self.puzzle_ids = inputs, puzzle_ids
        self.puzzles: dict[int, Puzzle] = {}
        """those of the inputs that have been needed so far, and what was admitted later"""
        self.admitted = len(inputs)
        self.puzzle, self.trajectory, self.step, self.depth = (np.zeros(0, dtype=np.int64) for _ in range(4))
        self.temperatures, self.may_halt = np.zeros((0, 2), dtype=np.float32), np.zeros(0, dtype=np.bool_)
        """`temperatures` [rows, 2]: of the first and of the last step"""
        self.state = model.initial_state(0)
        self.e_x = torch.zeros_like(self.state.h)

    def admit(self, given: Tokens, options: SampleOptions, puzzle_id: int = 0) -> int:
        """Register a puzzle [length] with its own options; return its number, for `add`."""
        if any(getattr(options, name) != getattr(self.options, name) for name in SHARED_OPTIONS):
            raise ValueError(f"all rows of a batch must have the same {', '.join(SHARED_OPTIONS)}")
        number, self.admitted = self.admitted, self.admitted + 1
        self._prepare(number, given, options, puzzle_id)
        return number

    def _prepare(self, number: int, given: Tokens, options: SampleOptions, puzzle_id: int) -> None:
        key = puzzle_key(given, puzzle_id if self.model.config.puzzles else None)
        key = int(derive(torch.tensor([key]), options.seed))
        self.puzzles[number] = Puzzle(given, options, puzzle_id, key)

    def release(self, number: int) -> None:
        """Remove a puzzle and its rows."""
        self.keep(self.puzzle != number)
        del self.puzzles[number]

    def run(self, jobs: Iterable[Job], chunk: int | None = None) -> Iterator[Steps]:
        """Run all jobs to their ends, at most `chunk` at a time; yield the results of every step."""
        waiting = iter(jobs)
        chunk = chunk or automatic_chunk(self.model)
        while True:
            self.add(list(islice(waiting, chunk - len(self.puzzle))))
            if not len(self.puzzle):
                return
            made = self.advance()
            yield made
            self.keep(~made.ended)

    @torch.inference_mode()
    def add(self, jobs: list[Job]) -> None:
        """Start trajectories."""
        if not jobs:
            return
        puzzle, trajectory = np.array(jobs, dtype=np.int64).T
        for number in np.unique(puzzle).tolist():
            if number not in self.puzzles:
                puzzle_id = 0 if self.puzzle_ids is None else int(self.puzzle_ids[number])
                self._prepare(number, self.inputs[number], self.options, puzzle_id)
        options = [self.puzzles[number].options for number in puzzle.tolist()]
        state = self.model.initial_state(len(jobs))
        if self.options.initial == "random":
            key, shape = self.keys(puzzle, trajectory, np.zeros_like(puzzle)), state.h.shape[1:]
            h, low = (normal(derive(key, label), *shape) for label in (INITIAL_H, INITIAL_L))
            state = State(h, None if state.l is None else low)
        self.puzzle = np.concatenate([self.puzzle, puzzle])
        self.trajectory = np.concatenate([self.trajectory, trajectory])
        self.step = np.concatenate([self.step, np.zeros_like(puzzle)])
        self.depth = np.concatenate([self.depth, [each.depth for each in options]])
        temperatures = np.array([each.temperatures for each in options], dtype=np.float32)
        self.temperatures = np.concatenate([self.temperatures, temperatures])
        self.may_halt = np.concatenate([self.may_halt, [each.halt for each in options]])
        self.state = State.cat([self.state, state])
        self.e_x = torch.cat([self.e_x, self._encode(puzzle)])

    @torch.inference_mode()
    def keep(self, going: NDArray[np.bool_]) -> None:
        """Keep only the rows where `going` [rows] is true."""
        if going.all():
            return
        self.puzzle, self.trajectory, self.step = self.puzzle[going], self.trajectory[going], self.step[going]
        self.depth, self.temperatures, self.may_halt = self.depth[going], self.temperatures[going], self.may_halt[going]
        index = torch.from_numpy(np.flatnonzero(going)).to(self.device)
        self.state, self.e_x = self.state.rows(index), self.e_x[index]

    @torch.inference_mode()
    def advance(self) -> Steps:
        """Make one supervision step of every row."""
        options, transitions = self.options, self.model.config.transitions
        key, shape = self.keys(self.puzzle, self.trajectory, self.step), self.state.h.shape[1:]
        state = self.state
        if options.perturb:
            state = State(state.h + options.perturb * normal(derive(key, PERTURB), *shape), state.l)
        first = torch.from_numpy(self.step * transitions).to(self.device)
        size = self._step_size()
        stepped = self.model.step(state, self.e_x, self._noise(key, size), first_transition=first).state
        self.state = stepped if size is None else state.towards(stepped, size)
        logits = self.model.decoder.logits(self.state.h)
        certainty = (logits.amax(dim=-1) - logits.logsumexp(dim=-1)).sum(dim=-1).exp()
        if options.decode == "sample":
            # Gumbel-max with keyed noise: uniform from the normal's distribution function.
            uniform = torch.special.ndtr(normal(derive(key, DECODE), *logits.shape[1:])).clamp(1e-7, 1 - 1e-7)
            logits = logits - torch.log(-torch.log(uniform))
        readout = self.model.decoder.readout(self.state.h)
        self.step = self.step + 1
        by_output = options.halt_by == "output"
        wants = certainty > options.halt_at if by_output else self.model.wants_to_halt(readout, options.halt_at)
        halted = wants.cpu().numpy() & self.may_halt
        return Steps(
            self.puzzle,
            self.trajectory,
            self.step,
            logits.argmax(dim=-1).cpu().numpy(),
            readout.value.sigmoid().cpu().numpy(),
            readout.q_halt.sigmoid().cpu().numpy(),
            halted | (self.step >= self.depth),
            halted,
            self.state.h,
            certainty.float().cpu().numpy(),
        )

    def keys(self, puzzle: Tokens, trajectory: Tokens, step: Tokens) -> Tensor:
        """Return the noise keys of a step: [rows], all arguments [rows]."""
        key = torch.tensor([self.puzzles[number].key for number in puzzle.tolist()], dtype=torch.long)
        return derive(key, torch.from_numpy(trajectory), torch.from_numpy(step)).to(self.device)

    def _step_size(self) -> Tensor | None:
        """Return the fraction of a step [rows] that each row goes, below 1 beyond its horizon; None if all are 1."""
        if self.options.horizon is None or not (self.depth > self.options.horizon).any():
            return None
        return step_size(self.options.horizon, torch.from_numpy(self.depth)).to(self.device)

    def _noise(self, key: Tensor, size: Tensor | None = None) -> Noise:
        """Return the noise of every transition of a step with keys [rows], at each row's temperature and step size."""
        first, final = torch.from_numpy(self.temperatures).unbind(1)
        temperature = temperature_at(first, final, torch.from_numpy(self.step), torch.from_numpy(self.depth))
        if size is not None:
            temperature = temperature * size.cpu().rsqrt()
        if not self.model.guidance.noisy or not temperature.any():
            return lambda _transition: None

        def draw(transition: int) -> Tensor:
            return normal(derive(key, TRANSITION, transition), *self.state.h.shape[1:])

        return draw if (temperature == 1).all() else scaled(draw, temperature.to(self.device))

    @torch.inference_mode()
    def _encode(self, puzzle: Tokens) -> Tensor:
        chosen = [self.puzzles[number] for number in puzzle.tolist()]
        ids = torch.tensor([each.puzzle_id for each in chosen], device=self.device)
        given = torch.from_numpy(np.stack([each.given for each in chosen])).to(self.device)
        return self.model.encoder(given, ids if self.model.config.puzzles else None)  # type: ignore[no-any-return]
