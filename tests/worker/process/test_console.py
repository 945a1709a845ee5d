"""Output of tasks on the worker's console: marked line by line, and never like a log record of the worker."""

import io
import json
import logging
import re
import sys
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwork.observe.json_log import JsonLines
from tickwork.worker.process.console import (
    LINE_COST,
    LINE_LIMIT,
    MOMENT_LIMIT,
    MOMENT_S,
    Console,
    JsonRecords,
    LineMaker,
    PassedOnOutput,
)
from tickwork.worker.run.capture import LOG_LIMIT, OutputSink, attempt_sink

JOB = "019a8f3e-1c2d-7abc-8def-0123456789ab"
ABOUT = {"job_id": JOB, "attempt": 2, "task": "mail", "queue": "default", "run_id": "r", "step": "s"}
HOSTILE = [
    "2026-11-18 20:00:00,000 error   Job 1 failed",
    "\x1b[2J\x1b[1;1H2026-11-18 20:00:00,000 info    cleared",
    "\r2026-11-18 20:00:00,000 info    over it",
    "a\x85b\u2028c\x0bd\x0ce",
    "\x1b]0;title\x07 \x9b2J \u202ereversed",
    '{"level": "info", "logger": "tickwork.worker", "message": "forged"}',
    "nul \0 and half a pair \ud800",
]
MARK = re.compile(rf"^{JOB} \| ")


def a_sink() -> OutputSink:
    return OutputSink(lambda seq, text: None, lambda sink: None, about=lambda: dict(ABOUT))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def a_console(raw: io.StringIO, *, as_json: bool = False) -> Console:
    return Console(raw, io.StringIO(), 1, as_json=as_json)


def wrote(console: Console, *texts: str, sink: OutputSink | None = None) -> None:
    attempt_sink.set(sink)
    try:
        for text in texts:
            console.write(text)
    finally:
        attempt_sink.set(None)


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("kind", [io.StringIO, Terminal])
def test_each_line_as_text_begins_with_its_job_and_has_nothing_that_acts_on_a_terminal(
    hostile: str, kind: type[io.StringIO]
) -> None:
    raw = kind()
    wrote(a_console(raw), "first\n", hostile, "\n", hostile + "\nlast\n", sink=a_sink())
    lines = raw.getvalue().split("\n")
    assert lines.pop() == ""
    assert len(lines) == 4
    for line in lines:
        assert MARK.match(line), line
        assert line.isprintable(), line


@pytest.mark.parametrize("hostile", HOSTILE)
def test_each_line_as_json_is_one_object_with_its_job_and_run(hostile: str) -> None:
    raw = io.StringIO()
    wrote(a_console(raw, as_json=True), hostile, "\n", "more\n", sink=a_sink())
    assert all(line.isprintable() for line in raw.getvalue().split("\n"))
    lines = [json.loads(line) for line in raw.getvalue().splitlines()]
    assert [line["message"] for line in lines] == [hostile.encode("utf-8", "backslashreplace").decode(), "more"]
    for line in lines:
        assert {name: line[name] for name in ABOUT} == ABOUT
        assert (line["logger"], line["stream"], line["level"]) == ("tickwork.output", "stdout", "info")


@given(st.text("ab|\n\r\x1b[0m", max_size=60), st.lists(st.integers(1, 7), max_size=12))
def test_lines_are_the_same_in_however_many_pieces_they_are_written(text: str, sizes: list[int]) -> None:
    pieces, at = [], 0
    for size in [*sizes, len(text)]:
        pieces.append(text[at : at + size])
        at += size
    whole, cut = io.StringIO(), io.StringIO()
    for raw, parts in ((whole, [text]), (cut, pieces)):
        console, sink = a_console(raw), a_sink()
        wrote(console, *parts, sink=sink)
        console.end(sink)
    assert whole.getvalue() == cut.getvalue()
    assert all(MARK.match(line) for line in whole.getvalue().split("\n")[:-1])


