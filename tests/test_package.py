"""What is published: the wheel holds all that a user needs without the repository, and the files about it agree."""

import itertools
import subprocess
import sys
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
import yaml

import gram
from gram.config import RECIPES
from gram.files import PRETRAINED

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_recipes_models_and_the_page(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    data = [
        *RECIPES.rglob("*.yaml"),
        *(path for path in PRETRAINED.rglob("*") if path.is_file()),
        *(path for path in (ROOT / "gram" / "serve" / "static").rglob("*") if path.is_file()),
        ROOT / "gram" / "py.typed",
    ]
    assert len(data) > 100
    assert {path.relative_to(ROOT).as_posix() for path in data} <= names
    assert not [name for name in names if name.startswith(("tests/", "docs/"))]
    assert wheel.stat().st_size < 20e6


def test_the_wheel_describes_itself(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (path,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(archive.read(path).decode())
    assert metadata["Version"] == gram.__version__
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert {"serve", "inception", "docs", "dev"} == set(metadata.get_all("Provides-Extra", []))
    done = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", str(wheel)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_model_and_a_recipe_load_from_the_wheel_alone(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    code = (
        "import gram, gram.config\n"
        "assert 'site' in gram.__file__, gram.__file__\n"
        "print(gram.load('nqueens-8').solve('Q......./......../......../......../......../......../......../........'))\n"
        "print(gram.config.load_recipe('nqueens-8/gram').task.name)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "site"), "HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert "verified solution" in done.stdout


def test_the_files_about_the_project_agree() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert str(citation["version"]) == gram.__version__
    assert citation["license"] == PROJECT["license"]
    assert f"## {gram.__version__}" in (ROOT / "CHANGELOG.md").read_text()
    paper = citation["preferred-citation"]
    readme = (ROOT / "README.md").read_text()
    assert f"title   = {{{paper['title']}}}" in readme
    names = " and ".join(f"{author['family-names']}, {author['given-names']}" for author in paper["authors"])
    assert f"author  = {{{names}}}" in readme


def test_the_workflow_runs_the_same_checks_on_every_classified_python() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    job = workflow["jobs"]["check"]
    versions = [name.rpartition(" ")[2] for name in PROJECT["classifiers"] if "Python :: 3." in name]
    assert versions
    assert set(versions) <= set(job["strategy"]["matrix"]["python"])
    assert ".ci/run" in [step.get("run") for step in job["steps"]]


def test_every_dependency_is_pinned() -> None:
    pinned = {
        line.partition("==")[0].lower().replace("_", "-")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
    }
    groups = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    for requirement in itertools.chain.from_iterable(groups):
        name = requirement.split(">")[0].split("[")[0].split("=")[0].lower().replace("_", "-")
        assert name in pinned | {"gram-reasoning"}, name
