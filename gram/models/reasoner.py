"""The one recursive reasoner; GRAM, TRM, HRM, looped and universal Transformers and all ablations configure it.

    l <- f_L(l + h + e_x)   K times          (low level, h fixed)
    u <- f_H(h + l)                           (high level)
    h <- u + epsilon,  epsilon ~ N(mu(u), sigma(u)^2 I)

is one latent transition; T transitions make one supervision step.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor, nn

from gram.config import ModelConfig
from gram.models.coders import Decoder, Encoder, Readout
from gram.models.constraints import ConstraintBlock, Sets
from gram.models.guidance import FixedNoise, Gaussian, Guidance
from gram.models.layers import Block, Network, Rope
from gram.models.symbols import Symbols
from gram.tasks.base import Structure

CACHED_NUMBERS = 2**19
"""Numbers of an intermediate result that a core's cache holds, roughly; the speed hardly depends on it."""

Early = Callable[[Gaussian, Gaussian], None]
"""Takes prior and posterior of a transition before the tracked span, and computes their gradients at once."""
Noise = Callable[[int], Tensor]
"""Gives the standard-normal noise [batch, tokens, dim] of transition t within a supervision step."""


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


@dataclass
class StepOutput:
    """What one supervision step leaves behind."""

    state: State
    priors: list[Gaussian] = field(default_factory=list)
    """p(epsilon_t | u_t) of every transition (guided models only)"""
    posteriors: list[Gaussian] = field(default_factory=list)
    """q(epsilon_t | u_t, y) of every transition (only when targets were given)"""
    owed: Tensor | None = None
    """0, with the gradient for e_y of what `early` was given: to be added to the loss"""


