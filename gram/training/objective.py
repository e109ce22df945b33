"""Every term of the loss, and the one update that uses them.

    reconstruction + beta * KL(q || p) + halt_weight * halt + value_weight * value

Reconstruction and KL are divided by the same count of labelled tokens, so beta = 1 is the ELBO per labelled token.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gram.config import ObjectiveConfig
from gram.nn.coders import Readout
from gram.nn.guidance import Gaussian, kl_divergence
from gram.nn.reasoner import Noise, Reasoner, State, StepOutput
from gram.tasks.base import IGNORE
from gram.training.slots import Slots
from gram.training.team import Team

Checker = Callable[[Tensor, Tensor], Tensor]
"""Judges outputs [rows, length] for inputs [rows, length]: [rows] bool, "a valid solution"."""


def log_stablemax(logits: Tensor) -> Tensor:
    """Log of s(x) / sum s(x) with s(x) = x + 1 above 0 and 1 / (1 - x) below; in float64 as published."""
    logits = logits.double()
    s = torch.where(logits < 0, 1 / (1 - logits + 1e-30), logits + 1)
    return torch.log(s / s.sum(dim=-1, keepdim=True))


def token_cross_entropy(logits: Tensor, targets: Tensor, kind: str) -> Tensor:
    """logits [rows, length, vocabulary], targets [rows, length] -> [rows, length], 0 where unlabelled."""
    if kind == "softmax":
        return F.cross_entropy(
            logits.float().flatten(0, 1), targets.flatten(), ignore_index=IGNORE, reduction="none"
        ).view(targets.shape)
    labelled = targets != IGNORE
    chosen = log_stablemax(logits).gather(-1, torch.where(labelled, targets, 0)[..., None])[..., 0]
    return torch.where(labelled, -chosen, 0.0).float()


def labelled_count(targets: Tensor) -> Tensor:
    """targets [rows, length] -> [rows] number of labelled tokens, at least 1."""
    return (targets != IGNORE).sum(dim=-1).clamp_min(1)


def reconstruction_loss(logits: Tensor, targets: Tensor, kind: str) -> Tensor:
    """-log p(y | h) per labelled token: [rows]."""
    return token_cross_entropy(logits, targets, kind).sum(dim=-1) / labelled_count(targets)


def balanced_kl(q: Gaussian, p: Gaussian, balance: float) -> Tensor:
    """`balance` KL(stop(q) || p) + (1 - balance) KL(q || stop(p)): [rows, tokens].

    Both terms have the same value, so one KL with scaled gradients is exactly their sum.
    """
    return kl_divergence(q.scale_gradient(1 - balance), p.scale_gradient(balance))


def exactly_right(outputs: Tensor, targets: Tensor) -> Tensor:
    """[rows] every labelled token is right."""
    return ((outputs == targets) | (targets == IGNORE)).all(dim=-1)


def token_accuracy(outputs: Tensor, targets: Tensor) -> Tensor:
    """[rows] share of the labelled tokens that are right."""
    return ((outputs == targets) & (targets != IGNORE)).sum(dim=-1) / labelled_count(targets)


def halt_loss(readout: Readout, right: Tensor, continue_target: Tensor | None) -> Tensor:
    """Cross-entropy of q_halt with "right now", and (Q-learning) of q_continue with its target: [rows]."""
    loss = F.binary_cross_entropy_with_logits(readout.q_halt, right.float(), reduction="none")
    if continue_target is not None:
        loss = loss + F.binary_cross_entropy_with_logits(readout.q_continue, continue_target, reduction="none")
    return loss


def value_loss(value: Tensor, final_quality: Tensor) -> Tensor:
    """(v - r)^2 per row, v through a sigmoid because r lies in [0, 1]."""
    return (value.sigmoid() - final_quality).square()


@dataclass
class Update:
    """The result of one supervision step for every slot."""

    loss: Tensor
    state: State
    finished: Tensor
    """[slots] this slot's example is done"""
    rollouts: Tensor
    """[rows, length] what the slots that roll out by themselves now answer: the first ones, or all without guidance"""
    metrics: dict[str, Tensor]
    """Scalars for the log; NaN where nothing was measured in this step"""


