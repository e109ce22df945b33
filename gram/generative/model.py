"""The generative models behind one face: trained, sampled and evaluated like the recursive ones."""

from typing import Any, cast

import torch
from pydantic import ValidationError
from torch import Tensor, nn

from gram.config import GenerativeConfig, Section, describe
from gram.errors import GramError
from gram.generative.autoregressive import Autoregressive, AutoregressiveConfig
from gram.generative.base import GenerativeModel
from gram.generative.d3pm import D3pm, D3pmConfig
from gram.generative.mdlm import Mdlm, MdlmConfig
from gram.generative.vae import Vae, VaeConfig
from gram.nn.reasoner import State
from gram.training.slots import Slots
from gram.training.team import Team
from gram.training.update import Update

MODELS: dict[str, tuple[type[Section], type[nn.Module]]] = {
    "autoregressive": (AutoregressiveConfig, Autoregressive),
    "mdlm": (MdlmConfig, Mdlm),
    "d3pm": (D3pmConfig, D3pm),
    "vae": (VaeConfig, Vae),
}


def check_options(config: GenerativeConfig) -> Section:
    """The options as the model's own settings, or `GramError` that names every wrong one."""
    try:
        return MODELS[config.name][0].model_validate(config.options)
    except ValidationError as error:
        raise GramError(f"generative.options of {config.name}: {describe(error)}.") from error


class Generative(nn.Module):
    """A model of p(output | input) that draws whole outputs, without a latent state of its own."""

    def __init__(self, config: GenerativeConfig, *, vocab_size: int, length: int) -> None:
        super().__init__()
        self.config = config
        self.vocab_size, self.length = vocab_size, length
        self.network: Any = MODELS[config.name][1](check_options(config), vocab_size=vocab_size, length=length)
        self.register_buffer("anchor", torch.zeros(()), persistent=False)

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return cast(Tensor, self.anchor).device

    @property
    def parameter_count(self) -> int:
        """How many numbers are trained."""
        return sum(p.numel() for p in self.parameters())

    def initial_state(self, batch: int) -> State:
        """Nothing is carried from step to step: an empty state of `batch` rows."""
        return State(torch.zeros(batch, 0, 0, device=self.device), None)

    @property
    def law(self) -> GenerativeModel:
        """Loss, sampling and likelihood."""
        return cast(GenerativeModel, self.network)


class GenerativeObjective(nn.Module):
    """A generative model with its loss, in the form that the training loop takes: every step has fresh examples."""

    steps_per_example = 1

    def __init__(self, model: Generative) -> None:
        super().__init__()
        self.model = model
        self.team: Team | None = None
        self.piece_rows = 0
        self.backward: Any = None

    def prior_rows(self, slots: int) -> int:
        """No slot rolls out."""
        return 0

    def forward(self, slots: Slots, beta: float, generator: torch.Generator) -> Update:
        """The loss of all slots; all of them are done with it."""
        loss, metrics = self.model.network.loss(slots.inputs, slots.targets, generator)
        done = torch.ones_like(slots.steps, dtype=torch.bool)
        return Update(loss, slots.state, done, slots.targets[:0], {**metrics, "loss": loss})
