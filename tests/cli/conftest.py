"""x"""

import io
from pathlib import Path

import pytest
from rich.console import Console

from gram.config import Recipe
from gram.solver import Solver, load
from gram.training.loop import train
from tests.cli.helpers import BOARDS, MODELS, SHORT


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Each model after two steps of training on 4x4 boards."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRAM_CACHE", str(tmp_path_factory.mktemp("cache")))
        for name, changes in MODELS.items():
            recipe = Recipe(**{"task": BOARDS, "train": SHORT, "eval": {"depth": 3, "width": 4}, **changes})
            found[name] = tmp_path_factory.mktemp("runs") / name
            train(recipe, found[name], Console(file=io.StringIO()))
    return found


@pytest.fixture
def solver(folders: dict[str, Path], request: pytest.FixtureRequest) -> Solver:
    return load(folders[getattr(request, "param", "gram")])
