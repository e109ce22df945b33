"""The terms of L_GRAM in one supervision step, and the ELBO of a whole trajectory.

    L_GRAM = reconstruction + beta * KL(q || p) + halt_weight * halt + value_weight * value

`Reasoner.training_step` adds the terms up. The formulas of the single terms are in `gram.models.losses`.
"""

import math
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gram.config import ObjectiveConfig
from gram.models.base import Metrics, StepContext
from gram.models.carry import Carry, State
from gram.models.guidance import Gaussian, kl_divergence
from gram.models.losses import (
    balanced_kl,
    exactly_right,
    halt_loss,
    labelled_count,
    reconstruction_loss,
    squared_error,
    token_accuracy,
)
from gram.models.noise import Noise, derive, normal, scaled, step_size, temperature_at, uniform

if TYPE_CHECKING:
    from gram.models.reasoner import Reasoner

POSTERIOR, PRIOR, AHEAD, MEMORY, RELEASE, ELBO = range(6)
"""Labels of the noise that one supervision step of a slot uses."""


class SupervisionStep:
    """The terms of L_GRAM in one supervision step of all slots."""

    def __init__(self, model: "Reasoner", carry: Carry, context: StepContext) -> None:
        assert carry.state is not None
        assert carry.memory is not None
        self.model, self.carry, self.context = model, carry, context
        self.rows, self.state, self.memory = carry.rows, carry.state, carry.memory
        self.key = derive(torch.full_like(carry.steps, context.seed), carry.rows.deal, carry.steps)
        """[slots] the noise key of this step"""

    def learn(self, rows: slice) -> tuple[Tensor, State, Tensor, Metrics]:
        """Follow the posterior to the targets; return reconstruction + beta * KL, states, outputs and metrics."""
        model, c, targets = self.model, self.model.objective, self.rows.targets[rows]
        e_y = model.guidance.embed_targets(targets)
        output = model.step(
            self.state.rows(rows),
            self._encoded(rows),
            self.noise(rows, POSTERIOR),
            e_y=e_y,
            first_transition=self.carry.steps[rows] * model.transitions_per_update,
            transitions=model.transitions_per_update,
        )
        logits = model.decoder.logits(output.state.h)
        outputs = logits.detach().argmax(dim=-1)
        loss = reconstruction_loss(logits, targets, c.cross_entropy).mean()
        metrics = {"reconstruction": loss, "posterior_accuracy": exactly_right(outputs, targets).float().mean()}
        if output.posteriors:
            pairs = zip(output.posteriors, output.priors, strict=True)
            kls = [kl_term(posterior, prior, targets, c) for posterior, prior in pairs]
            loss = loss + beta_at(c, self.context.progress) * (sum(kls) if c.kl_scope == "all" else kls[-1])
            metrics |= {f"kl_{t + 1}": kl for t, kl in enumerate(kls)}
            metrics["sigma_prior"] = output.priors[-1].log_sigma.exp().mean()
            metrics["sigma_posterior"] = output.posteriors[-1].log_sigma.exp().mean()
        return loss, output.state, outputs, metrics

    @torch.no_grad()
    def roll_out(self, rows: slice) -> tuple[State, Tensor]:
        """Follow the prior, as at inference; return states and outputs."""
        model, c, steps = self.model, self.model.objective, self.carry.steps[rows]
        final = c.rollout_temperature if c.rollout_temperature_final is None else c.rollout_temperature_final
        temperature = temperature_at(c.rollout_temperature, final, steps, self.rows.lifetime[rows])
        before, size = self.state.rows(rows), torch.ones_like(temperature)
        if c.rollout_horizon is not None:
            size = step_size(c.rollout_horizon, self.rows.lifetime[rows])
        state = model.step(
            before,
            self._encoded(rows),
            scaled(self.noise(rows, PRIOR), temperature * size.rsqrt()),
            first_transition=steps * model.transitions_per_update,
            transitions=model.transitions_per_update,
        ).state
        if c.rollout_horizon is not None:
            state = before.towards(state, size)
        return state, model.decoder.logits(state.h).argmax(dim=-1)

    def right(self, outputs: Tensor) -> Tensor:
        """Return which outputs are correct: [slots]."""
        if self.context.checker is None:
            return exactly_right(outputs, self.rows.targets)
        return self.context.checker(self.rows.inputs, outputs)

    def halt_loss(self, rows: slice, state: State, right: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss of the halt head on some slots, and its decisions (adaptive computation, ACT)."""
        c, some = self.model.objective, state.rows(rows)
        readout = self.model.decoder.readout(some.h if c.heads_reach_core else some.h.detach())
        target = self._continue_target(rows, some.detach()) if self.model.config.halting == "q_learning" else None
        loss = halt_loss(readout, right[rows], target, c.halt_loss).mean()
        return loss, self.model.wants_to_halt(readout)

    def finished(self, right: Tensor, halts: Tensor | None) -> Tensor:
        """Return which examples are finished: at the end of their lifetime, halted, or solved and released."""
        steps, context = self.carry.steps + 1, self.context
        finished = steps >= self.rows.lifetime
        if context.halt and halts is not None:
            finished = finished | (halts & (steps >= self.rows.min_steps))
        if context.release:
            finished = finished | (right & (uniform(derive(self.key, RELEASE)) < context.release))
        return finished

    def value_loss(
        self, rows: slice, h: Tensor, outputs: Tensor, right: Tensor, finished: Tensor
    ) -> tuple[Tensor, Tensor, Metrics]:
        """Return the value head's loss (LPRM) on trajectories that end now, the new memory, and metrics."""
        c, done = self.model.objective, finished[rows]
        # Reservoir sampling keeps one state of each trajectory, uniform over its steps, at constant memory.
        keep_new = uniform(derive(self.key, MEMORY)) * (self.carry.steps + 1) < 1
        memory = torch.where(keep_new[:, None, None], h.detach(), self.memory)
        quality = token_accuracy(outputs, self.rows.targets) if c.value_target == "token_accuracy" else right.float()
        errors = squared_error(self.model.decoder.readout(memory[rows]).value, quality[rows]) * done
        metrics = {
            "value": errors.sum() / done.sum(),  # NaN when no trajectory ended in this step
            "rollout_accuracy": (right[rows] & done).sum() / done.sum(),
        }
        # A trajectory ends once in N_sup steps. A mean over all slots is additive over micro-batches and processes.
        return self.model.steps_per_example * errors.mean(), memory, metrics

    def noise(self, rows: slice, label: int) -> Noise:
        """Return the noise of every transition of some slots."""
        if not self.model.guidance.noisy:
            return _no_noise
        return partial(_keyed, derive(self.key[rows], label), self.state.h.shape[1:])

    @torch.no_grad()
    def _continue_target(self, rows: slice, state: State) -> Tensor:
        """Return Q-learning's target for "continue": the larger of the two values one step later."""
        model, steps = self.model, self.carry.steps[rows] + 1
        ahead = model.step(
            state,
            self._encoded(rows),
            self.noise(rows, AHEAD),
            first_transition=steps * model.transitions_per_update,
            transitions=model.transitions_per_update,
        )
        readout = model.decoder.readout(ahead.state.h)
        best = torch.maximum(readout.q_halt, readout.q_continue)
        return torch.where(steps >= self.rows.lifetime[rows], readout.q_halt, best).sigmoid()

    def _encoded(self, rows: slice) -> Tensor:
        ids = None if self.rows.puzzle_ids is None else self.rows.puzzle_ids[rows]
        return self.model.encoder(self.rows.inputs[rows], ids)  # type: ignore[no-any-return]


def _keyed(key: Tensor, shape: tuple[int, ...], transition: int) -> Tensor:
    return normal(derive(key, transition), *shape)


def _no_noise(_transition: int) -> None:
    return None


def kl_term(posterior: Gaussian, prior: Gaussian, targets: Tensor, config: ObjectiveConfig) -> Tensor:
    """Return the KL of a transition, averaged over rows; its value is the true (unbalanced) KL.

    It is per labelled token, or the sum over tokens, as `kl_reduction` says.
    """
    divergence = balanced_kl(posterior, prior, config.kl_balance).sum(dim=-1)
    return (divergence if config.kl_reduction == "sum" else divergence / labelled_count(targets)).mean()


def beta_at(config: ObjectiveConfig, progress: float) -> float:
    """Return the weight of the KL: constant, or along a half cosine from `beta` to `beta_final`."""
    if config.beta_final is None:
        return config.beta
    return config.beta_final + (config.beta - config.beta_final) * 0.5 * (1 + math.cos(math.pi * progress))


@torch.no_grad()
def trajectory_elbo(
    model: "Reasoner", inputs: Tensor, targets: Tensor, *, puzzle_ids: Tensor | None = None, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Return -ELBO of the whole trajectory, and the mean surrogate beside it, per labelled token: two [rows] tensors.

    The ELBO decodes once, at the end, and sums the KL of all T x N_sup transitions; the surrogate is the mean over
    supervision steps of reconstruction plus the KL of that step's last transition (the paper's appendix). A model
    without guidance heads, or without noise, has no KL: the reconstruction alone is then the bound.
    """
    count, kind = labelled_count(targets), model.objective.cross_entropy
    e_x = model.encoder(inputs, puzzle_ids)
    # At variance 0 the KL of a posterior is not finite: the prior's own prediction is what the answer costs.
    e_y = model.guidance.embed_targets(targets) if model.guidance.noisy else None
    state = model.initial_state(len(inputs))
    total_kl = torch.zeros(len(inputs), device=inputs.device)
    surrogates = []
    for n in range(model.config.supervision_steps):
        key = derive(torch.arange(len(inputs), device=inputs.device), seed, ELBO, n)
        first = torch.full((len(inputs),), n * model.config.transitions, device=inputs.device)
        noise = partial(_keyed, key, state.h.shape[1:]) if model.guidance.noisy else _no_noise
        output = model.step(state, e_x, noise, e_y=e_y, first_transition=first)
        state = output.state
        pairs = zip(output.posteriors, output.priors, strict=False)
        kls = [kl_divergence(q, p).sum(dim=-1) / count for q, p in pairs] if e_y is not None else [0 * total_kl]
        total_kl += torch.stack(kls).sum(dim=0)
        reconstruction = reconstruction_loss(model.decoder.logits(state.h), targets, kind)
        surrogates.append(reconstruction + kls[-1])
    return reconstruction + total_kl, torch.stack(surrogates).mean(dim=0)
