"""Unconditional generation: binarised MNIST, complete Sudoku boards, and how samples come about."""

from dataclasses import replace

from gram.experiments.entries import shipped
from gram.experiments.entry import Column, Entry, Run

BOARDS = "sudoku-generation"
FEW = {"count": 256}
"""Boards of a diffusion model of 1000 steps."""
DEPTHS = (8, 16, 32, 64, 128, 256)

_BOARD_RUNS = (
    Run(BOARDS, "GRAM", f"{BOARDS}/gram", minutes=42.0),
    Run(BOARDS, "D3PM, uniform", f"{BOARDS}/d3pm-uniform", measuring=FEW, minutes=42.0),
    Run(BOARDS, "D3PM, absorbing", f"{BOARDS}/d3pm-absorbing", measuring=FEW, minutes=42.0),
    Run(BOARDS, "TRM", f"{BOARDS}/trm", minutes=5.0),
    Run(BOARDS, "GRAM, structured network", f"{BOARDS}/structured", minutes=42.0, apart=True),
    replace(shipped.BOARDS, group=BOARDS, row="GRAM, deeper and longer"),
)
_LARGE_BOARDS = (
    Run(BOARDS, "D3PM, uniform, big", f"{BOARDS}/d3pm-uniform-big"),
    Run(BOARDS, "D3PM, uniform, small", f"{BOARDS}/d3pm-uniform-small"),
    Run(BOARDS, "D3PM, absorbing, big", f"{BOARDS}/d3pm-absorbing-big"),
    Run(BOARDS, "D3PM, absorbing, small", f"{BOARDS}/d3pm-absorbing-small"),
    Run(BOARDS, "GRAM", f"{BOARDS}/gram-paper"),
)
_VALIDITY = {
    "D3PM, uniform, big": 91.33,
    "D3PM, uniform, small": 29.24,
    "D3PM, absorbing, big": 79.18,
    "D3PM, absorbing, small": 21.88,
    "GRAM": 99.05,
}
_IMAGES = {"VAE": "vae", "D3PM": "d3pm", "TRM": "trm", "GRAM": "gram"}
_IMAGE_MINUTES = {"VAE": 4.0, "D3PM": 20.0, "TRM": 2.0, "GRAM": 12.0}
_IMAGE_DEPTHS = {"TRM": {"depths": (16,)}}
"""It draws one image, at every depth."""
_IMAGE_RUNS = tuple(
    Run("mnist", row, f"mnist/{recipe}", measuring=_IMAGE_DEPTHS.get(row, {}), minutes=_IMAGE_MINUTES[row])
    for row, recipe in _IMAGES.items()
)
_LARGE_IMAGES = (
    Run("mnist", "TRM", "mnist/trm-paper", measuring=_IMAGE_DEPTHS["TRM"]),
    Run("mnist", "GRAM", "mnist/gram-paper"),
)
NO_MNIST = "The paper's MNIST models need GPUs (16 hours on eight of them)."

_VALID_BOARDS = Entry(
    name=BOARDS,
    title="Table: validity of Sudoku boards from a blank input",
    cpu=_BOARD_RUNS,
    paper=_LARGE_BOARDS,
    measure="generation",
    measuring={"count": 1000},
    columns=(
        Column("valid", "validity", digits=2),
        Column("distinct among valid", "uniqueness"),
        Column("new among distinct", "novelty"),
        Column("conflicts per board", "conflicts", "number"),
    ),
    published={BOARDS: {row: {"validity": value} for row, value in _VALIDITY.items()}},
)

ENTRIES = (
    Entry(
        name="mnist",
        title="Table: binarised MNIST, Inception Score and FID",
        cpu=_IMAGE_RUNS,
        paper=_LARGE_IMAGES,
        measure="images",
        measuring={"count": 1000, "depths": DEPTHS},
        columns=(
            Column("Inception Score", "inception_score", "number", digits=2),
            Column("FID", "fid", "number", digits=2),
            Column("readable", "agreement"),
        ),
        published={
            "mnist": {
                "VAE": {"inception_score": 1.70, "fid": 86.28},
                "D3PM": {"inception_score": 1.86, "fid": 74.03},
                "TRM": {"inception_score": 1.00, "fid": 303.29},
                **{
                    f"GRAM, {steps} steps": {"inception_score": score, "fid": fid}
                    for steps, score, fid in (
                        (8, 1.85, 84.08),
                        (16, 1.89, 77.79),
                        (32, 1.91, 76.65),
                        (64, 1.95, 75.39),
                        (128, 1.99, 74.30),
                        (256, 2.04, 73.34),
                    )
                },
            }
        },
        figure="image_scores",
        missing=NO_MNIST,
    ),
    _VALID_BOARDS,
    replace(
        _VALID_BOARDS,
        name="validity",
        title="Figure: validity of generated Sudoku boards",
        columns=(),
        source=BOARDS,
        figure="validity_bars",
    ),
    Entry(
        name="generation-process",
        title="Figure: samples of several models over their steps, from t = 0",
        cpu=(
            *(replace(run, measuring={}) for run in _BOARD_RUNS if run.row in ("GRAM", "D3PM, uniform")),
            *(replace(run, measuring={}) for run in _IMAGE_RUNS),
        ),
        paper=tuple(replace(run, measuring={}) for run in (_LARGE_BOARDS[0], _LARGE_BOARDS[-1], *_LARGE_IMAGES)),
        measure="process",
        measuring={"samples": 2, "columns": 7},
        figure="generation_process",
        missing=NO_MNIST,
    ),
)
