"""Peak memory of training for several numbers of transitions and supervision steps: it should not grow with either.

python benchmarks/memory.py gram/recipes/nqueens-8/gram.yaml
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

SETTINGS = {"model.transitions": (2, 4, 8), "model.supervision_steps": (4, 8, 16)}


def peak_megabytes(recipe: str, override: str) -> float:
    """Of a process of its own, so that nothing before it counts."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "bench.json"
        options = [override, "train.threads=1", "--steps", "4", "--puzzles", "1", "--json", str(out)]
        subprocess.run([sys.executable, "-m", "gram", "bench", recipe, *options], check=True, stdout=subprocess.DEVNULL)
        return float(json.loads(out.read_text())["peak_memory_megabytes"])


def main() -> None:
    """Print one line per setting."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    recipe = parser.parse_args().recipe
    for key, values in SETTINGS.items():
        for value in values:
            print(f"{key}={value}: {peak_megabytes(recipe, f'{key}={value}'):,.0f} MB", flush=True)


if __name__ == "__main__":
    main()
