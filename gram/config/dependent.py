"""Dependencies between settings: a setting that has no effect is an error if the user has set it.

A base recipe may contain settings for several variants of a model. The user's own file and overrides may not, because
a change without effect is a mistake that would go unnoticed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatch
from typing import Any, NamedTuple

from gram.errors import GramError

GUIDED = ("gaussian", "stochasticity_only", "guide_only", "direct")

Settled = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class Dependency(NamedTuple):
    """Settings that have an effect only if another one has a certain value."""

    keys: tuple[str, ...]
    """dotted; * stands for any name"""
    on: str
    wanted: tuple[Any, ...] | None
    """the values of `on` with which they have an effect; None for any that is neither empty nor 0"""

    def holds(self, settings: Mapping[str, Any]) -> bool:
        """Return whether the settings have an effect; those of other kinds of models always count as effective."""
        if self.on not in settings:
            return True
        value = settings[self.on]
        return bool(value) if self.wanted is None else value in self.wanted

    def reason(self, settings: Mapping[str, Any]) -> str:
        """Describe the value that is required."""
        now = settings.get(self.on)
        if self.wanted is None:
            return f"it needs {self.on}, which is not set"
        if self.wanted == (None,):
            return f"{self.on} is {now}"
        return f"it needs {self.on} to be {' or '.join(map(str, self.wanted))}, not {now}"


DEPENDENCIES = (
    Dependency(("train.halt_in_training", "train.explore", "eval.depth", "eval.halt*"), "model.kind", ("reasoner",)),
    Dependency(("eval.top_p",), "model.kind", ("ar",)),
    Dependency(("model.heads",), "model.mixing", ("attention",)),
    Dependency(("model.token_hidden", "model.mixing_norm"), "model.mixing", ("tokens",)),
    Dependency(("model.symbols",), "model.mixing", ("constraints",)),
    Dependency(("model.patch",), "model.image", None),
    Dependency(
        ("model.puzzle_width", "model.puzzles", "train.puzzle_lr", "train.puzzle_weight_decay"),
        "model.puzzle_tokens",
        None,
    ),
    Dependency(("model.guidance_hidden", "model.log_sigma_range"), "model.guidance", GUIDED),
    Dependency(("model.log_sigma_init",), "model.guidance", (*GUIDED, "fixed")),
    Dependency(
        (
            "objective.beta",
            "objective.beta_final",
            "objective.kl_*",
            "objective.prior_share",
            "objective.rollout_*",
        ),
        "model.guidance",
        GUIDED,
    ),
    Dependency(("objective.rollout_*",), "objective.prior_share", None),
    Dependency(("objective.halt_loss",), "objective.halt_weight", None),
    Dependency(("objective.value_target",), "objective.value_weight", None),
    Dependency(("train.explore",), "train.halt_in_training", None),
    Dependency(("eval.halt_at", "eval.halt_by"), "model.halting", ("sigmoid",)),
)


def check_dependent(given: Mapping[str, Any], content: Mapping[str, Any], settled: Settled, source: str) -> None:
    """Raise `GramError` for a setting of the user (`given`, in sections) that has no effect.

    `content` has all settings, with those of the base recipes; `settled` makes the settings of a run of such sections.
    """
    settings = dict(flat(settled(content)))
    for key, _ in flat(given):
        for dependency in _dependencies_of(key):
            if settings.get(key) and not dependency.holds(settings) and _changes(key, settings, content, settled):
                raise GramError(f"{source}: {key} has no effect: {dependency.reason(settings)}.")


def _changes(key: str, settings: Mapping[str, Any], content: Mapping[str, Any], settled: Settled) -> bool:
    """Return whether the user has changed the value of a key."""
    try:
        without = dict(flat(settled(_without(content, key.split(".")))))
    except GramError:  # the recipe needs it
        return False
    return without.get(key) != settings.get(key)


def _dependencies_of(key: str) -> Iterable[Dependency]:
    return (item for item in DEPENDENCIES if any(fnmatch(key, pattern) for pattern in item.keys))


def flat(content: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield dotted keys and their values."""
    for name, value in content.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _without(content: Mapping[str, Any], path: list[str]) -> dict[str, Any]:
    """Return the content without one key."""
    first, *rest = path
    if not rest:
        return {name: value for name, value in content.items() if name != first}
    return {**content, first: _without(content[first], rest)}
