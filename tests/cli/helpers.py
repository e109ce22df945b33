"""Tiny settings of the models that generate, and what several commands' tests look at."""

from typing import Any

from typer.testing import CliRunner

from gram.cli.app import build_app

BOARDS: dict[str, Any] = {
    "name": "sudoku-generation",
    "options": {"size": 4, "train_boards": 40, "validation_boards": 4, "test_boards": 4},
}
TINY = {"dim": 16, "channel_hidden": 16, "token_hidden": 16, "guidance_hidden": 16, "low_steps": 1}
DIFFUSION = {"kind": "d3pm", "noise": "absorbing", "steps": 10, "dim": 16, "layers": 1, "heads": 2, "hidden": 16}
SHORT = {"steps": 2, "slots": 8, "eval_every": 2, "eval_inputs": 2, "eval_width": 2}
ROLLOUTS = {"prior_share": 0.5, "learn_from_rollouts": True}
MODELS: dict[str, dict[str, Any]] = {
    "gram": {"model": TINY | {"supervision_steps": 3, "transitions": 1}, "objective": ROLLOUTS},
    "trm": {"model": TINY | {"guidance": "none"}, "objective": {"prior_share": 0.0}},
    "d3pm": {"model": DIFFUSION},
    "ar": {"model": {"kind": "ar", "dim": 16, "layers": 1, "heads": 2}},
}


class CannotWrite:
    """Stands for a function that writes, when the disk is full."""

    called = False

    def __call__(self, *_: Any, **__: Any) -> None:
        self.called = True
        raise OSError("the disk is full")


def command(name: str, *arguments: str) -> Any:
    """Run a command in this process."""
    return CliRunner().invoke(build_app([name]), [name, *arguments])