class Reasoner(nn.Module):
    """A recursive reasoning model over `length` tokens of a vocabulary."""

    kind = "recursive"
    """what its weights are of; ablations of the mechanism share it, and some of them their shapes"""
    h_init: Tensor
    l_init: Tensor

    def __init__(
        self, config: ModelConfig, *, vocab_size: int, length: int, structure: Structure | None = None
    ) -> None:
        super().__init__()
        self.config = config
        self.vocab_size = vocab_size
        self.length = length
        # What the network does not use is not kept with it.
        self.structure = structure if structure is not None and config.mixing == "constraints" else Structure()
        symbols = Symbols(self.structure.symbols, vocab_size) if config.symbols else None
        self.tokens = config.position_count(length) * (1 if symbols is None else symbols.count)
        self.sets = (
            Sets.of(self.structure.constraints, 0 if symbols is None else symbols.count)
            if config.mixing == "constraints"
            else None
        )
        self.encoder = Encoder(config, vocab_size, length, symbols)
        self.decoder = Decoder(config, vocab_size, symbols)
        self.low = self._network()
        # A shared network is registered once, under `low`.
        self.high = None if config.shared or config.state == "flat" else self._network()
        self.rope = Rope(config.dim // config.heads, self.tokens) if config.positions == "rope" else None
        self.guidance = Guidance(config, vocab_size, symbols) if config.guidance not in ("none", "fixed") else None
        self.fixed_noise = FixedNoise(config) if config.guidance == "fixed" else None
        # z_0 is drawn once and kept in the checkpoint: never trained, never redrawn.
        self.register_buffer("h_init", torch.randn(config.dim))
        self.register_buffer("l_init", torch.randn(config.dim))

    def _network(self) -> Network:
        c = self.config
        if self.sets is not None:
            return Network([ConstraintBlock(c.dim, c.channel_hidden, self.sets) for _ in range(c.layers)])
        return Network(
            [
                Block(
                    dim=c.dim,
                    length=self.tokens,
                    channel_hidden=c.channel_hidden,
                    mixing=c.mixing,
                    token_hidden=c.token_hidden,
                    mixing_norm=c.mixing_norm,
                    heads=c.heads,
                )
                for _ in range(c.layers)
            ]
        )

    @property
    def parameter_count(self) -> int:
        """How many numbers are trained."""
        return sum(p.numel() for p in self.parameters())

    @property
    def is_random(self) -> bool:
        """Whether its transitions have noise."""
        return self.config.guidance not in ("none", "guide_only")

    @property
    def has_noise(self) -> bool:
        """Whether a transition asks for noise, even if it multiplies it by 0."""
        return self.guidance is not None or self.fixed_noise is not None

    @property
    def sample_settings(self) -> frozenset[str]:
        """The sampling options that decide what it draws."""
        always = {"width", "depth", "seed", "halt", "decode", "initial", "perturb", "keep_steps"}
        if self.config.halting == "sigmoid":  # q_halt > q_continue has no threshold
            always |= {"halt_at"}
        return frozenset(always | {"temperature"} if self.is_random else always)

    def initial_state(self, batch: int) -> State:
        """z_0 for `batch` rows."""
        shape = (batch, self.tokens, self.config.dim)
        low = None if self.config.state == "flat" else self.l_init.expand(shape)
        return State(self.h_init.expand(shape), low)

    def propose(self, state: State, e_x: Tensor) -> tuple[Tensor, Tensor | None]:
        """The deterministic part of a transition: K low-level updates, then the high-level proposal; (u, new l)."""
        rows = self.rows_in_cache
        if torch.is_grad_enabled() or not e_x.is_cpu or len(e_x) <= rows:
            return self._propose(state, e_x)
        # Without a gradient nothing must be kept: a few rows at a time go through all calls and stay in the cache.
        parts = [
            self._propose(state.rows(slice(start, start + rows)), e_x[start : start + rows])
            for start in range(0, len(e_x), rows)
        ]
        lows = [low for _, low in parts if low is not None]
        return torch.cat([u for u, _ in parts]), torch.cat(lows) if lows else None

    @cached_property
    def rows_in_cache(self) -> int:
        """How many rows of a batch keep the largest intermediate result within about 2 MB."""
        c = self.config
        mixed = {"tokens": c.token_hidden * c.dim, "attention": 2 * self.tokens * c.dim}.get(c.mixing, 0)
        return max(1, CACHED_NUMBERS // (2 * max(self.tokens * c.channel_hidden, mixed)))

    def _propose(self, state: State, e_x: Tensor) -> tuple[Tensor, Tensor | None]:
        c = self.config
        if state.l is None:
            u = state.h
            for _ in range(c.low_steps):
                u = self.low(u + e_x, self.rope)
            return u, None
        low, injected = state.l, state.h + e_x
        for k in range(c.low_steps):
            # HRM's one-step gradient: only the last f_L call is tracked.
            tracked = torch.is_grad_enabled() and (c.gradient != "call" or k == c.low_steps - 1)
            with torch.set_grad_enabled(tracked):
                low = self.low(low + injected, self.rope)
        high = self.low if self.high is None else self.high
        return high(state.h + low, self.rope), low

    def step(
        self,
        state: State,
        e_x: Tensor,
        noise: Noise,
        *,
        e_y: Tensor | None = None,
        temperature: float = 1.0,
        first_transition: Tensor | None = None,
        transitions: int | None = None,
        early: Early | None = None,
    ) -> StepOutput:
        """One supervision step: T transitions from `state`, guided by the posterior if e_y is given, else by the prior.

        The gradient reaches the core through the span that the configuration names (by default the last transition).
        In earlier transitions the guidance heads alone are tracked, on detached proposals, so that the KL of every
        transition can be charged. `first_transition` [batch] counts the transitions each row has already made.
        With `early`, which takes them one by one, nothing is kept of these, and the memory does not grow with T.
        """
        transitions = transitions or self.config.transitions
        output = StepOutput(state)
        cut_e_y = None if e_y is None or early is None else e_y.detach().requires_grad_()
        for t in range(transitions):
            last = t == transitions - 1
            tracked = torch.is_grad_enabled() and (last or self.config.gradient == "step")
            with torch.set_grad_enabled(tracked):
                u, low = self.propose(output.state, self._with_step_code(e_x, first_transition, t))
            h = u
            if self.guidance is not None:
                at_once = early is not None and not tracked
                prior = self.guidance.prior(u)
                output.priors += [] if at_once else [prior]
                chosen = prior
                if e_y is not None:
                    chosen = self.guidance.posterior(u + (e_y if cut_e_y is None or tracked else cut_e_y))
                    output.posteriors += [] if at_once else [chosen]
                if early is not None and at_once:
                    early(prior, chosen)
                h = self.guidance.draw(u, chosen, noise(t), temperature)
            elif self.fixed_noise is not None:
                h = self.fixed_noise.draw(u, noise(t), temperature)
            state = State(h, low)
            output.state = state if tracked else state.detach()
        if e_y is not None and cut_e_y is not None and cut_e_y.grad is not None:
            carried = (e_y * cut_e_y.grad).sum()
            output.owed = carried - carried.detach()
        return output

    def wants_to_halt(self, readout: Readout, probability: float = 0.5) -> Tensor:
        """[batch] the halt head's decision, in the form the model was trained for: by `probability`, or by Q-values."""
        least = math.log(probability / (1 - probability))
        return readout.q_halt > (least if self.config.halting == "sigmoid" else readout.q_continue)

    def _with_step_code(self, e_x: Tensor, first_transition: Tensor | None, t: int) -> Tensor:
        if not self.config.step_embedding:
            return e_x
        if first_transition is None:
            raise ValueError("a model with step embeddings needs first_transition")
        return e_x + sinusoid(first_transition + t, self.config.dim)[:, None, :]


def sinusoid(index: Tensor, dim: int) -> Tensor:
    """index [batch] -> the Transformer's sinusoidal code [batch, dim]; defined at any depth."""
    half = (dim + 1) // 2
    frequencies = torch.exp(torch.arange(half, device=index.device) * (-math.log(10000.0) / half))
    angles = index[:, None].float() * frequencies
    return torch.cat((angles.sin(), angles.cos()), dim=-1)[:, :dim]
