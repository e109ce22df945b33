"""The cards of the shipped models say what the result files say."""

from pathlib import Path

import pytest

from gram.checkpoints.card import percent, read_card
from gram.checkpoints.find import list_models
from gram.experiments import cards, documents
from gram.experiments.registry import find_entry
from gram.files import read_json, shipped_models

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)


def test_every_shipped_model_has_a_card_from_a_result_file() -> None:
    assert {path.parent.name for path, _ in cards.shipped_cards()} == set(shipped_models())
    for name, about in list_models().items():
        path = Path("results/shipped") / f"{name}.json"
        content = read_json(path if path.is_file() else Path("results/sudoku-extreme/deep.json"))
        assert about.parameters == content["parameters"]
        metrics = content.get("metrics", {})
        for metric in set(about.results) & set(metrics):
            assert about.results[metric] == pytest.approx(metrics[metric], abs=1e-4)
        assert all(0 <= value <= 1 for value in about.results.values())


def test_a_card_with_other_numbers_is_outdated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = cards.find_model
    text = (real("nqueens-8") / "README.md").read_text()
    stale = tmp_path / "README.md"
    stale.write_text(text.replace("| coverage | ", "| coverage | 1"))
    monkeypatch.setattr(cards, "find_model", lambda name: tmp_path if name == "nqueens-8" else real(name))
    assert list(documents.outdated_documents()) == [str(stale)]
    documents.write_documents()
    assert stale.read_text() == text


def test_only_everything_is_a_hundred_percent() -> None:
    assert [percent(value) for value in (0.5, 0.987, 0.9998, 1.0)] == ["50.0%", "98.7%", "99.98%", "100.0%"]


def test_a_card_says_how_its_results_came_about(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {path.parent.name: " ".join(text.split()) for path, text in cards.shipped_cards()}
    assert "halting after" in texts["nqueens-8"]
    validity = read_json(Path("results/shipped/sudoku-generation.json"))["metrics"]["validity"]
    assert f"| validity | {percent(validity)} |" in texts["sudoku-generation"]
    assert "inputs of the validation split" in texts["sudoku-extreme"]
    assert "has not been measured on the benchmark's test file" in texts["sudoku-extreme"]
    fid = read_json(Path("results/shipped/mnist.json"))["metrics"]["records"][0]["fid"]
    assert f"| fid | {fid:.2f} |" in texts["mnist"]
    assert "fid" not in read_card(shipped_models()["mnist"])["results"]  # which are fractions
    monkeypatch.setattr(cards, "state_of", lambda *_: "outdated")
    texts = {path.parent.name: text for path, text in cards.shipped_cards()}
    entry = find_entry("shipped")
    assert all("earlier weights" in texts[run.name] for run in entry.cpu if run.name != "sudoku-extreme")
