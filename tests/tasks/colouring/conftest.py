"""A cache of one's own, and the task of eight vertices."""

from pathlib import Path

import pytest

from gram.tasks.colouring.task import Colouring


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds of these tests are kept apart from the user's."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRAM_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="module")
def task(cache: Path) -> Colouring:
    return Colouring(size=8)