class Objective(nn.Module):
    """A reasoner with its loss, as one module (so that one forward pass is one distributed step)."""

    def __init__(
        self,
        model: Reasoner,
        config: ObjectiveConfig,
        *,
        checker: Checker | None,
        halt_in_training: bool,
        team: Team | None = None,
    ) -> None:
        super().__init__()
        self.team = team
        self.model = model
        self.config = config
        self.checker = checker
        self.halt_in_training = halt_in_training
        # A model that is supervised only at the end makes all its transitions in one update.
        deep = model.config.supervision == "deep"
        self.steps_per_example = model.config.supervision_steps if deep else 1
        self.transitions = model.config.transitions * (1 if deep else model.config.supervision_steps)

    def prior_rows(self, slots: int) -> int:
        """How many slots (the first ones) roll out from the prior: at least one, and never all."""
        if self.model.guidance is None or self.config.prior_share == 0 or slots == 1:
            return 0
        return min(max(1, round(self.config.prior_share * slots)), slots - 1)

    def forward(self, slots: Slots, beta: float, generator: torch.Generator) -> Update:
        """One supervision step for every slot: its loss, and the states to carry on from."""
        prior_rows = self.prior_rows(len(slots.index))
        prior, learn = slice(0, prior_rows), slice(0 if self.config.learn_from_rollouts else prior_rows, None)
        e_x = self.model.encoder(slots.inputs, slots.puzzle_ids)
        targets = slots.targets[learn]
        output = self._step(slots, learn, e_x, generator, targets)
        logits = self.model.decoder.logits(output.state.h)
        reconstruction = reconstruction_loss(logits, targets, self.config.cross_entropy).mean()
        loss = reconstruction
        outputs = logits.detach().argmax(dim=-1)
        accuracy = exactly_right(outputs, targets).float().mean()
        metrics = {"reconstruction": reconstruction, "posterior_accuracy": accuracy}
        if output.posteriors:
            kls = self.kl_per_transition(output, targets)
            loss = loss + beta * (sum(kls) if self.config.kl_scope == "all" else kls[-1])
            metrics |= {f"kl_{t + 1}": kl for t, kl in enumerate(kls)}
            metrics["sigma_prior"] = output.priors[-1].log_sigma.detach().exp().mean()
            metrics["sigma_posterior"] = output.posteriors[-1].log_sigma.detach().exp().mean()
        state, h = output.state.detach(), output.state.h
        if prior_rows:
            with torch.no_grad():
                rollout = self._step(slots, prior, e_x, generator, None)
                guided = state.rows(slice(prior_rows - learn.start, None))
                state, h = State.cat([rollout.state, guided]), rollout.state.h
                outputs = self.model.decoder.logits(h).argmax(dim=-1)
        trains_heads = prior if prior_rows else learn
        own = prior if self.model.guidance is not None else learn
        head_loss, finished, head_metrics = self._head_losses(slots, trains_heads, h, outputs, state, generator)
        metrics |= head_metrics
        return Update(loss + head_loss, state, finished, outputs[own], {**metrics, "loss": loss + head_loss})

    def _step(
        self, slots: Slots, rows: slice, e_x: Tensor, generator: torch.Generator, targets: Tensor | None
    ) -> StepOutput:
        """Posterior-guided if targets are given, else prior-guided."""
        guided = self.model.guidance is not None and targets is not None
        e_y = self.model.guidance.embed_targets(targets) if guided else None  # type: ignore[union-attr, arg-type]
        state = slots.state.rows(rows)
        return self.model.step(
            state,
            e_x[rows],
            self._noise(state.h, rows, generator),
            e_y=e_y,
            first_transition=slots.steps[rows] * self.transitions,
            transitions=self.transitions,
        )

    def kl_per_transition(self, output: StepOutput, targets: Tensor) -> list[Tensor]:
        """KL of every transition per labelled token, averaged over rows; the value is the true (unbalanced) KL."""
        count = labelled_count(targets)
        pairs = zip(output.posteriors, output.priors, strict=True)
        return [(balanced_kl(q, p, self.config.kl_balance).sum(dim=-1) / count).mean() for q, p in pairs]

    def _head_losses(
        self, slots: Slots, rows: slice, h: Tensor, outputs: Tensor, state: State, generator: torch.Generator
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Halt and value losses on the rows that train these heads, and which slots are finished."""
        c, model = self.config, self.model
        steps = slots.steps + 1
        targets = slots.targets[rows]
        readout = model.decoder.readout(h if c.heads_reach_core else h.detach())
        finished = steps >= self.steps_per_example
        if self.halt_in_training and rows == slice(0, None):
            finished = finished | (model.wants_to_halt(readout) & (steps >= slots.min_steps))
        right = exactly_right(outputs, targets) if self.checker is None else self.checker(slots.inputs[rows], outputs)
        halt = halt_loss(readout, right, self._continue_target(slots, rows, state, steps, generator)).mean()
        # Reservoir sampling keeps one state of each trajectory, uniform over its steps, at constant memory.
        keep_new = self._uniform(h, rows, generator) * steps[rows] < 1
        slots.memory[rows] = torch.where(keep_new[:, None, None], h.detach(), slots.memory[rows])
        done = finished[rows]
        quality = right.float() if c.value_target == "valid" else token_accuracy(outputs, targets)
        value = model.decoder.readout(slots.memory[rows]).value
        errors = value_loss(value, quality) * done
        # All processes' gradients are averaged: each counts its part of the errors `size` times.
        ended, size = (done.sum(), 1) if self.team is None else (self.team.sum(done.sum()), self.team.size)
        loss_value = errors.sum() * size / ended.clamp_min(1)
        metrics = {
            "halt": halt,
            "value": (errors.sum() / done.sum()),  # NaN when no trajectory ended in this step
            "rollout_accuracy": (right & done).sum() / done.sum(),
        }
        return c.halt_weight * halt + c.value_weight * loss_value, finished, metrics

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
    def _continue_target(
        self, slots: Slots, rows: slice, state: State, steps: Tensor, generator: torch.Generator
    ) -> Tensor | None:
        """Q-learning's target for "continue": the better of the two values one step later."""
        if self.model.config.halting != "q_learning":
            return None
        puzzle_ids = None if slots.puzzle_ids is None else slots.puzzle_ids[rows]
        e_x = self.model.encoder(slots.inputs[rows], puzzle_ids)
        here = state.rows(rows)
        noise = self._noise(here.h, rows, generator)
        first = steps[rows] * self.transitions
        ahead = self.model.step(here, e_x, noise, first_transition=first, transitions=self.transitions)
        readout = self.model.decoder.readout(ahead.state.h)
        best = torch.maximum(readout.q_halt, readout.q_continue)
        return torch.where(steps[rows] >= self.steps_per_example, readout.q_halt, best).sigmoid()


def random_noise(like: Tensor, generator: torch.Generator) -> Noise:
    """Standard-normal noise in the shape of a state, fresh for every transition."""

    def draw(_transition: int) -> Tensor:
        return torch.randn(like.shape, generator=generator, device=like.device, dtype=like.dtype)

    return draw


@torch.no_grad()
def trajectory_elbo(
    model: Reasoner,
    inputs: Tensor,
    targets: Tensor,
    *,
    puzzle_ids: Tensor | None = None,
    kind: str,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """-ELBO of the whole trajectory, and the mean surrogate beside it, per labelled token: two [rows] tensors.

    The ELBO decodes once, at the end, and sums the KL of all T x N_sup transitions; the surrogate is the mean over
    supervision steps of reconstruction plus the KL of that step's last transition (the paper's appendix).
    """
    if model.guidance is None:
        raise ValueError("a model without guidance has no ELBO")
    count = labelled_count(targets)
    e_x, e_y = model.encoder(inputs, puzzle_ids), model.guidance.embed_targets(targets)
    state = model.initial_state(len(inputs))
    total_kl = torch.zeros(len(inputs), device=inputs.device)
    surrogates = []
    for n in range(model.config.supervision_steps):
        first = torch.full((len(inputs),), n * model.config.transitions, device=inputs.device)
        output = model.step(state, e_x, random_noise(state.h, generator), e_y=e_y, first_transition=first)
        state = output.state
        pairs = zip(output.posteriors, output.priors, strict=True)
        kls = [kl_divergence(q, p).sum(dim=-1) / count for q, p in pairs]
        total_kl += torch.stack(kls).sum(dim=0)
        reconstruction = reconstruction_loss(model.decoder.logits(state.h), targets, kind)
        surrogates.append(reconstruction + kls[-1])
    return reconstruction + total_kl, torch.stack(surrogates).mean(dim=0)
