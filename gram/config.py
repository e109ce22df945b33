"""Settings: typed and strict. An unknown key is an error, never a silent default.

How a recipe is read from files and overrides is in `gram.recipe`.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from gram.errors import GramError

Guidance = Literal["none", "gaussian", "stochasticity_only", "guide_only", "direct", "fixed"]

Decay = Annotated[float, Field(ge=0, lt=1)]


class Section(BaseModel):
    """A part of a recipe: frozen, and closed against unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class TaskConfig(Section):
    """Which task, and its options."""

    name: str = "nqueens"
    """Name of the task, as in `gram data NAME`."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments of the task, such as `size: 8`; the task itself refuses unknown ones."""


class ImageSection(Section):
    """How a network sees an image."""

    image: tuple[int, int] | None = None
    """Height and width of an image whose patches are the positions; None for plain tokens."""
    patch: int = Field(2, ge=1)
    """Side of these patches in pixels: 2 as published; 4 makes a quarter of the positions."""

    def content_positions(self, length: int) -> int:
        """How many positions `length` content tokens take."""
        return length if self.image is None else length // self.patch**2

    @model_validator(mode="after")
    def _patches_fit(self) -> Self:
        if self.image is not None and any(side < self.patch or side % self.patch for side in self.image):
            height, width = self.image
            raise ValueError(f"an image of {height} x {width} cannot be cut into {self.patch} x {self.patch} patches")
        return self


class ModelConfig(ImageSection):
    """One recursive reasoner. Symbols of the paper are given in brackets."""

    dim: int = Field(64, ge=1)
    """Width of every token's state [D]."""
    state: Literal["hierarchical", "flat"] = "hierarchical"
    """(h, l) as in HRM, TRM and GRAM, or a single state as in looped and universal Transformers."""
    shared: bool = True
    """One network for f_L and f_H (TRM), or two (HRM). A flat state has only one."""
    layers: int = Field(2, ge=1)
    """Blocks per network."""
    mixing: Literal["tokens", "attention", "constraints"] = "tokens"
    """How tokens meet: a SwiGLU over the token axis, attention, or means over the sets that share a rule."""
    symbols: bool = False
    """With `constraints`: keep every channel per interchangeable symbol of the task, with weights shared by symbols."""
    mixing_norm: Literal["channels", "tokens"] = "channels"
    """Axis of the RMS norm after token mixing; the published TRM normalises over the tokens."""
    heads: int = Field(8, ge=1)
    """Attention heads."""
    channel_hidden: int = Field(128, ge=1)
    """Hidden width of the SwiGLU over channels."""
    token_hidden: int = Field(128, ge=1)
    """Hidden width of the SwiGLU over tokens."""
    positions: Literal["none", "learned", "rope"] = "learned"
    """Learned position embeddings, rotary ones inside attention, or none."""
    puzzle_tokens: int = Field(0, ge=0)
    """Tokens in front of the content that hold the puzzle's own embedding, or zeros where a task has no puzzle ids."""
    puzzle_width: int = Field(0, ge=0)
    """Width of a puzzle's embedding, zeros filling up its tokens (published: dim); 0 is the whole of all its tokens."""
    puzzles: int = Field(0, ge=0)
    """How many puzzles have an embedding; 0 takes the task's number, which may be none."""
    low_steps: int = Field(2, ge=1)
    """Low-level updates per transition [K]; for a flat state, applications of the network per transition."""
    transitions: int = Field(2, ge=1)
    """Latent transitions per supervision step [T]."""
    supervision_steps: int = Field(8, ge=1)
    """Supervision steps per example in training [N_sup]."""
    supervision: Literal["deep", "final"] = "deep"
    """A loss and an update after every supervision step, or only after the last."""
    gradient: Literal["transition", "call", "step"] = "transition"
    """Span of the gradient: the last transition (TRM, GRAM), its last f_L and f_H call (HRM), or the whole update."""
    step_embedding: bool = False
    """Add a sinusoidal code of the step to the input (Universal Transformer)."""
    guidance: Guidance = "gaussian"
    """Stochastic guidance [epsilon] and its ablations; `none` is deterministic, `fixed` adds noise of a constant sigma
    without any head."""
    guidance_hidden: int = Field(64, ge=1)
    """Hidden width of the four guidance heads."""
    log_sigma_init: float = -1.0
    """Where log sigma starts; where it stays with guidance `fixed`."""
    log_sigma_range: tuple[float, float] = (-6.0, 2.0)
    """Clamp of log sigma."""
    readout: Literal["first", "pooled"] = "pooled"
    """Halt and value heads read the first token's state linearly (as published), or all tokens through a small MLP."""
    halting: Literal["sigmoid", "q_learning"] = "sigmoid"
    """Halt when sigmoid(q_halt) > 1/2 (TRM), or when q_halt > q_continue (HRM)."""

    def position_count(self, length: int) -> int:
        """How many positions the state has for `length` content tokens."""
        return self.puzzle_tokens + self.content_positions(length)

    @model_validator(mode="after")
    def _consistent(self) -> "ModelConfig":
        if self.mixing == "attention" and self.dim % (2 * self.heads):
            raise ValueError(f"dim {self.dim} must be a multiple of 2 x heads ({self.heads}) for attention")
        if self.positions == "rope" and self.mixing != "attention":
            raise ValueError("positions 'rope' needs mixing 'attention'")
        if self.mixing == "constraints":
            self._check_constraints()
        elif self.symbols:
            raise ValueError("symbols needs mixing 'constraints'")
        if self.state == "flat" and (self.gradient == "call" or not self.shared):
            raise ValueError(
                "a flat state has one network and no low level: gradient 'call' and shared=false need (h, l)"
            )
        if self.log_sigma_range[0] >= self.log_sigma_range[1]:
            raise ValueError("log_sigma_range must rise")
        if self.puzzles and not self.puzzle_tokens:
            raise ValueError("puzzles without puzzle_tokens: set both or neither")
        if self.puzzle_width > self.puzzle_tokens * self.dim:
            raise ValueError(f"puzzle_width {self.puzzle_width} is more than puzzle_tokens x dim")
        return self

    def _check_constraints(self) -> None:
        """No weight may depend on a position: that is what makes the network equivariant."""
        if self.positions != "none" or self.puzzle_tokens or self.image is not None:
            raise ValueError("mixing 'constraints' needs positions 'none', no puzzle_tokens and no image")
        if self.readout != "pooled" or self.mixing_norm != "channels":
            raise ValueError("mixing 'constraints' needs readout 'pooled' and mixing_norm 'channels'")


