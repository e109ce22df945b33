"""The generative models behind one face: trained, sampled and evaluated like the recursive ones."""

from typing import Any, cast

import torch
from pydantic import ValidationError
from torch import Tensor, nn

from gram.config import GenerativeConfig, Section, describe
from gram.errors import GramError
from gram.models.baselines.ar import Autoregressive, AutoregressiveConfig
from gram.models.baselines.base import GenerativeModel
from gram.models.baselines.d3pm import D3pm, D3pmConfig
from gram.models.baselines.mdlm import Mdlm, MdlmConfig
from gram.models.baselines.vae import Vae, VaeConfig
from gram.models.reasoner import State
from gram.options import SampleOptions
from gram.tasks.base import Structure

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
        self.structure = Structure()
        # Known from the training targets. Tasks such as colouring label a few positions only; the sampler holds the
        # others at padding, as training has shown them.
        self.labelled: Tensor
        self.register_buffer("labelled", torch.ones(length, dtype=torch.bool))
        self.network: Any = MODELS[config.name][1](check_options(config), vocab_size=vocab_size, length=length)

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return next(self.parameters()).device

    @property
    def parameter_count(self) -> int:
        """How many numbers are trained."""
        return sum(p.numel() for p in self.parameters())

    def initial_state(self, batch: int) -> State:
        """Nothing is carried from step to step: an empty state of `batch` rows."""
        return State(torch.zeros(batch, 0, 0, device=self.device), None)

    @property
    def kind(self) -> str:
        """What its weights are of, where names and shapes do not tell."""
        options = check_options(self.config).model_dump()
        return " ".join([self.config.name, *([options["kind"]] if "kind" in options else [])])

    @property
    def sample_settings(self) -> frozenset[str]:
        """The sampling options that decide what it draws."""
        return self.law.sample_settings | {"width", "seed"}

    def check(self, options: SampleOptions) -> None:
        """Refuse, before any work, what it cannot be sampled with."""
        if isinstance(self.network, D3pm):
            self.network.stride(options.steps)

    def sample(self, inputs: Tensor, generator: torch.Generator, options: SampleOptions) -> Tensor:
        """inputs [rows, length] -> one output [rows, length] for each."""
        own = options.heeded(self.law.sample_settings)
        return self.law.sample(inputs, generator=generator, labelled=self.labelled, **own)

    @property
    def law(self) -> GenerativeModel:
        """Loss, sampling and likelihood."""
        return cast(GenerativeModel, self.network)
