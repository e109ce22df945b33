"""Models that the tests of the service share."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gram.config import Recipe
from tests.serve.helpers import save_random_model


@pytest.fixture(scope="session")
def queens_folder(queens_recipe: Callable[..., Recipe], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model of five queens."""
    recipe = queens_recipe(model={"log_sigma_init": 0.5}, eval={"depth": 4, "width": 6})
    return save_random_model(recipe, tmp_path_factory.mktemp("models") / "queens")
