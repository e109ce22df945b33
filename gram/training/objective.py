"""The one update: who learns what from one supervision step of every slot. Its terms are in `gram.models.losses`."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gram.config import ObjectiveConfig
from gram.models.guidance import Gaussian
from gram.models.losses import (
    balanced_kl,
    exactly_right,
    halt_loss,
    labelled_count,
    random_noise,
    reconstruction_loss,
    squared_error,
    token_accuracy,
)
from gram.models.reasoner import Early, Noise, Reasoner, State, StepOutput
from gram.training.distributed import Team
from gram.training.slots import Slots
from gram.training.update import Update

Checker = Callable[[Tensor, Tensor], Tensor]
"""Judges outputs [rows, length] for inputs [rows, length]: [rows] bool, "a valid solution"."""


@dataclass
class Piece:
    """What some of the slots contribute."""

    loss: Tensor
    state: State
    """detached"""
    outputs: Tensor
    """[rows, length]"""
    halts: Tensor
    """[rows] the halt head would stop here (False where these slots do not train it)"""
    metrics: dict[str, Tensor]
    """each multiplied by the piece's share of the rows"""


class Objective(nn.Module):
    """A reasoner with its loss, as one module (so that one forward pass is one distributed step)."""

    def __init__(
        self,
        model: Reasoner,
        config: ObjectiveConfig,
        *,
        checker: Checker | None,
        halt_in_training: bool,
        release: float = 0.0,
        team: Team | None = None,
    ) -> None:
        super().__init__()
        self.team = team
        self.model = model
        self.config = config
        self.checker = checker
        self.halt_in_training = halt_in_training
        self.release = release
        # A model that is supervised only at the end makes all its transitions in one update.
        deep = model.config.supervision == "deep"
        self.steps_per_example = model.config.supervision_steps if deep else 1
        self.transitions = model.config.transitions * (1 if deep else model.config.supervision_steps)
        self.piece_rows = 0
        """Slots whose gradient is computed at a time; 0 for all. The result is the same, the memory smaller."""
        self.backward: Callable[[Tensor], None] | None = None
        """Computes gradients of parts of the loss as soon as they can be; None leaves all to the caller"""

    def prior_rows(self, slots: int) -> int:
        """How many slots (the first ones) roll out from the prior: at least one, and never all."""
        if self.model.guidance is None or self.config.prior_share == 0 or slots == 1:
            return 0
        return min(max(1, round(self.config.prior_share * slots)), slots - 1)

    def forward(self, slots: Slots, beta: float, generator: torch.Generator) -> Update:
        """One supervision step for every slot: its loss, and the states to carry on from.

        Slots learn piece by piece, so that no more than one piece's activations are kept. All but the last piece's
        gradients are computed here: to DistributedDataParallel they are accumulated ones, exchanged with the last.
        So are those of the KL of early transitions, whose activations would add up with T.
        """
        count = len(slots.index)
        prior = slice(0, self.prior_rows(count))
        learn = slice(0 if self.config.learn_from_rollouts else prior.stop, count)
        noise = self._drawn_noise(slots.state.h[learn], learn, generator)
        rows = count if self.backward is None else self.piece_rows or count
        pieces = []
        for start in range(learn.start, count, rows):
            some = slice(start, min(start + rows, count))
            share = (some.stop - start) / (count - learn.start)
            own = slice(start - learn.start, some.stop - learn.start)
            piece = self._learn(slots, some, noise[:, own], beta, share, generator)
            if some.stop < count and self.backward is not None:
                self.backward(piece.loss)
            pieces.append(piece)
        metrics = _total([piece.metrics for piece in pieces])
        state = State.cat([piece.state for piece in pieces])
        outputs = torch.cat([piece.outputs for piece in pieces])
        halts = torch.cat([piece.halts for piece in pieces])
        loss, heads, answers = pieces[-1].loss, learn, outputs
        if prior.stop:
            rollout = self._roll_out(slots, prior, generator)
            answers = torch.cat([rollout.outputs, outputs[prior.stop - learn.start :]])
            loss, heads, outputs = loss + rollout.loss, prior, rollout.outputs
            state = State.cat([rollout.state, state.rows(slice(prior.stop - learn.start, None))])
            metrics = _total([metrics, rollout.metrics])
        finished = slots.steps + 1 >= slots.lifetime
        if self.halt_in_training and heads == slice(0, count):
            finished = finished | (halts & (slots.steps + 1 >= slots.min_steps))
        if self.release:
            everyone = slice(0, count)
            leaves = self._uniform(state.h, everyone, generator) < self.release
            finished = finished | (self._right(slots, everyone, answers) & leaves)
        right = self._right(slots, heads, outputs)
        value, value_metrics = self._value_loss(slots, heads, state.h[heads], outputs, right, finished, generator)
        metrics["loss"] = metrics["loss"] + value.detach()
        if self.model.guidance is not None and not prior.stop:
            value_metrics.pop("rollout_accuracy")  # every slot followed the posterior: it says nothing about rollouts
        own = prior if self.model.guidance is not None else heads
        return Update(loss + value, state, finished, outputs[own], {**metrics, **value_metrics})

    def _learn(
        self, slots: Slots, rows: slice, noise: Tensor, beta: float, share: float, generator: torch.Generator
    ) -> Piece:
        """The targets of some slots, and the halt head where no slots roll out by themselves."""
        targets = slots.targets[rows]
        kls: list[Tensor] = []
        charged = self.config.kl_scope == "all"

        def charge_early(prior: Gaussian, posterior: Gaussian) -> None:
            kls.append(self.kl(posterior, prior, targets))
            if charged and self.backward is not None:
                self.backward(share * beta * kls[-1])
            kls[-1] = kls[-1].detach()

        output = self._step(slots, rows, noise, targets, None if self.backward is None else charge_early)
        logits = self.model.decoder.logits(output.state.h)
        outputs = logits.detach().argmax(dim=-1)
        loss = reconstruction_loss(logits, targets, self.config.cross_entropy).mean()
        metrics = {"reconstruction": loss, "posterior_accuracy": exactly_right(outputs, targets).float().mean()}
        if output.posteriors:
            pairs = zip(output.posteriors, output.priors, strict=True)
            kls += [self.kl(posterior, prior, targets) for posterior, prior in pairs]
            loss = loss + beta * (sum(kls) if charged else kls[-1])
            metrics |= {f"kl_{t + 1}": kl for t, kl in enumerate(kls)}
            metrics["sigma_prior"] = output.priors[-1].log_sigma.exp().mean()
            metrics["sigma_posterior"] = output.posteriors[-1].log_sigma.exp().mean()
        halts = torch.zeros_like(outputs[:, 0], dtype=torch.bool)
        if not self.prior_rows(len(slots.index)):
            halt, halts = self._halt_loss(slots, rows, output.state, outputs, generator)
            loss, metrics["halt"] = loss + self.config.halt_weight * halt, halt
        metrics["loss"] = loss
        scaled = {name: share * metric.detach() for name, metric in metrics.items()}
        scaled_loss = share * loss + (0 if output.owed is None else output.owed)
        return Piece(scaled_loss, output.state.detach(), outputs, halts, scaled)

    def _roll_out(self, slots: Slots, rows: slice, generator: torch.Generator) -> Piece:
        """The slots that follow the prior: they train the halt head."""
        with torch.no_grad():
            noise = self._drawn_noise(slots.state.h[rows], rows, generator)
            state = self._step(slots, rows, noise, None, temperature=self.config.rollout_temperature).state
            outputs = self.model.decoder.logits(state.h).argmax(dim=-1)
        halt, halts = self._halt_loss(slots, rows, state, outputs, generator)
        loss = self.config.halt_weight * halt
        return Piece(loss, state, outputs, halts, {"halt": halt.detach(), "loss": loss.detach()})

    def _step(
        self,
        slots: Slots,
        rows: slice,
        noise: Tensor,
        targets: Tensor | None,
        early: Early | None = None,
        *,
        temperature: float = 1.0,
    ) -> StepOutput:
        """Posterior-guided if targets are given, else prior-guided; noise [transitions, rows, tokens, dim]."""
        guided = self.model.guidance is not None and targets is not None
        e_y = self.model.guidance.embed_targets(targets) if guided else None  # type: ignore[union-attr, arg-type]
        return self.model.step(
            slots.state.rows(rows),
            self._encoded(slots, rows),
            noise.__getitem__,
            e_y=e_y,
            first_transition=slots.steps[rows] * self.transitions,
            transitions=self.transitions,
            temperature=temperature,
            early=early if guided else None,
        )

    def _encoded(self, slots: Slots, rows: slice) -> Tensor:
        puzzle_ids = None if slots.puzzle_ids is None else slots.puzzle_ids[rows]
        return self.model.encoder(slots.inputs[rows], puzzle_ids)  # type: ignore[no-any-return]

    def kl(self, posterior: Gaussian, prior: Gaussian, targets: Tensor) -> Tensor:
        """KL of a transition, averaged over rows; the value is the true (unbalanced) KL.

        It is per labelled token, or the sum over tokens, as `kl_reduction` says.
        """
        divergence = balanced_kl(posterior, prior, self.config.kl_balance).sum(dim=-1)
        return (divergence if self.config.kl_reduction == "sum" else divergence / labelled_count(targets)).mean()

    def _right(self, slots: Slots, rows: slice, outputs: Tensor) -> Tensor:
        """[rows] these outputs are solutions."""
        if self.checker is None:
            return exactly_right(outputs, slots.targets[rows])
        return self.checker(slots.inputs[rows], outputs)

    def _halt_loss(
        self, slots: Slots, rows: slice, state: State, outputs: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """The halt head's loss on some rows, and which of them it would stop."""
        readout = self.model.decoder.readout(state.h if self.config.heads_reach_core else state.h.detach())
        right = self._right(slots, rows, outputs)
        continue_target = self._continue_target(slots, rows, state.detach(), generator)
        loss = halt_loss(readout, right, continue_target, self.config.halt_loss).mean()
        return loss, self.model.wants_to_halt(readout)

    def _value_loss(
        self,
        slots: Slots,
        rows: slice,
        h: Tensor,
        outputs: Tensor,
        right: Tensor,
        finished: Tensor,
        generator: torch.Generator,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The value head's weighted loss on the trajectories that end now."""
        c, done = self.config, finished[rows]
        # Reservoir sampling keeps one state of each trajectory, uniform over its steps, at constant memory.
        keep_new = self._uniform(h, rows, generator) * (slots.steps[rows] + 1) < 1
        slots.memory[rows] = torch.where(keep_new[:, None, None], h, slots.memory[rows])
        quality = right.float() if c.value_target == "valid" else token_accuracy(outputs, slots.targets[rows])
        errors = squared_error(self.model.decoder.readout(slots.memory[rows]).value, quality) * done
        # All processes' gradients are averaged: each counts its part of the errors `size` times.
        ended, size = (done.sum(), 1) if self.team is None else (self.team.sum(done.sum()), self.team.size)
        metrics = {
            "value": (errors.sum() / done.sum()),  # NaN when no trajectory ended in this step
            "rollout_accuracy": (right & done).sum() / done.sum(),
        }
        return c.value_weight * errors.sum() * size / ended.clamp_min(1), metrics

    def _drawn_noise(self, like: Tensor, rows: slice, generator: torch.Generator) -> Tensor:
        """[transitions, rows, tokens, dim] fresh noise for own slots `rows`; nothing where the model needs none."""
        if not self.model.has_noise:
            return torch.zeros((self.transitions, *[0] * like.ndim), device=like.device)
        draw = self._noise(like, rows, generator)
        return torch.stack([draw(t) for t in range(self.transitions)])

    def _noise(self, like: Tensor, rows: slice, generator: torch.Generator) -> Noise:
        """Fresh noise for every transition of own slots `rows`."""
        team = self.team
        if team is None:
            return random_noise(like, generator)
        return lambda _transition: team.draw(like.shape[1:], rows, like, generator, normal=True)

    def _uniform(self, like: Tensor, rows: slice, generator: torch.Generator) -> Tensor:
        if self.team is None:
            return torch.rand(len(like), device=like.device, generator=generator)
        return self.team.draw((), rows, like.float(), generator, normal=False)

    @torch.no_grad()
    def _continue_target(self, slots: Slots, rows: slice, state: State, generator: torch.Generator) -> Tensor | None:
        """Q-learning's target for "continue": the better of the two values one step later."""
        if self.model.config.halting != "q_learning":
            return None
        steps = slots.steps[rows] + 1
        ahead = self.model.step(
            state,
            self._encoded(slots, rows),
            self._noise(state.h, rows, generator),
            first_transition=steps * self.transitions,
            transitions=self.transitions,
        )
        readout = self.model.decoder.readout(ahead.state.h)
        best = torch.maximum(readout.q_halt, readout.q_continue)
        return torch.where(steps >= slots.lifetime[rows], readout.q_halt, best).sigmoid()


def _total(parts: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The sum of what all parts know of each metric."""
    total: dict[str, Tensor] = {}
    for part in parts:
        for name, metric in part.items():
            total[name] = total[name] + metric if name in total else metric
    return total
