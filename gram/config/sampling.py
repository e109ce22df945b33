"""Sampling options: the `eval` section of a recipe, and the options of commands and functions."""

from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass

from gram.config.section import describe
from gram.errors import GramError

MOST = 2**31 - 1
"""Largest width and depth: more would not fit any machine, and their product must be a number that numpy has."""
Finite = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class SampleOptions:
    """Options of the sampler; the commands show the docstrings of the fields as their help."""

    width: Annotated[int, Field(ge=1, le=MOST)] = 20
    """Trajectories per input."""
    depth: Annotated[int, Field(ge=1, le=MOST)] = 16
    """Supervision steps per trajectory."""
    temperature: Finite = 1.0
    """Scale of the noise: 0 follows the mean. Models that draw tokens: 0 takes the most probable one."""
    temperature_final: Finite | None = None
    """The temperature moves linearly to this one over the depth; by default, it stays."""
    horizon: Annotated[int, Field(ge=1)] | None = None
    """Full steps that a trajectory is worth: a larger depth divides them into smaller ones; by default, never."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Autoregressive models: draw from the most probable tokens that together have this probability (nucleus)."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Seed of all noise."""
    halt: bool = False
    """Stop a trajectory when its output is predicted to be correct."""
    halt_at: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Halt once the predicted probability of being correct exceeds this (models that halt by a sigmoid)."""
    halt_by: Literal["head", "output"] = "head"
    """What predicts that: the halt head, or the decoder by the probability of its whole output."""
    decode: Literal["argmax", "sample"] = "argmax"
    """Ablation: `sample` draws each token from the output distribution ("TRM with a stochastic decoder")."""
    initial: Literal["fixed", "random"] = "fixed"
    """Ablation: `random` draws a fresh z_0 for every trajectory ("TRM with random z_0")."""
    perturb: Finite = 0.0
    """PTRM: standard deviation of noise added to h before every supervision step."""
    steps: Annotated[int, Field(ge=1)] | None = None
    """Diffusion models: steps of the sampler; by default, as many as the model has."""
    keep_steps: bool = False
    """Keep the outputs of every supervision step, not only the last."""
    keep_states: bool = False
    """Keep the latent state h of every supervision step as well."""

    def changed(self, **options: Any) -> Self:
        """Return these options with some of them changed; raise `GramError` for a value that is not allowed.

        A new temperature without a final one is constant.
        """
        if "temperature" in options:
            options = {"temperature_final": None, **options}
        try:
            return replace(self, **options)
        except ValidationError as error:
            raise GramError(f"{describe(error)}.") from error

    @property
    def temperatures(self) -> tuple[float, float]:
        """Those of the first and of the last step."""
        return self.temperature, self.temperature if self.temperature_final is None else self.temperature_final

    def only(self, names: frozenset[str]) -> dict[str, Any]:
        """Return the options of these names."""
        return {name: value for name, value in vars(self).items() if name in names}


def settings_text(settings: dict[str, Any]) -> str:
    """Describe sampling options in a line: depth 16 x width 20, temperature 1.0, seed 0."""
    size = [f"{name} {settings[name]}" for name in ("depth", "steps", "width") if settings.get(name) is not None]
    shown: dict[str, Any] = {name: settings[name] for name in ("temperature", "top_p", "seed") if name in settings}
    if settings.get("temperature_final") is not None:
        shown["temperature"] = f"{settings['temperature']} to {settings['temperature_final']}"
    if settings.get("horizon") is not None:
        shown["horizon"] = settings["horizon"]
    rest = [f"{name} {value}" for name, value in shown.items()]
    if settings.get("halt"):
        by = " by output" if settings.get("halt_by") == "output" else ""
        rest.append(f"halting at {settings['halt_at']}{by}" if "halt_at" in settings else "halting")
    return ", ".join([" x ".join(size)] * bool(size) + rest)
