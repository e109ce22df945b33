"""The one recursive reasoner; GRAM, TRM, HRM, looped and universal Transformers and all ablations configure it.

    l <- f_L(l + h + e_x)   K times          (low level, h fixed)
    u <- f_H(h + l)                           (high level)
    h <- u + epsilon,  epsilon ~ N(mu(u), sigma(u)^2 I)

is one latent transition; T transitions make one supervision step.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor, nn

from gram.config import ModelConfig, ObjectiveConfig, SampleOptions, Section
from gram.errors import GramError
from gram.machine import convolutions_are_faster
from gram.models.base import Carry, Job, Metrics, Model, Rows, State, StepContext, StepResult, Steps
from gram.models.coders import Decoder, Encoder, Readout
from gram.models.constraints import ConstraintBlock, Sets
from gram.models.guidance import Gaussian, build_guidance
from gram.models.layers import Block, Network, Rope
from gram.models.losses import labelled_count
from gram.models.multiply import FEWEST_IMAGES
from gram.models.objective import supervision_step, trajectory_elbo
from gram.models.rollout import Batch, even_groups
from gram.models.symbols import Symbols
from gram.tasks.base import Structure, Tokens

CACHED_NUMBERS = 2**19
"""Numbers of an intermediate result that a core's cache holds, roughly; the speed hardly depends on it."""

Noise = Callable[[int], Tensor | None]
"""Gives the standard-normal noise [batch, tokens, dim] of transition t within a supervision step; None for none."""


@dataclass
class StepOutput:
    """What one supervision step leaves behind."""

    state: State
    priors: list[Gaussian] = field(default_factory=list)
    """p(epsilon_t | u_t) of every transition (models with guidance heads)"""
    posteriors: list[Gaussian] = field(default_factory=list)
    """q(epsilon_t | u_t, y) of every transition (only when targets were given)"""


