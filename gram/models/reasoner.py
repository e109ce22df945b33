"""The recursive reasoner, of which GRAM, TRM, HRM, looped and universal Transformers are configurations.

    l <- f_L(l + h + e_x)   K times          (low level, h fixed)
    u <- f_H(h + l)                           (high level)
    h <- u + epsilon,  epsilon ~ N(mu(u), sigma(u)^2 I)

is one latent transition; T transitions make one supervision step.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from gram.config import ModelConfig, ObjectiveConfig, SampleOptions
from gram.errors import GramError
from gram.machine import convolutions_are_faster
from gram.models.base import Job, Metrics, Model, StepContext, StepResult, Steps
from gram.models.carry import Carry, Rows, State
from gram.models.coders import Decoder, Encoder, Readout
from gram.models.constraints import ConstraintBlock, Sets
from gram.models.core import Core, Network, cores
from gram.models.guidance import Gaussian, build_guidance
from gram.models.layers import Block, Rope
from gram.models.losses import labelled_count
from gram.models.multiply import FEWEST_IMAGES
from gram.models.noise import Noise
from gram.models.objective import SupervisionStep, trajectory_elbo
from gram.models.rollout import Batch, even_groups
from gram.models.symbols import Symbols
from gram.models.task_fit import check_reasoner
from gram.tasks.base import Examples, Structure, Task, Tokens


@dataclass
class StepOutput:
    """The result of one supervision step."""

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
        if config.mixing == "constraints":  # what the network does not use is not kept with it
            self.structure = structure or Structure()
            if not self.structure.constraints:
                raise GramError("The task declares no constraints: set model.mixing to tokens or attention.")
            if config.symbols and not self.structure.symbols:
                raise GramError("The task has no interchangeable symbols: set model.symbols to false.")
        symbols = Symbols(self.structure.symbols, vocab_size) if config.symbols else None
        count = 0 if symbols is None else symbols.count
        self.tokens = config.position_count(length) * max(1, count)
        self.sets = Sets.of(self.structure.constraints, count) if config.mixing == "constraints" else None
        self.encoder = Encoder(config, vocab_size, length, symbols)
        self.decoder = Decoder(config, vocab_size, symbols)
        self.low = self._network()
        self.high = None if config.shared or config.state == "flat" else self._network()  # a shared one is `low`
        self.rope = Rope(config.dim // config.heads, self.tokens) if config.positions == "rope" else None
        self.guidance = build_guidance(config, vocab_size, symbols)
        # z_0 is drawn once and kept in the checkpoint: never trained, never redrawn.
        for name in ("h_init", "l_init"):
            state = torch.empty(config.dim)
            self.register_buffer(name, state if state.is_meta else state.normal_())
        # A model that is supervised only at the end makes all its transitions in one update.
        self.steps_per_example = config.supervision_steps if config.supervision == "deep" else 1
        self.trained_depth = config.supervision_steps
        self.transitions_per_update = config.transitions * config.supervision_steps // self.steps_per_example

    @classmethod
    def build(cls, config: Any, objective: Any, *, vocab_size: int, length: int, structure: Structure) -> Self:
        """Build a reasoner from the sections of a recipe."""
        return cls(config, vocab_size=vocab_size, length=length, objective=objective, structure=structure)

    @classmethod
    def for_task(cls, config: ModelConfig, task: Task) -> ModelConfig:
        """Set the number of puzzles to that of the task; without puzzles, the puzzle tokens are zeros."""
        ours = not config.puzzle_tokens or config.puzzles
        return config if ours else config.model_copy(update={"puzzles": task.puzzles})

    @classmethod
    def check_task(cls, config: ModelConfig, objective: ObjectiveConfig, task: Task, examples: Examples) -> None:
        check_reasoner(config, objective, task, examples)

    def _network(self) -> Network:
        c, sets = self.config, self.sets
        mixed = {"tokens": c.token_hidden, "attention": 2 * self.tokens}.get(c.mixing, 0) * c.dim
        return Network(
            [
                Block(c, self.tokens) if sets is None else ConstraintBlock(c.dim, c.channel_hidden, sets)
                for _ in range(c.layers)
            ],
            largest_row=2 * max(self.tokens * c.channel_hidden, mixed),
            # With fewer rows the faster multiply over tokens would be missed.
            fewest_rows=FEWEST_IMAGES if c.mixing == "tokens" and convolutions_are_faster() else 1,
        )

    @property
    def puzzle_embeddings(self) -> nn.Parameter | None:
        return self.encoder.puzzles

    def share_puzzle_embeddings(self, other: Model) -> None:
        self.encoder.puzzles = other.puzzle_embeddings

    @property
    def state_shape(self) -> tuple[int, int]:
        return self.tokens, self.config.dim

    def initial_state(self, batch: int) -> State:
        """Return z_0 for `batch` rows."""
        shape = (batch, self.tokens, self.config.dim)
        low = None if self.config.state == "flat" else self.l_init.expand(shape)
        return State(self.h_init.expand(shape), low)

    def step(
        self,
        state: State,
        e_x: Tensor,
        noise: Noise,
        *,
        e_y: Tensor | None = None,
        first_transition: Tensor | None = None,
        transitions: int | None = None,
    ) -> StepOutput:
        """Make one supervision step: T transitions, guided by the posterior if e_y is given, else by the prior.

        The gradient reaches the core through the span that the configuration names (by default the last transition).
        In earlier transitions the guidance heads alone are tracked, on detached proposals, so that the KL of every
        transition can be charged. `first_transition` [batch] counts the transitions that each row has already made.
        """
        c, output = self.config, StepOutput(state)
        networks, count = (self.low, self.high or self.low, self.rope), transitions or c.transitions
        for t, core in enumerate(cores(*networks, low_steps=c.low_steps, transitions=count, gradient=c.gradient)):
            injected = self.encoder.at_transition(e_x, first_transition, t)
            state, prior, posterior = self.transition(output.state, injected, noise(t), core, e_y)
            output.state = state if core.tracked else state.detach()
            output.priors += [] if prior is None else [prior]
            output.posteriors += [] if posterior is None else [posterior]
        return output

    def transition(
        self, state: State, e_x: Tensor, noise: Tensor | None, core: Core, e_y: Tensor | None = None
    ) -> tuple[State, Gaussian | None, Gaussian | None]:
        """Make one latent transition; return z, p(epsilon | u) and q(epsilon | u, y)."""
        h, low = state
        if low is None:  # a flat state
            u = h
            for f in core.low:
                u = f(u + e_x)
        else:
            injected = h + e_x
            for f_low in core.low:
                low = f_low(low + injected)  # l <- f_L(l + h + e_x)
            u = core.high(h + low)  # u <- f_H(h + l)
        h, prior, posterior = self.guidance(u, e_y, noise)  # h <- u + epsilon
        return State(h, low), prior, posterior

    # --- training -----------------------------------------------------------------------------------------------------

    def init_carry(self, slots: int) -> Carry:
        """Return empty slots at z_0."""
        state = self.initial_state(slots)
        return replace(super().init_carry(slots), state=state, memory=state.h)

    def training_step(self, rows: Rows, carry: Carry, context: StepContext) -> StepResult:
        """Make one supervision step in every slot; return the loss L_GRAM and the carry of the next step.

        The first slots may roll out from the prior, as at inference, and train the halt and value heads. The others
        follow the posterior and train the rest of the model.
        """
        carry = carry.take(rows, self.initial_state(len(carry.steps)))
        step, count, c = SupervisionStep(self, carry, context), len(carry.steps), self.objective
        rollouts = slice(0, self.rollout_rows(count) if self.guidance.learned else 0)
        learners = slice(0 if c.learn_from_rollouts else rollouts.stop, count)
        loss, state, outputs, metrics = step.learn(learners)
        judged = rollouts if rollouts.stop else learners
        if rollouts.stop:
            rolled_state, rolled_outputs = step.roll_out(rollouts)
            rest = slice(rollouts.stop - learners.start, None)
            state = State.cat([rolled_state, state.rows(rest)])
            outputs = torch.cat([rolled_outputs, outputs[rest]])
        right = step.right(outputs)
        halt, halts = step.halt_loss(judged, state, right)
        finished = step.finished(right, halts if judged == slice(0, count) else None)
        value, memory, value_metrics = step.value_loss(judged, state.h, outputs, right, finished)
        if self.guidance.learned and not rollouts.stop:
            value_metrics.pop("rollout_accuracy")  # every slot followed the posterior
        loss = loss + c.halt_weight * halt + c.value_weight * value
        metrics |= {"halt": halt, **value_metrics, "loss": loss}
        new = replace(carry, steps=carry.steps + 1, finished=finished, state=state.detach(), memory=memory)
        return StepResult(loss, new, outputs, {name: metric.detach() for name, metric in metrics.items()})

    def forward(self, inputs: Tensor, targets: Tensor, carry: Carry) -> tuple[Tensor, Carry, Metrics]:
        """Make one supervision step of a training loop of your own; return the loss, the new carry and metrics.

        inputs and targets [slots, length] enter the slots whose example is finished; the others keep theirs.
        """
        deal = torch.randint(2**62, (len(inputs),)).to(inputs.device)
        zeros = torch.zeros_like(deal)
        rows = Rows(inputs, targets, deal, zeros + self.steps_per_example, zeros, zeros)
        result = self.training_step(rows, carry, StepContext())
        return result.loss, result.carry, result.metrics

    def rollout_rows(self, slots: int) -> int:
        """Return how many slots (the first ones) roll out from the prior.

        Without guidance heads these are all. Otherwise it is at least one and never all, unless `prior_share` is 0.
        """
        if not self.guidance.learned:
            return slots
        fraction = self.objective.prior_share
        return min(max(1, round(fraction * slots)), slots - 1) if fraction and slots > 1 else 0

    def validation_metrics(
        self, inputs: Tensor, targets: Tensor, *, puzzle_ids: Tensor | None = None, seed: int = 0
    ) -> dict[str, float]:
        """Measure the full ELBO and the surrogate of a model with guidance heads."""
        if not (self.guidance.learned and self.guidance.noisy):  # at variance 0 the KL is not finite
            return {}
        elbo, surrogate = trajectory_elbo(self, inputs, targets, puzzle_ids=puzzle_ids, seed=seed)
        return {"negative_elbo": float(elbo.mean()), "surrogate": float(surrogate.mean())}

    # --- sampling and likelihood --------------------------------------------------------------------------------------

    @property
    def supported(self) -> frozenset[str]:
        unsupported = {"top_p", "steps"}
        if not self.guidance.noisy:
            unsupported |= {"temperature", "temperature_final"}
        if self.config.halting != "sigmoid":  # q_halt > q_continue has no threshold
            unsupported |= {"halt_at", "halt_by"}
        return frozenset(SampleOptions.__dataclass_fields__) - unsupported

    def check(self, options: SampleOptions) -> None:
        """Raise `GramError` for the steps of a diffusion sampler."""
        if options.steps is not None:
            raise GramError("Option 'steps' is for diffusion models. Use 'depth' for a recursive model.")

    def is_deterministic(self, options: SampleOptions) -> bool:
        silent = not self.guidance.noisy or not any(options.temperatures)
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
        return Batch(self, inputs, options, puzzle_ids).run(jobs, chunk)

    @property
    def likelihood_meaning(self) -> tuple[bool, str]:
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
        """Return the halting decisions [batch]: by `probability`, or by Q-values if the model was trained with them."""
        least = math.log(probability / (1 - probability))
        return readout.q_halt > (least if self.config.halting == "sigmoid" else readout.q_continue)
