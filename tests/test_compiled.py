"""Functions compiled by numba, also where compiled code cannot be kept."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from numba.core import caching

from gram.compiled import compile_cached


def double(x: int) -> int:
    return 2 * x


def test_without_a_folder_for_compiled_code_a_function_is_compiled_for_this_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def read_only(_: object) -> None:
        raise PermissionError("read-only file system")

    monkeypatch.setattr(caching._CacheLocator, "ensure_cache_path", read_only)
    assert compile_cached()(double)(21) == 42


@pytest.mark.slow
def test_a_read_only_installation_without_a_home_works(tmp_path: Path) -> None:
    """The package in a folder where __pycache__ cannot be made, and a home that does not exist."""
    code = "from gram.tasks import make_task; print(len(make_task('sudoku-4').split('test').inputs) > 0)"
    package = tmp_path / "package"
    package.mkdir()
    subprocess.run(["cp", "-r", str(Path(__file__).parents[1] / "gram"), str(package)], check=True)
    for folder in package.rglob("*"):
        if folder.name == "__pycache__":
            subprocess.run(["rm", "-r", str(folder)], check=True)
    for folder in [package, *package.rglob("*")]:
        if folder.is_dir():
            (folder / "__pycache__").write_text("a file, so that not even root can make the folder")
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(package),
        "HOME": "/dev/null",
        "XDG_CACHE_HOME": "/dev/null/cache",
        "GRAM_CACHE": str(tmp_path / "cache"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "True", done.stderr
