"""How a task's puzzles are written in a request, and how its boards are laid out on the page."""

import re
from typing import Any

from gram.errors import GramError
from gram.tasks.base import Task, Tokens
from gram.tasks.colouring.task import COLOUR_NAMES, EDGE, FIRST_COLOUR, Colouring
from gram.tasks.images import BinaryImages
from gram.tasks.nqueens import NQueens
from gram.tasks.sudoku.board import SudokuBoard
from gram.tasks.sudoku.solver import BOX_SHAPES

HOW = {
    "nqueens": "Rows from the top, separated by '/': Q for a queen, . for an empty cell.",
    "sudoku": "Digits row by row, . for a blank; the puzzle must have exactly one solution.",
    "colouring": "Edges such as 0-1, 1-2; vertices count from 0.",
    "image": "Nothing: images are drawn from a blank input.",
    "text": "JSON, as the task's own files have it.",
}


def board_of(task: Task) -> dict[str, Any]:
    """Describe the layout of a task's outputs: its kind, size, and what the tokens stand for."""
    if isinstance(task, NQueens):
        return {"kind": "nqueens", "rows": task.size, "columns": task.size}
    if isinstance(task, SudokuBoard):
        box_rows, box_columns = BOX_SHAPES[task.size]
        board = {"kind": "sudoku", "rows": task.size, "columns": task.size}
        return {**board, "box_rows": box_rows, "box_columns": box_columns}
    if isinstance(task, Colouring):
        names = list(COLOUR_NAMES[: task.colours])
        return {"kind": "colouring", "vertices": task.size, "first_colour": FIRST_COLOUR, "edge": EDGE, "names": names}
    if isinstance(task, BinaryImages):
        rows, columns = task.image_shape
        return {"kind": "image", "rows": rows, "columns": columns}
    return {"kind": "text"}


def is_generated(task: Task) -> bool:
    """Return whether the task's one input is blank."""
    return task.scoring == "generation"


def parse(task: Task, text: str) -> Tokens:
    """Turn the text of a request into tokens [length].

    Some tasks also take the name of a file in place of a puzzle; no request may reach the file system, so only what
    is a puzzle itself is passed on.
    """
    kind = board_of(task)["kind"]
    if kind == "colouring" and not re.fullmatch(r"[0-9\s,;-]*|\s*no edges\s*", text, re.ASCII):
        raise GramError("A graph must be written as its edges, such as 0-1, 1-2, or 'no edges'.")
    if kind == "text" and not text.lstrip().startswith(("[", "{")):
        raise GramError("A puzzle of this task must be written as JSON.")
    return task.parse(text)


def blank(task: Task) -> Tokens:
    """Return the blank input [length]; raise `GramError` for a task that needs a puzzle."""
    if not is_generated(task):
        raise GramError(f"{task.name} needs a puzzle: send one to /v1/solve.")
    return task.parse("")
