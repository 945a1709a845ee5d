"""The tour, the help of every command, and what it costs to ask."""

import resource
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from tests.cli.conftest import Cli
from tickwork.cli.main import _COMMANDS, TOUR, main


def _every_command() -> Iterator[list[str]]:
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        yield [name]
        if isinstance(command, click.Group):
            yield from ([name, inner] for inner in command.commands)


@pytest.mark.parametrize("path", list(_every_command()), ids=" ".join)
def test_every_command_has_a_help_with_an_example(cli: Cli, path: list[str]) -> None:
    text = cli.ok(*path, "--help")
    assert "Example" in text
    assert f"  tickwork {path[0]}" in text


def test_the_tour_names_every_command_and_fits_80_columns(cli: Cli) -> None:
    assert cli.ok("--help") == TOUR
    assert cli.ok() == TOUR
    for name in _COMMANDS:
        assert f"\n  {name} " in TOUR
    assert max(map(len, TOUR.splitlines())) <= 80


def test_help_imports_neither_rich_nor_the_engine() -> None:
    loaded = _python("import tickwork.cli.main, sys; print(*sys.modules)").split()
    assert not {"rich", "msgspec", "apsw", "asyncio", "tickwork.app"} & set(loaded)


def test_help_takes_less_than_150_ms_of_a_processor() -> None:
    """Its wall time is about the same where nothing else runs, which tests cannot hope for."""
    took = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "tickwork", "--help"], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(took) < 0.150


def test_the_lazy_names_of_the_package_are_there() -> None:
    assert _python("from tickwork import *; print(Tickwork.__name__, Job.__name__, current_job.__name__)") == (
        "Tickwork Job current_job\n"
    )
    assert "has no attribute 'nothing'" in _python(
        "import tickwork\ntry:\n    tickwork.nothing\nexcept AttributeError as e: print(e)"
    )


def test_version(cli: Cli) -> None:
    assert cli.ok("version").startswith("tickwork ")
    assert set(cli.json("version")) == {"tickwork", "python", "executable"}


def _python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
