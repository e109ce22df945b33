"""Files of tokens, and what every split of them must keep to."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from gram.tasks.base import SplitName
from gram.tasks.tokens.task import TokenFile

SPLITS: tuple[SplitName, ...] = ("train", "validation", "test")


def write_lines(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def check_groups(task: TokenFile) -> None:
    """Groups ascend, a group is one input, an input is one group and in one split."""
    seen: set[bytes] = set()
    for name in SPLITS:
        examples = task.split(name)
        assert examples.inputs.dtype == examples.targets.dtype == examples.groups.dtype == np.int64
        assert (np.diff(examples.groups) >= 0).all()
        distinct, rows, _ = examples.distinct()
        assert np.array_equal(np.repeat(distinct, rows, axis=0), examples.inputs)
        here = {row.tobytes() for row in distinct}
        assert len(here) == len(distinct)
        assert not here & seen
        seen |= here