class ObjectiveConfig(Section):
    """Every weight of the loss."""

    cross_entropy: Literal["softmax", "stablemax"] = "softmax"
    """Reconstruction loss."""
    beta: float = Field(1.0, ge=0)
    """Weight of the KL, in the units of `kl_reduction`."""
    beta_final: float | None = Field(None, ge=0)
    """If given, beta moves along a half cosine from `beta` to this over the run."""
    kl_scope: Literal["all", "last"] = "all"
    """Charge the KL of all transitions, or of the last one only (the paper's surrogate).

    With `last` and a beta below about 3 per labelled token the posterior writes the answer into the transitions that
    nothing charges, and the prior learns nothing; at the paper's beta, about 4.5 in these units, it does not."""
    kl_reduction: Literal["mean", "sum"] = "mean"
    """Divide the KL by the labelled tokens, as the cross-entropy is (beta = 1 is then the ELBO), or sum it over tokens
    beside a cross-entropy per token, which is most likely what the paper's beta belongs to."""
    kl_balance: float = Field(0.8, ge=0, le=1)
    """Share of the KL's gradient that moves the prior; the rest moves the posterior."""
    prior_share: float = Field(0.125, ge=0, lt=1)
    """Share of slots that roll out from the prior and train the halt and value heads."""
    learn_from_rollouts: bool = False
    """Let these slots (without guidance: all) train the rest too: each learns to reach the solution nearest to it."""
    rollout_temperature: float = Field(1.0, ge=0)
    """Noise temperature of these rollouts: the one at which the model will be sampled."""
    reserve: int = Field(0, ge=0)
    """Images that wait beside the targets of these rollouts: the more there are, the nearer is the nearest."""
    halt_loss: Literal["bce", "squared"] = "bce"
    """Loss of the halt head: binary cross-entropy (as HRM and TRM code it), or the squared error of the predicted
    probability (as the paper writes it)."""
    halt_weight: float = Field(0.5, ge=0)
    """Weight of the halt loss."""
    value_weight: float = Field(0.5, ge=0)
    """Weight of the value (LPRM) loss."""
    value_target: Literal["valid", "token_accuracy"] = "valid"
    """What the value head predicts of the trajectory's final output."""
    heads_reach_core: bool = False
    """Let the halt loss reach the core, as the published HRM and TRM do."""


