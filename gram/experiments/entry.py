"""An entry of the registry: one table or figure of the paper, as data.

An entry names its runs (what is trained, with which seeds), how each trained model is measured, and what table and
figure are made of the measurements. The code that trains, measures and draws looks everything up here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from gram.evaluation.tune import Tuning

Scale = Literal["cpu", "paper"]
"""Ours, at most a million parameters and an hour on one core; or the paper's sizes and settings, for GPUs."""
Options = Mapping[str, Any]


@dataclass(frozen=True)
class Run:
    """One row of a table: a model and the seeds that it is trained with."""

    group: str
    """the table or panel that it belongs to, such as nqueens-8"""
    row: str
    """its label there"""
    recipe: str
    """a shipped recipe, such as nqueens-8/gram"""
    overrides: tuple[str, ...] = ()
    """changes to the recipe"""
    label: str = ""
    """what makes it another training than the plain recipe's, for file names; needed with overrides"""
    variant: str = ""
    """what makes it another measurement of the same training, for file names"""
    seeds: tuple[int, ...] = (0,)
    shipped: str = ""
    """a shipped model that is measured instead of training one"""
    sampling: Options = field(default_factory=dict)
    """sampling options of the measurement; all others are the model's own"""
    measure: str = ""
    """name of the measurement, if it is not the entry's"""
    measuring: Options = field(default_factory=dict)
    """options of the measurement that differ from the entry's"""
    tuning: Tuning | None = None
    minutes: float | None = None
    """CPU minutes that one training is planned to take, until a result says how many it took"""
    apart: bool = False
    """whether the network knows rules of the puzzle: such rows stand apart from those with the paper's networks"""

    @property
    def training(self) -> str:
        """Return the name of what is trained; runs of several entries may share it: nqueens-8-gram."""
        return "-".join(part for part in (self.recipe.replace("/", "-"), self.label) if part)

    @property
    def name(self) -> str:
        """Return the name of the measurement, unique in its entry."""
        return self.shipped or "-".join(part for part in (self.training, self.variant) if part)

    def result_name(self, seed: int) -> str:
        """Return the name of the file that holds the result of one seed."""
        return f"{self.name}.json" if self.shipped else f"{self.name}-seed{seed}.json"


Unit = Literal["percent", "number"]


@dataclass(frozen=True)
class Column:
    """One metric in a table."""

    header: str
    key: str
    """where it stands among the metrics, such as coverage or selection.value"""
    unit: Unit = "percent"
    groups: tuple[str, ...] = ()
    """the groups that have this column; all if empty"""
    digits: int = 1


@dataclass(frozen=True)
class Entry:
    """One table or figure."""

    name: str
    title: str
    """what of the paper it is"""
    cpu: tuple[Run, ...]
    paper: tuple[Run, ...] = ()
    measure: str = "solutions"
    """name of the measurement, in `gram.experiments.measures`"""
    measuring: Options = field(default_factory=dict)
    """its options"""
    columns: tuple[Column, ...] = ()
    """of the table; an entry without columns has none"""
    published: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)
    """the paper's own values: group -> row -> key of the column -> value (percentages as percentages)"""
    figure: str = ""
    """name of the figure, in `gram.experiments.figures`; none if empty"""
    source: str = ""
    """the entry whose results this one draws, if it has none of its own"""
    missing: str = ""
    """what cannot be run on a CPU in reasonable time, or not here, and why"""

    @property
    def folder(self) -> str:
        """Return the folder of its results below results/."""
        return self.source or self.name

    def runs(self, scale: Scale) -> tuple[Run, ...]:
        """Return the runs at one scale."""
        return self.cpu if scale == "cpu" else self.paper

    def columns_of(self, group: str) -> tuple[Column, ...]:
        """Return the columns of one group's table."""
        return tuple(column for column in self.columns if not column.groups or group in column.groups)
