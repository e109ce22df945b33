"""Peak memory of sampling one puzzle at several widths: it should hardly grow. Each width is a process of its own.

python benchmarks/width.py nqueens-8
"""

import argparse
import subprocess
import sys

WIDTHS = (100, 1000, 10000)
WORK = """
import sys
import torch
from gram.cli.bench import peak_memory
from gram.solver import load
torch.set_num_threads(1)
solver = load(sys.argv[1])
result = solver.solve(solver.task.split("test").inputs[0], width=int(sys.argv[2]), depth=int(sys.argv[3]))
print(peak_memory(torch.device("cpu")))
"""


def main() -> None:
    """Print one line per width."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--depth", type=int, default=4)
    arguments = parser.parse_args()
    first = None
    for width in WIDTHS:
        command = [sys.executable, "-c", WORK, arguments.model, str(width), str(arguments.depth)]
        megabytes = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        first = first or megabytes
        print(f"width {width:,}: {megabytes:,.0f} MB ({megabytes / first:.2f} of width {WIDTHS[0]})", flush=True)


if __name__ == "__main__":
    main()
