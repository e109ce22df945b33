"""`gram solve` answers soon: it imports neither what draws nor what compiles."""

import subprocess
import sys

UNUSED = ("matplotlib", "torch._dynamo", "sympy", "numba", "sklearn", "scipy", "lightning_fabric")
PROGRAM = """
import atexit, sys
from gram.cli.app import main
atexit.register(lambda: print("imported:", [name for name in {names!r} if name in sys.modules]))
main()
"""


def test_solving_imports_nothing_that_it_does_not_use() -> None:
    puzzle = "Q......./" + "/".join(["........"] * 7)
    command = [sys.executable, "-c", PROGRAM.format(names=UNUSED), "solve", "nqueens-8", puzzle]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "imported: []" in done.stdout
