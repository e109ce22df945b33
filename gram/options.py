"""How trajectories are drawn."""

from dataclasses import dataclass
from typing import Any, Literal

from gram.errors import GramError

MOST = 2**31 - 1
"""Largest width and depth: more would not fit any machine, and their product must be a number that numpy has."""


@dataclass(frozen=True)
class SampleOptions:
    """How trajectories are drawn."""

    width: int = 20
    """Trajectories per puzzle."""
    depth: int = 16
    """Largest number of supervision steps."""
    temperature: float = 1.0
    """Scale of the noise, 0 follows the mean; of models that draw tokens: 0 takes the most probable one."""
    top_p: float = 1.0
    """Autoregressive models draw among the most probable tokens that together have this probability."""
    seed: int = 0
    """Seed of all noise."""
    halt: bool = False
    """Let a trajectory end when its halt head says so."""
    halt_at: float = 0.5
    """The probability of being right from which on it says so (models that halt by a sigmoid)."""
    decode: Literal["argmax", "sample"] = "argmax"
    """`sample` draws each token from the output distribution (the ablation "TRM with a stochastic decoder")."""
    initial: Literal["fixed", "random"] = "fixed"
    """`random` draws a fresh z_0 for every trajectory (the ablation "TRM with random z_0")."""
    perturb: float = 0.0
    """Deviation of noise added to h before every supervision step (PTRM: wide search with a deterministic model)."""
    steps: int | None = None
    """Steps of a diffusion model's sampler; None for as many as the model has. Other models have none to choose."""
    keep_steps: bool = False
    """Keep what every supervision step brought, not only the last."""
    keep_states: bool = False
    """Keep the latent state h of every supervision step as well."""

    def heeded(self, names: frozenset[str]) -> dict[str, Any]:
        """The options by name, without those that a model with these `sample_settings` is deaf to."""
        return {name: value for name, value in vars(self).items() if name in names}

    def __post_init__(self) -> None:
        for name in ("width", "depth"):
            if not 1 <= getattr(self, name) <= MOST:
                raise GramError(f"{name} must be at least 1 and at most {MOST}, not {getattr(self, name)}.")
        for name in ("temperature", "perturb"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise GramError(f"{name} must be a number from 0 up, not {getattr(self, name)}.")
        if not 0 < self.top_p <= 1:
            raise GramError(f"top_p must be above 0 and at most 1, not {self.top_p}.")
        if not 0 < self.halt_at < 1:
            raise GramError(f"halt_at must lie between 0 and 1, not at {self.halt_at}.")
        for name, choices in (("decode", ("argmax", "sample")), ("initial", ("fixed", "random"))):
            if getattr(self, name) not in choices:
                raise GramError(f"{name} must be one of {', '.join(choices)}, not '{getattr(self, name)}'.")


def settings_text(settings: dict[str, Any]) -> str:
    """Describe sampling options in a line: depth 16 x width 20, temperature 1.0, seed 0."""
    size = [f"{name} {settings[name]}" for name in ("depth", "steps", "width") if settings.get(name) is not None]
    rest = [f"{name} {settings[name]}" for name in ("temperature", "top_p", "seed") if name in settings]
    return ", ".join([" x ".join(size)] * bool(size) + rest)
