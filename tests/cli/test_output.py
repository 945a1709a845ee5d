"""How values look: escapes, times, tables, JSON."""

import io
import os
import pty
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwork import Tickwork
from tickwork.cli import output
from tickwork.core.text.terminal_escape import clean, clean_lines, clean_log

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


@given(st.text())
def test_a_cleaned_line_prints_and_is_one_line(text: str) -> None:
    assert clean(text).isprintable()


@given(st.text())
def test_cleaned_lines_print_but_for_line_ends_and_tabs(text: str) -> None:
    assert clean_lines(text).replace("\n", "").replace("\t", "").isprintable()


@given(st.text(alphabet=st.sampled_from("ab\x1b[3;1m\n\r")))
def test_a_log_keeps_no_escape_but_colours(text: str) -> None:
    assert "\x1b" not in clean_log(text, colours=False)
    assert clean_log(text, colours=True).count("\x1b") == clean_log(text, colours=True).count("\x1b[")


def test_escapes_are_spelled_out() -> None:
    assert clean("a\x1b[2Jb\n\x85\u202e\ud800") == "a\\x1b[2Jb\\n\\x85\\u202e\\ud800"
    assert clean_lines("a\r\nb\tc\rd") == "a\nb\tc\\rd"
    assert clean_log("\x1b[31mred\x1b[0m \x1b[2J", colours=True) == "\x1b[31mred\x1b[0m \\x1b[2J"
    assert clean_log("\x1b[31mred\x1b[0m \x1b[2J", colours=False) == "red \\x1b[2J"


@pytest.mark.parametrize(
    ("away", "said"),
    [
        (timedelta(0), "now"),
        (timedelta(seconds=-0.9), "now"),
        (timedelta(seconds=-1.26), "1.2s ago"),
        (timedelta(seconds=-59.9), "59s ago"),
        (timedelta(minutes=90, seconds=10), "in 1h30m"),
        (timedelta(days=-3, hours=-4), "3d4h ago"),
    ],
)
def test_times_are_told_from_now(away: timedelta, said: str) -> None:
    assert output.ago(NOW + away, NOW) == said


def test_json_instants_are_rfc_3339_in_utc() -> None:
    there = datetime(2026, 11, 15, 14, 30, tzinfo=timezone(timedelta(hours=2)))
    assert output.plain({"at": there, "for": timedelta(seconds=1.5)}) == {
        "at": "2026-11-15T12:30:00.000000Z",
        "for": 1.5,
    }


def test_a_damaged_payload_is_shown_as_it_is() -> None:
    assert output.plain(b'{"a": 1}') == {"a": 1}
    assert output.plain(b"{oops\xff") == "{oops\ufffd"


def test_an_error_is_cut_to_what_happened() -> None:
    assert output.short_error("Traceback ...\nshop.errors.NotPaid: order 3: a.b: c\n") == "NotPaid: order 3: a.b: c"
    assert output.short_error("ValueError") == "ValueError"
    assert output.short_error("see www.example.org today") == "see www.example.org today"
    assert output.short_error(None) == ""


def test_a_table_in_a_pipe_is_never_cut_off(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table(["NAME", ">COUNT", "TEXT"], [["a" * 50, "7", "b" * 300], ["c", "10,000", ""]])
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        f"NAME{'':49}COUNT  TEXT",
        f"{'a' * 50}       7  {'b' * 300}",
        f"c{'':51}10,000",
    ]


@pytest.mark.parametrize("columns", [80, 120])
def test_on_a_terminal_lines_fit_and_ids_are_whole(tmp_path: Path, columns: int) -> None:
    app = Tickwork(f"sqlite:///{tmp_path}/tickwork.db")
    job = app.named("a_task_with_quite_a_long_name_that_goes_on_and_on_for_ever").options(key="k" * 99).enqueue()
    app.close()
    shown = _on_a_terminal(["jobs", "list"], tmp_path, columns)
    lines = shown.replace("\r", "").splitlines()
    assert max(len(line) for line in lines) <= columns
    assert job.id in shown
    assert "…" in shown


def test_colours_are_for_terminals_and_not_with_no_color(tmp_path: Path) -> None:
    app = Tickwork(f"sqlite:///{tmp_path}/tickwork.db")
    app.named("add").enqueue()
    app.close()
    assert "\x1b[33m" in _on_a_terminal(["jobs", "list"], tmp_path, 80, plain=False)
    assert "\x1b[33m" not in _on_a_terminal(["jobs", "list"], tmp_path, 80, plain=False, NO_COLOR="1")
    command = [sys.executable, "-m", "tickwork", "jobs", "list"]
    piped = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "\x1b" not in piped.stdout
    assert "\x1b[31m" in _on_a_terminal(["jobs", "show", "x"], tmp_path, 80, plain=False)
    assert "\x1b[31m" not in _on_a_terminal(["jobs", "show", "x"], tmp_path, 80, plain=False, NO_COLOR="1")


def test_an_encoding_that_lacks_a_character_gets_its_escape(tmp_path: Path) -> None:
    app = Tickwork(f"sqlite:///{tmp_path}/tickwork.db")
    app.named("→").enqueue()
    app.close()
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    command = [sys.executable, "-m", "tickwork", "jobs", "list"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, env=environment)
    assert "\\u2192" in result.stdout


def _on_a_terminal(arguments: list[str], folder: Path, columns: int, *, plain: bool = True, **environment: str) -> str:
    """What a command shows on a terminal of its own."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "tickwork", *arguments],
        cwd=folder,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "COLUMNS": str(columns), "TERM": "xterm-256color", **environment},
    )
    os.close(theirs)
    shown = io.BytesIO()
    try:
        while data := os.read(ours, 4096):
            shown.write(data)
    except OSError:  # the other end is closed
        pass
    process.wait(timeout=10)
    os.close(ours)
    text = shown.getvalue().decode()
    return _without_escapes(text) if plain else text


def _without_escapes(text: str) -> str:
    return clean_log(text.replace("\r\n", "\n"), colours=False)
