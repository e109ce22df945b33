"""The batch that inference runs in: trajectories that end leave it at once, and waiting ones take their place."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gram.inference.noise import KeyedNoise, noise_key
from gram.models.reasoner import Reasoner, State
from gram.options import SampleOptions
from gram.tasks.base import Tokens

MOST_ROWS = 128
"""More rows do not make multiplies faster."""
BATCH_BYTES = 2**26
"""What all rows' states and noise may take, roughly; large models get fewer rows."""

SHARED_OPTIONS = ("decode", "initial", "perturb", "halt_at")
"""Options that all rows of a batch have in common; each puzzle may have its own seed, depth, temperature and halt."""

Job = tuple[int, int]
"""(puzzle, trajectory) to be run"""


class Puzzle(NamedTuple):
    """A puzzle whose trajectories may be in the batch."""

    given: Tokens
    """[length]"""
    options: SampleOptions
    puzzle_id: int
    key: bytes
    """what its noise is keyed by"""


@dataclass(frozen=True)
class Steps:
    """What one supervision step of the batch brought; the first axis of everything is the row."""

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
    """[rows, tokens, dim] the states"""


def automatic_chunk(model: Reasoner) -> int:
    """How many trajectories run at once: as many as `BATCH_BYTES` hold, and never more than are useful."""
    c = model.config
    per_row = 4 * model.tokens * c.dim * (c.transitions + 6) + 4 * model.length * model.vocab_size
    return int(np.clip(BATCH_BYTES // per_row, 1, MOST_ROWS))


class Batch:
    """Rows under way. `run` advances all of them by one supervision step at a time."""

    def __init__(
        self, model: Reasoner, inputs: Tokens, options: SampleOptions, puzzle_ids: Tokens | None = None
    ) -> None:
        self.model, self.options = model, options
        self.device = model.h_init.device
        self.noise = KeyedNoise(self.device)
        self.puzzles: dict[int, Puzzle] = {}
        self.admitted = 0
        for given, number in zip(inputs, [0] * len(inputs) if puzzle_ids is None else puzzle_ids, strict=True):
            self.admit(given, options, int(number))
        self.puzzle, self.trajectory, self.step, self.depth = (np.zeros(0, dtype=np.int64) for _ in range(4))
        self.temperature, self.may_halt = np.zeros(0, dtype=np.float32), np.zeros(0, dtype=np.bool_)
        self.state = model.initial_state(0)
        self.e_x = torch.zeros_like(self.state.h)

    def admit(self, given: Tokens, options: SampleOptions, puzzle_id: int = 0) -> int:
        """Take in a puzzle [length] with options of its own, and return its number, for `add`."""
        if any(getattr(options, name) != getattr(self.options, name) for name in SHARED_OPTIONS):
            raise ValueError(f"all rows of a batch have the same {', '.join(SHARED_OPTIONS)}")
        key = noise_key(options.seed, given, puzzle_id if self.model.config.puzzles else None)
        number, self.admitted = self.admitted, self.admitted + 1
        self.puzzles[number] = Puzzle(given, options, puzzle_id, key)
        return number

    def release(self, number: int) -> None:
        """Forget a puzzle, and let its rows go."""
        self.keep(self.puzzle != number)
        del self.puzzles[number]

    def run(self, jobs: Iterable[Job], chunk: int | None = None) -> Iterator[Steps]:
        """All jobs to their ends, at most `chunk` at a time."""
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
        """Let trajectories begin."""
        if not jobs:
            return
        puzzle, trajectory = np.array(jobs, dtype=np.int64).T
        options = [self.puzzles[number].options for number in puzzle.tolist()]
        state = self.model.initial_state(len(jobs))
        if self.options.initial == "random":
            shape = state.h.shape[1:]
            h, low = (self.noise.draw(self._keys(puzzle, trajectory, label), *shape) for label in ("h", "l"))
            state = State(h, None if state.l is None else low)
        self.puzzle = np.concatenate([self.puzzle, puzzle])
        self.trajectory = np.concatenate([self.trajectory, trajectory])
        self.step = np.concatenate([self.step, np.zeros_like(puzzle)])
        self.depth = np.concatenate([self.depth, [each.depth for each in options]])
        temperature = np.array([each.temperature for each in options], dtype=np.float32)
        self.temperature = np.concatenate([self.temperature, temperature])
        self.may_halt = np.concatenate([self.may_halt, [each.halt for each in options]])
        self.state = State.cat([self.state, state])
        self.e_x = torch.cat([self.e_x, self._encode(puzzle)])

    @torch.inference_mode()
    def keep(self, going: NDArray[np.bool_]) -> None:
        """Let the other rows go; going [rows]."""
        if going.all():
            return
        self.puzzle, self.trajectory, self.step = self.puzzle[going], self.trajectory[going], self.step[going]
        self.depth, self.temperature, self.may_halt = self.depth[going], self.temperature[going], self.may_halt[going]
        index = torch.from_numpy(np.flatnonzero(going)).to(self.device)
        self.state, self.e_x = self.state.rows(index), self.e_x[index]

    @torch.inference_mode()
    def advance(self) -> Steps:
        """One supervision step of every row."""
        options, transitions = self.options, self.model.config.transitions
        output = self.model.step(
            self._perturbed(self.state),
            self.e_x,
            self._transition_noise(),
            first_transition=torch.from_numpy(self.step * transitions).to(self.device),
        )
        self.state = output.state
        logits = self.model.decoder.logits(self.state.h)
        if options.decode == "sample":
            # Gumbel-max with keyed noise: uniform from the normal's distribution function.
            uniform = torch.special.ndtr(self._drawn("d", *logits.shape[1:])).clamp(1e-7, 1 - 1e-7)
            logits = logits - torch.log(-torch.log(uniform))
        readout = self.model.decoder.readout(self.state.h)
        self.step = self.step + 1
        halted = self.model.wants_to_halt(readout, options.halt_at).cpu().numpy() & self.may_halt
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
        )

    def _transition_noise(self) -> "partial[Tensor]":
        """The noise of transition t at each row's temperature, drawn for all transitions at once."""
        shape = (self.model.config.transitions, *self.state.h.shape[1:])
        noisy = self.model.is_random and bool(self.temperature.any())
        drawn = self._drawn("e", *shape) if noisy else torch.zeros(1, *shape, device=self.device)
        if noisy and (self.temperature != 1).any():
            drawn *= torch.from_numpy(self.temperature).to(self.device)[:, None, None, None]
        return partial(drawn.select, 1)

    def _perturbed(self, state: State) -> State:
        if not self.options.perturb:
            return state
        return State(state.h + self.options.perturb * self._drawn("p", *state.h.shape[1:]), state.l)

    def _drawn(self, label: str, *shape: int) -> Tensor:
        """Noise [rows, *shape] of the step that each row is about to make."""
        rows = zip(self.puzzle.tolist(), self.trajectory.tolist(), self.step.tolist(), strict=True)
        return self.noise.draw([(self.puzzles[p].key, t, f"{label}{step}") for p, t, step in rows], *shape)

    def _keys(self, puzzle: Tokens, trajectory: Tokens, label: str) -> list[tuple[bytes, int, str]]:
        pairs = zip(puzzle.tolist(), trajectory.tolist(), strict=True)
        return [(self.puzzles[p].key, t, label) for p, t in pairs]

    @torch.inference_mode()
    def _encode(self, puzzle: Tokens) -> Tensor:
        chosen = [self.puzzles[number] for number in puzzle.tolist()]
        ids = torch.tensor([each.puzzle_id for each in chosen], device=self.device)
        given = torch.from_numpy(np.stack([each.given for each in chosen])).to(self.device)
        return self.model.encoder(given, ids if self.model.config.puzzles else None)  # type: ignore[no-any-return]
