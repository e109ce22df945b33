"""A recipe: everything that defines a run. How one is read from files and overrides is in `gram.config.files`."""

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SerializeAsAny, ValidationError, WrapValidator, model_validator

from gram.config.baselines import ArConfig, D3pmConfig, MdlmConfig, VaeConfig
from gram.config.model import ModelConfig, ObjectiveConfig
from gram.config.sampling import SampleOptions
from gram.config.section import Section, describe
from gram.errors import GramError

Decay = Annotated[float, Field(ge=0, lt=1)]

REMOVED = {"exchange": 1.0}
"""Settings of the objective that no longer exist, with the values at which they changed nothing."""

MODEL_KINDS: dict[str, type[Section]] = {
    str(settings.model_fields["kind"].default): settings
    for settings in (ModelConfig, ArConfig, MdlmConfig, D3pmConfig, VaeConfig)
}
"""The settings of every kind of model; packages add theirs by an entry point in the group `gram.models`."""


def packaged_model(kind: str) -> Any:
    """Load the model class that a package offers by an entry point; raise `ValueError` for an unknown kind."""
    points = {point.name: point for point in entry_points(group="gram.models")}
    if kind not in points:
        raise ValueError(f"there is no model of kind '{kind}'; the kinds are {', '.join([*MODEL_KINDS, *points])}")
    return points[kind].load()


def model_settings(kind: str) -> type[Section]:
    """Return the class of settings of a kind of model; raise `ValueError` for an unknown kind."""
    return MODEL_KINDS[kind] if kind in MODEL_KINDS else packaged_model(kind).settings


def _by_kind(content: Any, _default: Callable[[Any], Section]) -> Section:
    """Validate the `model` section by the settings of its kind."""
    if isinstance(content, Section):
        return content
    if not isinstance(content, dict):
        raise ValueError("must be a section of settings")
    return model_settings(str(content.get("kind", "reasoner"))).model_validate(content)


class TaskConfig(Section):
    """The task and its options."""

    name: str = "nqueens"
    """Name of the task, as in `gram data NAME`."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments of the task, such as `size: 8`; the task itself refuses unknown ones."""


class TrainConfig(Section):
    """The training loop."""

    steps: int = Field(1000, ge=1)
    """Optimiser steps; each is one supervision step for every slot."""
    slots: int = Field(128, ge=1)
    """Examples in one update (the batch)."""
    pool: int = Field(0, ge=0)
    """Active examples, a multiple of `slots`: each update uses a random part of them, each one once per round.

    With 0 only one batch is active, as published; the weights then see an example in consecutive updates."""
    micro_batch: int = Field(0, ge=0)
    """Slots whose gradient is computed at a time, to save memory; 0: at most 64 on a CPU, where it is faster, all
    elsewhere."""
    seed: int = Field(0, ge=0, lt=2**32)
    """Seed of initialisation, data order and noise."""
    optimizer: Literal["adamw", "adam_atan2"] = "adamw"
    """Update rule."""
    lr: float = Field(2e-3, gt=0)
    """Peak learning rate."""
    lr_final: float = Field(0.05, ge=0, le=1)
    """Learning rate at the end as a fraction of the peak (cosine); 1 keeps it constant."""
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
    """Release a slot when its halt head predicts a correct output (deterministic models only)."""
    explore: float = Field(0.1, ge=0, le=1)
    """With halting: chance that a slot must run a random minimum number of steps."""
    log_every: int = Field(20, ge=1)
    """Steps between lines of metrics."""
    eval_every: int = Field(500, ge=1)
    """Steps between evaluations on a fixed subset of the validation split."""
    save_every: int = Field(200, ge=1)
    """Steps between checkpoints, from which `gram train --resume` resumes."""
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


class Recipe(Section):
    """Everything that defines a run."""

    task: TaskConfig = TaskConfig()
    model: Annotated[SerializeAsAny[Section], WrapValidator(_by_kind)] = ModelConfig()
    """Settings of one kind of model: `kind: reasoner` (the default), ar, mdlm, d3pm or vae."""
    objective: ObjectiveConfig = ObjectiveConfig()
    """The reasoner's loss; other kinds have what their loss needs among their own settings."""
    train: TrainConfig = TrainConfig()
    eval: SampleOptions = SampleOptions()

    @property
    def kind(self) -> str:
        """The kind of the model."""
        return str(getattr(self.model, "kind", "reasoner"))

    @model_validator(mode="before")
    @classmethod
    def _not_the_old_form(cls, content: Any) -> Any:
        if isinstance(content, dict) and content.get("generative") is not None:
            name = content["generative"].get("name", "...") if isinstance(content["generative"], dict) else "..."
            kind = "ar" if name == "autoregressive" else name
            raise ValueError(
                f"a section 'generative' is from an older version: write 'model: {{kind: {kind}, ...}}' with its "
                "options beside kind (D3PM's own kind is now called noise); `gram migrate FOLDER` converts a model"
            )
        return content

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        carried = [name for name in ("pool", "lifetime", "release") if getattr(self.train, name)]
        if not isinstance(self.model, ModelConfig):
            if self.objective != ObjectiveConfig():  # a stored recipe has all defaults written out
                raise ValueError("the objective section is for the kind reasoner: other kinds have no such settings")
            if carried:
                raise ValueError(f"train.{carried[0]} is for models that carry a state from step to step")
            return self
        if carried and self.model.supervision == "final":
            raise ValueError(f"train.{carried[0]} needs deep supervision: in this model every update has new examples")
        guided = self.model.guidance not in ("none", "fixed")
        if self.train.halt_in_training and guided and self.objective.prior_share > 0:
            raise ValueError("train.halt_in_training is for models without guidance: guided slots run to the end")
        return self


def parse_recipe(content: Any, source: str) -> Recipe:
    """Validate a recipe's content; the error names every key that is wrong."""
    if (key := _too_large(content)) is not None:
        raise GramError(f"{source}: {key} is too large a number.")
    try:
        return Recipe.model_validate(content)
    except ValidationError as error:
        raise GramError(f"{source}: {describe(error)}.") from error


def stored_recipe(content: Any, source: str, *, exact: bool = False) -> Recipe:
    """Validate the recipe of a model or a run, which may have settings that were removed since.

    exact: only at the values that changed nothing, so that a resumed run goes on as it began.
    """
    if isinstance(content, dict) and isinstance(section := content.get("objective"), dict):
        unused = [key for key, value in REMOVED.items() if not exact or section.get(key) == value]
        content = content | {"objective": {key: value for key, value in section.items() if key not in unused}}
    return parse_recipe(content, source)


def _too_large(content: Any, key: str = "") -> str | None:
    """Return the first key whose integer does not fit into 64 bits, as torch and numpy require."""
    if isinstance(content, dict):
        found = (_too_large(value, f"{key}.{name}".lstrip(".")) for name, value in content.items())
    elif isinstance(content, list):
        found = (_too_large(value, key) for value in content)
    else:
        return key if isinstance(content, int) and not -(2**63) <= content < 2**63 else None
    return next((name for name in found if name is not None), None)