class TrainConfig(Section):
    """The loop."""

    steps: int = Field(1000, ge=1)
    """Optimiser steps; each is one supervision step for every slot."""
    slots: int = Field(128, ge=1)
    """Examples in one update (the batch)."""
    pool: int = Field(0, ge=0)
    """Examples under way at once, a multiple of `slots`: each update takes a random part of them, each once per round.

    0 keeps only the batch under way, as published; the weights then see an example in consecutive updates."""
    piece: int = Field(0, ge=0)
    """Slots whose gradient is computed at a time, to save memory; 0: 32 on a CPU, where it is faster, all elsewhere."""
    seed: int = Field(0, ge=0, lt=2**32)
    """Seed of initialisation, data order and noise."""
    optimizer: Literal["adamw", "adam_atan2"] = "adamw"
    """Update rule."""
    lr: float = Field(2e-3, gt=0)
    """Peak learning rate."""
    lr_final: float = Field(0.05, ge=0, le=1)
    """Learning rate at the end as a share of the peak (cosine); 1 keeps it constant."""
    warmup: int = Field(200, ge=0)
    """Steps of linear warm-up."""
    weight_decay: float = Field(0.1, ge=0)
    """Decoupled weight decay."""
    betas: tuple[Decay, Decay] = (0.9, 0.95)
    """Moment decay of the optimiser."""
    puzzle_lr: float = Field(1e-2, gt=0)
    """Peak learning rate of the puzzle embeddings, which have an optimiser of their own (sparse sign descent)."""
    puzzle_weight_decay: float = Field(0.1, ge=0)
    """Its weight decay."""
    clip: float = Field(1.0, gt=0)
    """Largest norm of the gradient."""
    ema: Decay = 0.999
    """Decay of the averaged weights, which are the ones that are evaluated and saved."""
    lifetime: tuple[int, int] | None = None
    """Supervision steps that an example stays, drawn log-uniform from this range; None is always N_sup."""
    release: float = Field(0.0, ge=0, le=1)
    """Chance at every step that a slot whose answer is right takes a new example; the others learn to stay there."""
    halt_in_training: bool = False
    """Release a slot when its halt head says so (deterministic models); otherwise every slot runs to the end."""
    explore: float = Field(0.1, ge=0, le=1)
    """With halting: chance that a slot must run a random minimum number of steps."""
    log_every: int = Field(20, ge=1)
    """Steps between lines of metrics."""
    eval_every: int = Field(500, ge=1)
    """Steps between evaluations on a fixed subset of the validation split."""
    save_every: int = Field(200, ge=1)
    """Steps between checkpoints, from which `gram train --resume` goes on."""
    eval_inputs: int = Field(64, ge=1)
    """Inputs in that subset."""
    eval_width: int = Field(8, ge=1)
    """Trajectories per input of that subset."""
    keep: Literal["last", "best"] = "last"
    """Which weights become the model: those of the last evaluation, or of the one with the best validation metric."""
    test_inputs: int = Field(0, ge=0)
    """Inputs of the test split in the evaluation that ends the training, the first ones; 0 for all."""
    wandb: str = ""
    """Project on Weights & Biases to log to as well (needs the package wandb); empty for none."""
    threads: int = Field(0, ge=0, le=1024)
    """CPU threads; 0 leaves torch's choice."""
    device: str = "auto"
    """auto, cpu, cuda or mps."""
    compile: bool = False
    """Compile the networks with torch.compile: for GPUs; on a CPU it costs minutes and gains nothing."""
    precision: Literal["32-true", "bf16-mixed"] = "32-true"
    """Arithmetic, in Lightning Fabric's names."""

    @model_validator(mode="after")
    def _slots_fit(self) -> Self:
        if self.pool % self.slots:
            raise ValueError(f"pool {self.pool} must be a multiple of slots ({self.slots}), or 0")
        if self.lifetime is not None and not 1 <= self.lifetime[0] <= self.lifetime[1]:
            raise ValueError(f"lifetime {list(self.lifetime)} must be a range of at least 1 step, such as [8, 64]")
        return self


