"""No data folder of the user's, and a small file of sums."""

from pathlib import Path

import numpy as np
import pytest

from tests.tasks.tokens.helpers import write_lines


@pytest.fixture(autouse=True)
def no_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRAM_DATA", raising=False)


@pytest.fixture
def counted(tmp_path: Path) -> str:
    """200 inputs [a, b, 0] with the answers [a, b, a + b] and, where a > b, [b, a, a + b] as well."""
    rows = []
    for a, b in np.ndindex(20, 10):
        rows.append({"input": [a, b, 0], "target": [a, b, a + b], "note": "not read"})
        if a > b:
            rows.append({"input": [a, b, 0], "target": [b, a, a + b]})
    return write_lines(tmp_path / "counted.jsonl", rows)