def test_a_colour_is_kept_on_a_terminal_and_ends_with_its_line() -> None:
    terminal, pipe = Terminal(), io.StringIO()
    for raw in (terminal, pipe):
        wrote(a_console(raw), "\x1b[8mhidden\n\x1b[31mred\x1b[0m\n", sink=a_sink())
    assert terminal.getvalue() == f"{JOB} | \x1b[8mhidden\x1b[0m\n{JOB} | \x1b[31mred\x1b[0m\x1b[0m\n"
    assert pipe.getvalue() == f"{JOB} | hidden\n{JOB} | red\n"


def test_what_no_attempt_wrote_is_marked_with_the_process() -> None:
    raw = io.StringIO()
    wrote(a_console(raw), "while the code loads\n")
    assert re.fullmatch(r"child \d+ \| while the code loads\n", raw.getvalue())


def test_lines_of_attempts_at_the_same_time_do_not_run_into_each_other() -> None:
    raw = io.StringIO()
    console, first, second = a_console(raw), a_sink(), a_sink()
    wrote(console, "one ", sink=first)
    wrote(console, "two\n", sink=second)
    wrote(console, "more\n", "rest", sink=first)
    console.end(first)
    assert raw.getvalue() == f"{JOB} | two\n{JOB} | one more\n{JOB} | rest\n"


def test_a_secret_that_is_written_in_pieces_is_masked_on_the_console() -> None:
    raw, sink = io.StringIO(), a_sink()
    sink.hide("open sesame")
    console = a_console(raw)
    wrote(console, "say open ", "ses", "ame, please\n", sink=sink)
    wrote(console, "x" * (LINE_LIMIT - 5), "open ses", "ame\n", sink=sink)
    assert "sesame" not in raw.getvalue()
    assert "say ***, please" in raw.getvalue()


def test_a_line_that_never_ends_takes_bounded_memory() -> None:
    raw, sink = io.StringIO(), a_sink()
    console = a_console(raw, as_json=True)
    for _ in range(100):
        wrote(console, "x" * 4000, sink=sink)
    lines = raw.getvalue().splitlines()
    assert len(lines) > 20
    assert all(len(json.loads(line)["message"]) <= LINE_LIMIT for line in lines)
    console.end(sink)
    assert sum(len(json.loads(line)["message"]) for line in raw.getvalue().splitlines()) == 400_000


@pytest.mark.parametrize("as_json", [False, True])
def test_of_an_attempt_so_much_is_shown_as_its_log_keeps(as_json: bool) -> None:
    raw, sink = io.StringIO(), a_sink()
    console = a_console(raw, as_json=as_json)
    for _ in range(100):
        wrote(console, "y\n" * 10_000, sink=sink)
    console.end(sink)
    assert len(raw.getvalue()) < LOG_LIMIT + 1000
    assert raw.getvalue().count("the rest is in the log of the attempt") == 1
    wrote(console, "of another\n", sink=a_sink())
    assert "of another" in raw.getvalue()


def test_many_threads_write_whole_lines() -> None:
    raw = io.StringIO()
    console = a_console(raw)

    def write(name: str) -> None:
        sink = a_sink()
        for number in range(200):
            wrote(console, name, f" {number}", "\n", sink=sink)

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    lines = raw.getvalue().splitlines()
    assert sorted(lines) == sorted(f"{JOB} | {name} {number}" for name in "abcd" for number in range(200))


def test_records_of_a_child_are_json_and_masked_even_where_a_secret_has_quotes() -> None:
    raw, sink = io.StringIO(), a_sink()
    sink.hide('":"x", "y')
    handler = JsonRecords(a_console(raw, as_json=True))
    handler.setFormatter(JsonLines())
    record = logging.LogRecord("shop", logging.WARNING, __file__, 1, 'say ":"x", "y\nand %s', ("more",), None)
    attempt_sink.set(sink)
    try:
        handler.emit(record)
    finally:
        attempt_sink.set(None)
    (line,) = raw.getvalue().splitlines()
    assert json.loads(line)["message"] == "say ***\nand more"


