"""The batch that inference runs in: trajectories that end leave it at once, and waiting ones take their place."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gram.inference.noise import KeyedNoise, puzzle_digest
from gram.machine import free_memory
from gram.models.reasoner import Reasoner, State
from gram.options import SampleOptions
from gram.tasks.base import Tokens

CPU_ROWS, CPU_BYTES = 128, 2**26
"""On a CPU more rows do not make multiplies faster, and their states and noise should stay near its caches."""
GPU_ROWS, GPU_FRACTION = 8192, 0.25
"""A GPU needs thousands of rows to be busy; activations take about as much again as what is counted here."""

Job = tuple[int, int]
"""(puzzle, trajectory) to be run"""


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
    """Return how many trajectories run at once on the model's device."""
    return rows_at_once(bytes_per_row(model), free_memory(model.h_init.device))


def bytes_per_row(model: Reasoner) -> int:
    """Return roughly what a row's states, noise and logits take."""
    c = model.config
    return 4 * model.tokens * c.dim * (c.transitions + 6) + 4 * model.length * model.vocab_size


def rows_at_once(per_row: int, free: int | None) -> int:
    """Return how many rows of `per_row` bytes are worth running at once; `free` bytes are on a GPU, None is a CPU."""
    most, room = (CPU_ROWS, CPU_BYTES) if free is None else (GPU_ROWS, int(GPU_FRACTION * free))
    return int(np.clip(room // per_row, 1, most))


class Batch:
    """Rows under way. `run` advances all of them by one supervision step at a time."""

    def __init__(
        self, model: Reasoner, inputs: Tokens, options: SampleOptions, puzzle_ids: Tokens | None = None
    ) -> None:
        if not model.config.puzzles:
            puzzle_ids = None
        elif puzzle_ids is None:
            puzzle_ids = np.zeros(len(inputs), dtype=np.int64)
        self.model, self.inputs, self.options, self.puzzle_ids = model, inputs, options, puzzle_ids
        self.device = model.h_init.device
        self.noise = KeyedNoise(options.seed, self.device)
        ids = [None] * len(inputs) if puzzle_ids is None else puzzle_ids.tolist()
        self.digests = [puzzle_digest(tokens, number) for tokens, number in zip(inputs, ids, strict=True)]
        self.puzzle, self.trajectory, self.step = (np.zeros(0, dtype=np.int64) for _ in range(3))
        self.state = model.initial_state(0)
        self.e_x = torch.zeros_like(self.state.h)

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
        state = self.model.initial_state(len(jobs))
        if self.options.initial == "random":
            shape = state.h.shape[1:]
            h, low = (self.noise.draw(self._keys(puzzle, trajectory, label), *shape) for label in ("h", "l"))
            state = State(h, None if state.l is None else low)
        self.puzzle = np.concatenate([self.puzzle, puzzle])
        self.trajectory = np.concatenate([self.trajectory, trajectory])
        self.step = np.concatenate([self.step, np.zeros_like(puzzle)])
        self.state = State.cat([self.state, state])
        self.e_x = torch.cat([self.e_x, self._encode(puzzle)])

    @torch.inference_mode()
    def keep(self, going: NDArray[np.bool_]) -> None:
        """Let the other rows go; going [rows]."""
        if going.all():
            return
        self.puzzle, self.trajectory, self.step = self.puzzle[going], self.trajectory[going], self.step[going]
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
            temperature=options.temperature,
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
        halted = self.model.wants_to_halt(readout, options.halt_at).cpu().numpy() & options.halt
        return Steps(
            self.puzzle,
            self.trajectory,
            self.step,
            logits.argmax(dim=-1).cpu().numpy(),
            readout.value.sigmoid().cpu().numpy(),
            readout.q_halt.sigmoid().cpu().numpy(),
            halted | (self.step >= options.depth),
            halted,
            self.state.h,
        )

    def _transition_noise(self) -> "partial[Tensor]":
        """The noise of transition t, drawn for all transitions at once."""
        shape = (self.model.config.transitions, *self.state.h.shape[1:])
        noisy = self.model.is_random and self.options.temperature > 0
        drawn = self._drawn("e", *shape) if noisy else torch.zeros(1, *shape, device=self.device)
        return partial(drawn.select, 1)

    def _perturbed(self, state: State) -> State:
        if not self.options.perturb:
            return state
        return State(state.h + self.options.perturb * self._drawn("p", *state.h.shape[1:]), state.l)

    def _drawn(self, label: str, *shape: int) -> Tensor:
        """Noise [rows, *shape] of the step that each row is about to make."""
        rows = zip(self.puzzle.tolist(), self.trajectory.tolist(), self.step.tolist(), strict=True)
        return self.noise.draw([(self.digests[p], t, f"{label}{step}") for p, t, step in rows], *shape)

    def _keys(self, puzzle: Tokens, trajectory: Tokens, label: str) -> list[tuple[bytes, int, str]]:
        pairs = zip(puzzle.tolist(), trajectory.tolist(), strict=True)
        return [(self.digests[p], t, label) for p, t in pairs]

    @torch.inference_mode()
    def _encode(self, puzzle: Tokens) -> Tensor:
        ids = None if self.puzzle_ids is None else torch.from_numpy(self.puzzle_ids[puzzle]).to(self.device)
        return self.model.encoder(torch.from_numpy(self.inputs[puzzle]).to(self.device), ids)  # type: ignore[no-any-return]
