"""The models that ship, measured on their test splits: what `gram reproduce --check` compares with."""

from gram.experiments.entry import Column, Entry, Run

SOLVING, GENERATING, DRAWING = "puzzles", "boards", "digits"


def _shipped(group: str, name: str, recipe: str, measure: str, **measuring: object) -> Run:
    return Run(group, name, recipe, shipped=name, measure=measure, measuring=measuring)


BOARDS = _shipped(GENERATING, "sudoku-generation", "sudoku-generation/deep", "generation", count=10_000)
"""Also a row of the table of generated boards."""

ENTRIES = (
    Entry(
        name="shipped",
        title="The models that ship, on their test splits",
        cpu=(
            _shipped(SOLVING, "nqueens-8", "nqueens-8/gram", "solutions", full_depth=True),
            _shipped(SOLVING, "nqueens-10", "nqueens-10/gram", "solutions"),
            _shipped(SOLVING, "colouring-8", "colouring-8/gram", "solutions"),
            _shipped(SOLVING, "colouring-10", "colouring-10/deep", "solutions"),
            _shipped(SOLVING, "sudoku-extreme", "sudoku-extreme/deep", "solutions", limit=100),
            BOARDS,
            _shipped(DRAWING, "digits", "digits/gram", "images", count=1000, depths=(16,)),
            _shipped(DRAWING, "mnist", "mnist/gram", "images", count=1000, depths=(64,)),
        ),
        columns=(
            Column("accuracy", "accuracy", groups=(SOLVING,)),
            Column("best of all by value", "selection.value", groups=(SOLVING,)),
            Column("coverage", "coverage", groups=(SOLVING,)),
            Column("all inputs: accuracy", "all_inputs.accuracy", groups=(SOLVING,)),
            Column("all inputs: coverage", "all_inputs.coverage", groups=(SOLVING,)),
            Column("valid", "validity", groups=(GENERATING,), digits=2),
            Column("distinct among valid", "uniqueness", groups=(GENERATING,)),
            Column("Inception Score", "inception_score", "number", (DRAWING,), digits=2),
            Column("FID", "fid", "number", (DRAWING,), digits=2),
            Column("readable", "agreement", groups=(DRAWING,)),
        ),
    ),
)