class EvalConfig(Section):
    """How trajectories are drawn when the model is evaluated or used."""

    depth: int = Field(16, ge=1)
    """Supervision steps."""
    width: int = Field(20, ge=1)
    """Trajectories per input."""
    temperature: float = Field(1.0, ge=0)
    """Noise temperature: 0 follows the mean, or takes the most probable token."""
    top_p: float = Field(1.0, gt=0, le=1)
    """Autoregressive models: draw among the most probable tokens that together have this probability."""
    halt: bool = False
    """Stop a trajectory when its halt head says so."""
    halt_at: float = Field(0.5, gt=0, lt=1)
    """The probability of being right from which on it says so."""


class GenerativeConfig(Section):
    """One of the generative models that GRAM is compared with."""

    name: Literal["autoregressive", "mdlm", "d3pm", "vae"]
    """Which one."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Its settings (`gram/models/baselines`); the model itself refuses unknown ones."""


class Recipe(Section):
    """Everything that defines a run."""

    task: TaskConfig = TaskConfig()
    model: ModelConfig = ModelConfig()
    generative: GenerativeConfig | None = None
    """A generative model instead of a recursive one; `model` and `objective` then say nothing."""
    objective: ObjectiveConfig = ObjectiveConfig()
    train: TrainConfig = TrainConfig()
    eval: EvalConfig = EvalConfig()

    @model_validator(mode="after")
    def _consistent(self) -> "Recipe":
        carried = [name for name in ("pool", "lifetime", "release") if getattr(self.train, name)]
        if carried and (self.generative is not None or self.model.supervision == "final"):
            raise ValueError(f"train.{carried[0]} is for deep supervision: here every update has fresh examples")
        guided = self.model.guidance not in ("none", "fixed")
        if self.train.halt_in_training and guided and self.objective.prior_share > 0:
            raise ValueError("train.halt_in_training is for models without guidance: guided slots run to the end")
        return self


def parse_recipe(content: Any, source: str) -> Recipe:
    """Validate a recipe's content; the error names every key that is wrong."""
    if (key := _too_large(content)) is not None:
        raise GramError(f"{source}: {key} is larger than any number that can be computed with.")
    try:
        return Recipe.model_validate(content)
    except ValidationError as error:
        raise GramError(f"{source}: {describe(error)}.") from error


def _too_large(content: Any, key: str = "") -> str | None:
    """Return the first key whose whole number does not fit 64 bits, as all of torch and numpy need it."""
    if isinstance(content, dict):
        found = (_too_large(value, f"{key}.{name}".lstrip(".")) for name, value in content.items())
    elif isinstance(content, list):
        found = (_too_large(value, key) for value in content)
    else:
        return key if isinstance(content, int) and not -(2**63) <= content < 2**63 else None
    return next((name for name in found if name is not None), None)


def describe(error: ValidationError) -> str:
    """Put pydantic's complaints into one sentence."""
    problems = []
    for item in error.errors():
        key = ".".join(str(part) for part in item["loc"])
        if item["type"] == "extra_forbidden":
            problems.append(f"unknown key '{key}'")
        else:
            problems.append(f"{key or 'recipe'}: {item['msg']}")
    return "; ".join(problems)
