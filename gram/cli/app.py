"""The command `gram`: the table of all commands, and how an error ends the process.

The module of a command is imported only when the command is called, so that `gram --help` answers at once and the
modules themselves can import what they need at the top.
"""

import gc
import inspect
import sys
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from functools import wraps
from importlib import import_module
from typing import Annotated, Any, NamedTuple, NoReturn

import typer

from gram import __doc__ as summary
from gram import __version__
from gram.errors import GramError, Interrupted, PeerDied, is_out_of_memory
from gram.processes import is_first_process


class Command(NamedTuple):
    """One line of the table."""

    target: str
    """module:function below gram.cli"""
    help: str
    """what `gram --help` says; the function's docstring says more"""


USE, TRAIN, STUDY = "Use a model", "Train a model", "Measure and compare"

COMMANDS: dict[str, dict[str, Command]] = {
    USE: {
        "models": Command("solving:models", "List the shipped models: task, size and results."),
        "solve": Command("solving:solve", "Solve one puzzle, or every puzzle of a file."),
        "generate": Command("generation:generate", "Generate boards or images unconditionally."),
        "serve": Command("serve:serve", "Serve models over HTTP, with a page to watch them reason."),
        "demo": Command("demo:demo", "Solve held-out puzzles with the shipped models, and draw the trajectories."),
    },
    TRAIN: {
        "data": Command("data:data", "Prepare the data of a task; print its splits, their hash and examples."),
        "train": Command("training:train", "Train a model by a recipe and evaluate it on the test split."),
        "tune": Command("evaluation:tune", "Choose depth and temperature on the validation split."),
        "sweep": Command("training:sweep", "Train every combination of values side by side."),
        "plot": Command("training:plot", "Plot the training curves of one or several runs."),
        "migrate": Command("training:migrate_folder", "Convert a model or run of an older version."),
        "import": Command("training:import_model", "Convert a published HRM or TRM checkpoint."),
    },
    STUDY: {
        "eval": Command("evaluation:evaluate_model", "Evaluate a model on held-out inputs."),
        "compare": Command("comparing:compare", "Compare two models on the same inputs, with intervals."),
        "scaling": Command("studies:scaling", "Measure accuracy over depth x width for every selection rule."),
        "latent": Command("studies:latent", "Plot latent trajectories of one puzzle over the loss landscape."),
        "likelihood": Command("generation:likelihood", "Measure the likelihood of held-out answers."),
        "images": Command("generation:images", "Compare image generators by Inception Score and FID."),
        "score": Command("generation:score", "Compute Inception Score and FID of a file of images."),
        "reproduce": Command("reproducing:reproduce", "Reproduce the tables and figures of the paper."),
        "bench": Command("bench_report:bench", "Measure the speed of a recipe on this machine."),
    },
}


def build_app(names: Iterable[str]) -> typer.Typer:
    """Build the command line; the commands in `names` can be run, the others are only listed by `--help`."""
    wanted = set(names)
    app = typer.Typer(
        no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown"
    )
    app.callback(help=summary)(_every_command)
    for panel, commands in COMMANDS.items():
        for name, command in commands.items():
            function = load_command(command.target) if name in wanted else _only_listed
            app.command(name, short_help=command.help, rich_help_panel=panel)(function)
    return app


def load_command(target: str) -> Callable[..., Any]:
    """Import the function of a command; its groups of options become single options."""
    module, _, function = target.partition(":")
    return expand_groups(getattr(import_module(f"gram.cli.{module}"), function))


def expand_groups(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with every parameter that is a group of options replaced by the options themselves."""
    signature = inspect.signature(function, eval_str=True)
    groups: dict[str, Any] = {
        name: parameter.annotation
        for name, parameter in signature.parameters.items()
        if is_dataclass(parameter.annotation)
    }
    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        options = [(field.name, field.type, field.default) for field in fields(groups[name])] if name in groups else []
        for option, annotation, default in options or [(name, parameter.annotation, parameter.default)]:
            parameters.append(
                inspect.Parameter(option, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            )

    @wraps(function)
    def command(**given: Any) -> Any:
        made = {
            name: kind(**{field.name: given.pop(field.name) for field in fields(kind)}) for name, kind in groups.items()
        }
        return function(**given, **made)

    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _only_listed() -> NoReturn:
    """Serve as a placeholder for a command that `--help` only lists."""
    raise AssertionError("a command that was not asked for has been called")


def _version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


def _every_command(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command; errors that the user can fix become one sentence on standard error and exit code 1."""
    try:
        _imported()()
    except Interrupted as error:
        _fail(str(error), error.exit_code)
    except GramError as error:
        _fail(str(error), quiet=_helps_another() and not isinstance(error, PeerDied))
    except (OSError, MemoryError, UnicodeError) as error:  # a full disk, a protected folder, too large a width
        _fail(f"{type(error).__name__}: {' '.join(str(error).split()) or 'not enough memory'}")
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        _fail(f"Not enough memory: {' '.join(str(error).split())}")


def _imported() -> typer.Typer:
    """Import the command that is called, without a collector: nothing of it is garbage, and looking took an eighth."""
    gc.disable()
    try:
        return build_app(sys.argv[1:])
    finally:
        gc.freeze()
        gc.enable()


def _helps_another() -> bool:
    """Return whether another process of the same training prints for this one."""
    try:
        return sys.argv[1:2] == ["train"] and not is_first_process()
    except GramError:  # the very error that is to be shown: RANK is not a number
        return False


def _fail(message: str, code: int = 1, *, quiet: bool = False) -> NoReturn:
    if not quiet:
        print(message if code > 1 else f"Error: {message}", file=sys.stderr)
    raise SystemExit(code)
