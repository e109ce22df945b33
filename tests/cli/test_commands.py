"""The table of commands: every line can be called, and `gram --help` imports none of them."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Annotated, get_args

import pytest
import typer
from typer.testing import CliRunner

from gram.cli.app import COMMANDS, build_app, expand_groups
from gram.cli.options import Ablations, Sampling
from gram.config import SampleOptions

Run = Callable[..., tuple[int, str, str]]
NAMES = [name for commands in COMMANDS.values() for name in commands]


def test_help_lists_every_command_with_its_line(gram: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    code, out, _ = gram("--help")
    assert code == 0
    for commands in COMMANDS.values():
        for name, command in commands.items():
            assert any(name in line and command.help in line for line in out.splitlines()), name


def test_help_does_not_import_torch() -> None:
    script = "import sys; from gram.cli.app import build_app; build_app([]); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.parametrize("name", NAMES)
def test_every_command_explains_itself(gram: Run, name: str) -> None:
    code, out, _ = gram(name, "--help")
    assert code == 0
    assert "Usage:" in out
    assert max(map(len, out.splitlines())) <= 80


def test_a_group_of_options_becomes_single_options() -> None:
    @dataclass(frozen=True)
    class Group:
        width: Annotated[int, typer.Option()] = 3
        seed: Annotated[int, typer.Option()] = 0

    seen = []

    def command(name: Annotated[str, typer.Argument()], *, group: Group, show: int = 1) -> None:
        seen.append((name, group, show))

    app = typer.Typer()
    app.command()(expand_groups(command))
    assert CliRunner().invoke(app, ["x", "--width", "7", "--show", "2"]).exit_code == 0
    assert seen == [("x", Group(width=7, seed=0), 2)]


def test_only_given_sampling_options_change_the_models_own() -> None:
    assert Sampling().given() == {"seed": 0}
    assert Ablations(device="cpu", width=5, halt=False).given() == {"seed": 0, "width": 5, "halt": False}


def test_commands_that_were_not_asked_for_are_only_listed() -> None:
    (listed,) = (command for command in build_app(["data"]).registered_commands if command.name == "solve")
    with pytest.raises(AssertionError):
        listed.callback()  # type: ignore[misc]


def test_the_help_of_sampling_options_is_the_docstring_of_their_fields() -> None:
    options = {field.name: field.type for field in fields(Ablations)}
    supported = set(SampleOptions.__dataclass_fields__) - {"keep_steps", "keep_states"}
    assert supported <= set(options)  # every option of the sampler can be given
    for name in supported - {"seed"}:
        kind, option = get_args(options[name])
        assert option.help.endswith(".")
        assert type(None) in get_args(kind)
    assert get_args(options["depth"])[1].help == "Supervision steps per trajectory."
