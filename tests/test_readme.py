"""README's Python runs as it stands there."""

import math
import re
from pathlib import Path
from typing import Any

README = Path(__file__).parents[1] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)


def test_the_quick_start_finds_verified_solutions(capsys: Any) -> None:
    exec(BLOCKS[0], {})
    out = capsys.readouterr().out
    assert out.startswith("verified solution")
    assert re.search(r"^[1-4] different verified solutions", out, flags=re.MULTILINE)


def test_a_loop_of_your_own_is_short_and_learns() -> None:
    (loop,) = [block for block in BLOCKS if "init_carry" in block]
    assert len(loop.splitlines()) <= 15
    scope: dict[str, Any] = {}
    exec(
        loop.replace("loss.backward()", "losses.append(loss.item()); loss.backward()"),
        scope | {"losses": (losses := [])},
    )
    assert len(losses) == 30
    assert all(map(math.isfinite, losses))
    assert sum(losses[-5:]) < 0.5 * sum(losses[:5])