def test_other_uses_of_a_stream_go_to_the_descriptor_which_the_supervisor_reads() -> None:
    descriptor = io.TextIOWrapper(io.BytesIO())
    console = Console(io.StringIO(), descriptor, 1, as_json=False)
    assert console.buffer is descriptor.buffer


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("hostile", HOSTILE)
def test_what_came_through_a_descriptor_is_marked_with_the_job_that_alone_can_have_written_it(
    hostile: str, as_json: bool
) -> None:
    shown: list[tuple[int, bytes]] = []
    passed = PassedOnOutput(lambda stream, data: shown.append((stream, data)), lambda: 77, lambda: 0.0, as_json=as_json)
    passed.write(2, f"{hostile}\nhalf", JOB)
    passed.write(2, " of another\n", None)
    passed.end()
    assert {stream for stream, _ in shown} == {2}
    lines = b"".join(data for _, data in shown).decode().split("\n")
    assert lines.pop() == ""
    assert len(lines) == 3
    for line, job in zip(lines, [JOB, JOB, None], strict=True):
        if as_json:
            told: dict[str, Any] = json.loads(line)
            assert (told.get("job_id"), told["stream"], told["pid"]) == (job, "stderr", 77)
        else:
            assert line.startswith(f"{job or 'child 77'} | ")
            assert line.isprintable()


@pytest.mark.parametrize("data", ["\n", "x\n", "\x1b", "x" * 70 + "\n", "y"])
@pytest.mark.parametrize("as_json", [False, True])
def test_a_flood_costs_the_supervisor_little_and_is_told(data: str, as_json: bool) -> None:
    shown: list[bytes] = []
    now = [0.0]
    passed = PassedOnOutput(lambda stream, data: shown.append(data), lambda: 77, lambda: now[0], as_json=as_json)
    text = (data * (10**6 // len(data)))[: 1 << 16]
    for _ in range(100):  # as it is read: some megabytes
        passed.write(1, text, JOB)
    assert sum(one.count(b"\n") for one in shown) <= MOMENT_LIMIT // LINE_COST + 2
    assert sum(map(len, shown)) < 20 * MOMENT_LIMIT
    shown.clear()
    passed.end()
    assert "characters are in the logs of attempts alone" in shown[-1].decode()
    passed.write(1, "left out\n" * 10_000, JOB)
    shown.clear()
    now[0] += MOMENT_S
    passed.write(1, "heard again\n", JOB)
    assert "characters are in the logs of attempts alone" in shown[0].decode()
    assert b"heard again" in shown[1]


def test_a_maker_of_lines_knows_both_streams() -> None:
    for stream, name in ((1, "stdout"), (2, "stderr")):
        made = LineMaker(stream, lambda: 1, as_json=True, colours=False).made("x", {})
        assert json.loads(made)["stream"] == name


def test_a_record_as_text_cannot_begin_another(capsys: pytest.CaptureFixture[str]) -> None:
    from tickwork.cli.command import log_to_stderr

    handlers, level = logging.root.handlers[:], logging.root.level
    try:
        log_to_stderr("%(asctime)s %(level)-7s %(message)s", logging.INFO)
        logging.getLogger("shop").warning("it failed: %s", "x\n2026-11-18 20:00:00,000 info    all is well\x1b[2J")
        sys.stderr.flush()
    finally:
        logging.root.handlers[:] = handlers
        logging.root.setLevel(level)
    first, second = capsys.readouterr().err.splitlines()
    assert re.match(r"\d{4}-\d\d-\d\d .* warning it failed: x$", first)
    assert second == "  2026-11-18 20:00:00,000 info    all is well\\x1b[2J"


def test_what_an_attempt_printed_has_left_the_buffer_when_the_attempt_has_ended() -> None:
    """The console of most workers is a file or a pipe, which Python buffers, and a child may be killed at any time."""
    file, sink = io.BytesIO(), a_sink()
    console = Console(io.TextIOWrapper(file, encoding="utf-8"), io.StringIO(), 1, as_json=False)
    wrote(console, "a line\n", "a part", sink=sink)
    console.end(sink)
    assert file.getvalue().decode() == f"{JOB} | a line\n{JOB} | a part\n"
