"""The settings of the recursive reasoner: GRAM, TRM, HRM, looped and universal Transformers, and every ablation."""

from typing import Literal, Self

from pydantic import Field, model_validator

from gram.config.section import Section

Guidance = Literal["none", "gaussian", "stochasticity_only", "guide_only", "direct", "fixed"]


class ImageSection(Section):
    """Settings of image inputs."""

    image: tuple[int, int] | None = None
    """Height and width of an image whose patches are the positions; None for plain tokens."""
    patch: int = Field(2, ge=1)
    """Side of these patches in pixels: 2 as published; 4 makes a quarter of the positions."""

    def content_positions(self, length: int) -> int:
        """Return the number of positions of `length` content tokens."""
        return length if self.image is None else length // self.patch**2

    @model_validator(mode="after")
    def _patches_fit(self) -> Self:
        if self.image is not None and any(side < self.patch or side % self.patch for side in self.image):
            height, width = self.image
            raise ValueError(
                f"an image of {height} x {width} cannot be divided into {self.patch} x {self.patch} patches"
            )
        return self


class ModelConfig(ImageSection):
    """One recursive reasoner. Symbols of the paper are given in brackets."""

    kind: Literal["reasoner"] = "reasoner"
    dim: int = Field(64, ge=1)
    """Width of every token's state [D]."""
    state: Literal["hierarchical", "flat"] = "hierarchical"
    """(h, l) as in HRM, TRM and GRAM, or a single state as in looped and universal Transformers."""
    shared: bool = True
    """One network for f_L and f_H (TRM), or two (HRM). A flat state has only one."""
    layers: int = Field(2, ge=1)
    """Blocks per network."""
    mixing: Literal["tokens", "attention", "constraints"] = "tokens"
    """Token mixing: a SwiGLU over the token axis, attention, or means over the sets that share a rule."""
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
    """Initial value of log sigma; the constant value with guidance `fixed`."""
    log_sigma_range: tuple[float, float] = (-6.0, 2.0)
    """Clamp of log sigma."""
    readout: Literal["first", "pooled"] = "pooled"
    """Halt and value heads read the first token's state linearly (as published), or all tokens through a small MLP."""
    halting: Literal["sigmoid", "q_learning"] = "sigmoid"
    """Halt when sigmoid(q_halt) > 1/2 (TRM), or when q_halt > q_continue (HRM)."""

    def position_count(self, length: int) -> int:
        """Return the number of positions of the state for `length` content tokens."""
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
            raise ValueError("log_sigma_range must be ascending")
        if self.puzzles and not self.puzzle_tokens:
            raise ValueError("puzzles without puzzle_tokens: set both or neither")
        if self.puzzle_width > self.puzzle_tokens * self.dim:
            raise ValueError(f"puzzle_width {self.puzzle_width} is more than puzzle_tokens x dim")
        return self

    def _check_constraints(self) -> None:
        """Check that no weight depends on a position, which makes the network equivariant."""
        if self.positions != "none" or self.puzzle_tokens or self.image is not None:
            raise ValueError("mixing 'constraints' needs positions 'none', no puzzle_tokens and no image")
        if self.readout != "pooled" or self.mixing_norm != "channels":
            raise ValueError("mixing 'constraints' needs readout 'pooled' and mixing_norm 'channels'")


class ObjectiveConfig(Section):
    """The loss: its terms and their weights."""

    cross_entropy: Literal["softmax", "stablemax"] = "softmax"
    """Reconstruction loss."""
    beta: float = Field(1.0, ge=0)
    """Weight of the KL, in the units of `kl_reduction`."""
    beta_final: float | None = Field(None, ge=0)
    """If given, beta moves along a half cosine from `beta` to this over the run."""
    kl_scope: Literal["all", "last"] = "all"
    """Charge the KL of all transitions, or of the last one only (the paper's surrogate).

    With `last` and a beta below about 3 per labelled token the posterior writes the answer into the transitions that
    are not charged, and the prior learns nothing; at the paper's beta, about 4.5 in these units, it does not."""
    kl_reduction: Literal["mean", "sum"] = "mean"
    """Divide the KL by the labelled tokens, as the cross-entropy is (beta = 1 is then the ELBO), or sum it over tokens
    with a cross-entropy per token, most likely the units of the paper's beta."""
    kl_balance: float = Field(0.8, ge=0, le=1)
    """Fraction of the KL's gradient that updates the prior; the rest updates the posterior."""
    prior_share: float = Field(0.125, ge=0, lt=1)
    """Fraction of slots that roll out from the prior and train the halt and value heads."""
    learn_from_rollouts: bool = False
    """Let these slots (without guidance: all) train the whole model, each towards the nearest solution."""
    rollout_temperature: float = Field(1.0, ge=0)
    """Noise temperature of these rollouts: the one at which the model will be sampled."""
    rollout_temperature_final: float | None = Field(None, ge=0)
    """Their temperature moves linearly to this one in the course of an example; None keeps it."""
    rollout_horizon: int | None = Field(None, ge=1)
    """Full steps that they are worth: examples with a longer lifetime make smaller steps, as `eval.horizon` does."""
    reserve: int = Field(0, ge=0)
    """Additional targets to choose from for rollouts of images; more of them make the nearest one nearer."""
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
