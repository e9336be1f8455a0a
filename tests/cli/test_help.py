"""Every command and option is there, says what it does, and is documented."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
import typer

from nsys_deepprof.cli.app import app
from tests.cli.contract import COMMANDS, TABLE_COMMANDS
from tests.cli.running import run

README = Path(__file__).resolve().parents[2] / "README.md"

SHARED_OPTIONS = ("--format", "--output", "--limit", "--from", "--to", "--nvtx", "--gpu")


def options(command: str) -> dict[str, list[str]]:
    """The spellings and the help of every option of a command."""
    group = typer.main.get_command(app)
    found = group.commands[command].params  # type: ignore[attr-defined]
    return {
        parameter.opts[0]: [getattr(parameter, "help", None) or ""]
        for parameter in found
        if parameter.opts[0].startswith("-")
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_contract_is_there(command: str) -> None:
    ran = run(command, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert f"nsys-deepprof {command}" in ran.text


@pytest.mark.parametrize("command", TABLE_COMMANDS)
def test_every_table_command_has_the_shared_options(command: str) -> None:
    assert set(SHARED_OPTIONS) <= set(options(command))


def test_every_option_says_what_it_does() -> None:
    group = typer.main.get_command(app)
    for command in group.commands:  # type: ignore[attr-defined]
        for name, (text,) in options(command).items():
            assert text, f"{command} {name}"


def test_the_list_of_commands_has_whole_sentences() -> None:
    listed = run("--help").text.split("Commands:")[1].strip().splitlines()
    assert len(listed) >= len(COMMANDS)
    assert all(line.endswith(".") and not line.endswith("...") for line in listed)


def test_the_version_is_the_packages() -> None:
    import nsys_deepprof

    assert run("--version").text == f"nsys-deepprof {nsys_deepprof.__version__}\n"


def test_no_argument_is_a_call_for_help() -> None:
    assert "Commands:" in run().text + run().err


@pytest.mark.parametrize("command", sorted({*COMMANDS} - {"convert", "batch"}))
def test_every_command_is_a_function_of_the_library(command: str) -> None:
    """The command line and the library are twins: what one does the other does."""
    import nsys_deepprof

    name = {"export": "timeline_tracks", "report": "report"}.get(command, command)
    function = getattr(nsys_deepprof, name)
    assert callable(function)
    assert inspect.getdoc(function)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_readme_documents_every_command_and_option(command: str) -> None:
    text = README.read_text(encoding="utf-8")
    assert f"nsys-deepprof {command}" in text
    missing = [name for name in options(command) if name not in text]
    assert not missing
