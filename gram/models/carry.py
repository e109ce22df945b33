"""What training carries from one supervision step to the next: the examples in the slots, and their latent states."""

from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import torch
from torch import Tensor

from gram.models.noise import derive, uniform

STAGGER = -1
"""Label of the random number that determines the lifetime of a slot's first example."""


class State(NamedTuple):
    """The latent state z = (h, l)."""

    h: Tensor
    """[batch, tokens, dim] high level, the only part that is decoded"""
    l: Tensor | None  # noqa: E741 - the paper's name
    """[batch, tokens, dim] low level; None for a flat state"""

    def rows(self, index: Tensor | slice) -> "State":
        """Select rows of the batch."""
        return State(self.h[index], None if self.l is None else self.l[index])

    def detach(self) -> "State":
        """Cut the gradient."""
        return State(self.h.detach(), None if self.l is None else self.l.detach())

    def towards(self, other: "State", size: Tensor) -> "State":
        """Go a fraction `size` [batch] of the way to another state."""
        size = size[:, None, None]
        low = None if self.l is None or other.l is None else torch.lerp(self.l, other.l, size)
        return State(torch.lerp(self.h, other.h, size), low)

    @staticmethod
    def cat(states: "list[State]") -> "State":
        """Join along the batch."""
        lows = [state.l for state in states if state.l is not None]
        return State(torch.cat([state.h for state in states]), torch.cat(lows) if lows else None)

    @staticmethod
    def where(mask: Tensor, yes: "State", no: "State") -> "State":
        """Choose by row; mask [batch]."""
        mask = mask[:, None, None]
        low = None if yes.l is None or no.l is None else torch.where(mask, yes.l, no.l)
        return State(torch.where(mask, yes.h, no.h), low)


@dataclass(frozen=True)
class Rows:
    """Examples, one for every slot; only slots that have finished take them."""

    inputs: Tensor
    """[slots, length]"""
    targets: Tensor
    """[slots, length]; negative where there is no label"""
    deal: Tensor
    """[slots] a unique number of the example within the run, which keys its noise"""
    lifetime: Tensor
    """[slots] supervision steps before the example is replaced"""
    min_steps: Tensor
    """[slots] steps before which the slot may not halt (exploration)"""
    index: Tensor
    """[slots] row of the training split"""
    puzzle_ids: Tensor | None = None
    """[slots] for models with puzzle embeddings"""

    def tensors(self) -> dict[str, Tensor]:
        """Return every tensor by name; the first axis of each is the slot."""
        return {name: tensor for name, tensor in vars(self).items() if tensor is not None}

    def part(self, index: slice) -> "Rows":
        """Select slots."""
        return Rows(**{name: tensor[index] for name, tensor in self.tensors().items()})


@dataclass(frozen=True)
class Carry:
    """The active examples and, for models with states, their latent states."""

    rows: Rows
    steps: Tensor
    """[slots] supervision steps made; -1 where a slot has never had an example"""
    finished: Tensor
    """[slots] bool: the slot takes the next example"""
    state: State | None = None
    """z of each slot"""
    memory: Tensor | None = None
    """[slots, tokens, dim] one state of the trajectory, uniform over its steps, for the value head"""

    def take(self, offered: Rows, initial: State | None = None) -> "Carry":
        """Replace the examples of finished slots by the offered ones, with state z_0 (`initial`).

        The first example of a slot has a random part of its lifetime, so that every update contains all steps.
        """
        new = self.finished
        cut = uniform(derive(offered.deal, STAGGER)) * offered.lifetime
        lifetime = torch.where(self.steps < 0, 1 + cut.long(), offered.lifetime)
        offered = replace(offered, lifetime=lifetime)
        parts = {
            name: torch.where(new if old.ndim == 1 else new[:, None], getattr(offered, name), old)
            for name, old in self.rows.tensors().items()
        }
        state, memory = self.state, self.memory
        if state is not None and initial is not None and memory is not None:
            state = State.where(new, initial, state)
            memory = torch.where(new[:, None, None], initial.h, memory)
        steps, finished = torch.where(new, 0, self.steps), torch.zeros_like(new)
        return Carry(Rows(**parts), steps, finished, state, memory)

    def tensors(self) -> dict[str, Tensor]:
        """Return every tensor by name; the first axis of each is the slot."""
        named: dict[str, Tensor | None] = {**self.rows.tensors()}
        named |= {"steps": self.steps, "finished": self.finished, "memory": self.memory}
        if self.state is not None:
            named |= {"h": self.state.h, "l": self.state.l}
        return {name: tensor for name, tensor in named.items() if tensor is not None}

    @staticmethod
    def of(tensors: dict[str, Tensor]) -> "Carry":
        """Rebuild a carry from the result of `tensors`."""
        rows = Rows(**{field.name: tensors.get(field.name) for field in fields(Rows)})  # type: ignore[arg-type]
        state = State(tensors["h"], tensors.get("l")) if "h" in tensors else None
        return Carry(rows, tensors["steps"], tensors["finished"], state, tensors.get("memory"))

    def part(self, index: slice) -> "Carry":
        """Select slots."""
        return Carry.of({name: tensor[index] for name, tensor in self.tensors().items()})
