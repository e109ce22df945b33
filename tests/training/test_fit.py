"""A recipe that does not fit its task is refused before any long work."""

from collections.abc import Callable

import pytest

from gram.config import Recipe
from gram.errors import GramError
from gram.tasks.base import Tokens
from gram.tasks.nqueens import NQueens
from gram.training.fit import check_fit

RecipeBuilder = Callable[..., Recipe]


class WithoutValidation(NQueens):
    """A task whose own default is to have no validation split."""

    def __init__(self, *, size: int = 5) -> None:
        super().__init__(size=size, validation_share=0)


class WithoutSolutions(NQueens):
    """A task that cannot list solutions."""

    def solutions(self, tokens: Tokens) -> None:
        """Return nothing."""


def test_only_a_validation_split_that_is_not_wanted_may_be_empty(queens_recipe: RecipeBuilder) -> None:
    for task in (WithoutValidation(), NQueens(size=5, validation_share=0)):
        assert not task.has_validation
        check_fit(queens_recipe(), task, {name: task.split(name) for name in ("train", "validation", "test")})
    rounded = NQueens(size=5, validation_share=0.001)
    splits = {name: rounded.split(name) for name in ("train", "validation", "test")}
    with pytest.raises(GramError, match="validation split of nqueens-5 is empty"):
        check_fit(queens_recipe(), rounded, splits)


def test_a_task_that_cannot_be_scored_is_refused(queens_recipe: RecipeBuilder) -> None:
    task = WithoutSolutions(size=5)
    splits = {name: task.split(name) for name in ("train", "validation", "test")}
    with pytest.raises(GramError, match="`solutions`"):
        check_fit(queens_recipe(), task, splits)