class Reasoner(Model):
    """A recursive reasoning model over `length` tokens of a vocabulary."""

    settings = ModelConfig
    recursive = True
    config: ModelConfig
    h_init: Tensor
    l_init: Tensor

    def __init__(
        self,
        config: ModelConfig,
        *,
        vocab_size: int,
        length: int,
        objective: ObjectiveConfig | None = None,
        structure: Structure | None = None,
    ) -> None:
        super().__init__(config, vocab_size=vocab_size, length=length)
        self.objective = objective or ObjectiveConfig()
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
        self.guidance = build_guidance(config, vocab_size, symbols)
        # z_0 is drawn once and kept in the checkpoint: never trained, never redrawn.
        for name in ("h_init", "l_init"):
            state = torch.empty(config.dim)
            self.register_buffer(name, state if state.is_meta else state.normal_())
        # A model that is supervised only at the end makes all its transitions in one update.
        deep = config.supervision == "deep"
        self.steps_per_example = config.supervision_steps if deep else 1
        self.transitions_per_update = config.transitions * (1 if deep else config.supervision_steps)

    @classmethod
    def build(
        cls, config: Section, objective: Section, *, vocab_size: int, length: int, structure: Structure
    ) -> "Reasoner":
        """Make a fresh reasoner by the sections of a recipe."""
        assert isinstance(config, ModelConfig)
        assert isinstance(objective, ObjectiveConfig)
        return cls(config, vocab_size=vocab_size, length=length, objective=objective, structure=structure)

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
    def puzzle_embeddings(self) -> nn.Parameter | None:
        """The table of puzzle embeddings."""
        return self.encoder.puzzles

    def share_puzzle_embeddings(self, other: Model) -> None:
        """Use the puzzle embeddings of another reasoner."""
        self.encoder.puzzles = other.puzzle_embeddings

    @property
    def state_shape(self) -> tuple[int, int]:
        """Tokens and width of h."""
        return self.tokens, self.config.dim

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
        """How many rows of a batch keep the largest intermediate result within about 2 MB, or nearly so."""
        c = self.config
        mixed = {"tokens": c.token_hidden * c.dim, "attention": 2 * self.tokens * c.dim}.get(c.mixing, 0)
        rows = max(1, CACHED_NUMBERS // (2 * max(self.tokens * c.channel_hidden, mixed)))
        # Fewer would miss the faster multiply over tokens.
        return max(rows, FEWEST_IMAGES) if c.mixing == "tokens" and convolutions_are_faster() else rows

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
    ) -> StepOutput:
        """Make one supervision step: T transitions, guided by the posterior if e_y is given, else by the prior.

        The gradient reaches the core through the span that the configuration names (by default the last transition).
        In earlier transitions the guidance heads alone are tracked, on detached proposals, so that the KL of every
        transition can be charged. `first_transition` [batch] counts the transitions that each row has already made.
        """
        transitions = transitions or self.config.transitions
        output = StepOutput(state)
        for t in range(transitions):
            tracked = torch.is_grad_enabled() and (t == transitions - 1 or self.config.gradient == "step")
            injected = self._with_step_code(e_x, first_transition, t)
            state, prior, posterior = self.transition(output.state, injected, noise(t), e_y, temperature, tracked)
            output.state = state if tracked else state.detach()
            output.priors += [] if prior is None else [prior]
            output.posteriors += [] if posterior is None else [posterior]
        return output

    def transition(
        self,
        state: State,
        e_x: Tensor,
        noise: Tensor | None,
        e_y: Tensor | None = None,
        temperature: float = 1.0,
        tracked: bool = True,
    ) -> tuple[State, Gaussian | None, Gaussian | None]:
        """Make one latent transition; return z, p(epsilon | u) and q(epsilon | u, y).

        Unless it is `tracked`, no gradient reaches u.
        """
        with torch.set_grad_enabled(tracked):
            u, low = self.propose(state, e_x)
        h, prior, posterior = self.guidance(u, e_y, noise, temperature)
        return State(h, low), prior, posterior

    # --- training -----------------------------------------------------------------------------------------------------

    def init_carry(self, slots: int) -> Carry:
        """Return empty slots at z_0."""
        state = self.initial_state(slots)
        return replace(super().init_carry(slots), state=state, memory=state.h)

    def training_step(self, rows: Rows, carry: Carry, context: StepContext) -> StepResult:
        """Make one supervision step in every slot: the loss L_GRAM, and the carry of the next one."""
        return supervision_step(self, carry.take(rows, self.initial_state(len(carry.steps))), context)

    def forward(self, inputs: Tensor, targets: Tensor, carry: Carry) -> tuple[Tensor, Carry, Metrics]:
        """Make one supervision step of a training loop of your own; return the loss, the new carry and metrics.

        inputs and targets [slots, length] enter the slots whose example is finished; the others go on with theirs.
        """
        deal = torch.randint(2**62, (len(inputs),)).to(inputs.device)
        zeros = torch.zeros_like(deal)
        rows = Rows(inputs, targets, deal, zeros + self.steps_per_example, zeros, zeros)
        result = self.training_step(rows, carry, StepContext())
        return result.loss, result.carry, result.metrics

    def rollout_rows(self, slots: int) -> int:
        """Return how many slots (the first ones) roll out from the prior: without guidance heads all of them.

        With them it is at least one, and never all, unless `prior_share` is 0.
        """
        if not self.guidance.learned:
            return slots
        share = self.objective.prior_share
        return min(max(1, round(share * slots)), slots - 1) if share and slots > 1 else 0

    def validation_metrics(
        self, inputs: Tensor, targets: Tensor, *, puzzle_ids: Tensor | None = None, seed: int = 0
    ) -> dict[str, float]:
        """Measure the full ELBO, and the surrogate beside it, of a model that has them."""
        if not (self.guidance.learned and self.guidance.noisy):  # at variance 0 the KL is not finite
            return {}
        elbo, surrogate = trajectory_elbo(self, inputs, targets, puzzle_ids=puzzle_ids, seed=seed)
        return {"negative_elbo": float(elbo.mean()), "surrogate": float(surrogate.mean())}

    # --- sampling and likelihood --------------------------------------------------------------------------------------

    @property
    def supported(self) -> frozenset[str]:
        """The names of the sampling options that it supports."""
        unsupported = {"top_p", "steps"}
        if not self.guidance.noisy:
            unsupported.add("temperature")
        if self.config.halting != "sigmoid":  # q_halt > q_continue has no threshold
            unsupported.add("halt_at")
        return frozenset(SampleOptions.__dataclass_fields__) - unsupported

    def check(self, options: SampleOptions) -> None:
        """Refuse the steps of a diffusion sampler."""
        if options.steps is not None:
            raise GramError("Only diffusion models sample in a number of steps; choose the depth of a recursive model.")

    def is_deterministic(self, options: SampleOptions) -> bool:
        """Whether every trajectory of an input is the same, so that one is enough."""
        silent = not self.guidance.noisy or options.temperature == 0
        return silent and options.decode == "argmax" and options.initial == "fixed" and not options.perturb

    def groups(self, rows: int) -> list[range]:
        """Cut `rows` trajectories into parts of equal length, each worth a thread of a CPU; a GPU takes all at once."""
        return even_groups(self, rows) if self.device.type == "cpu" else super().groups(rows)

    def roll_out(
        self,
        inputs: Tokens,
        jobs: Iterable[Job],
        options: SampleOptions,
        *,
        puzzle_ids: Tokens | None = None,
        chunk: int | None = None,
    ) -> Iterator[Steps]:
        """Sample the trajectories that `jobs` name; yield what every supervision step produced."""
        return Batch(self, inputs, options, puzzle_ids).run(jobs, chunk)

    @property
    def likelihood_meaning(self) -> tuple[bool, str]:
        """Whether the likelihood is exact, and in words what it is."""
        if not self.guidance.noisy:
            return True, "independent tokens"
        if not self.guidance.learned:  # log E[p] >= E[log p]
            return False, "Jensen's bound, one draw of the noise"
        return False, f"ELBO of all {self.config.transitions * self.config.supervision_steps} transitions"

    def log_likelihood(
        self, inputs: Tensor, targets: Tensor, *, puzzle_ids: Tensor | None = None, seed: int = 0
    ) -> Tensor:
        """Return the ELBO of one posterior trajectory of N_sup steps in nats; exact for a model without noise."""
        loss, _ = trajectory_elbo(self, inputs, targets, puzzle_ids=puzzle_ids, seed=seed)
        return -loss * labelled_count(targets)

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
