"""The output and logs of a handler are stored with its attempt alone, also while it runs."""

import asyncio
import io
import logging
import sys
import threading

import pytest

from tests.waiting import eventually
from tests.worker.job_helpers import output_of
from tickwork import Tickwork, current_job
from tickwork.worker.run.capture import LOG_LIMIT, OutputSink


def test_stdout_stderr_and_logging_are_kept_in_order(app: Tickwork, capsys: pytest.CaptureFixture[str]) -> None:
    @app.task
    def work() -> None:
        print("to stdout")
        print("to stderr", file=sys.stderr)
        logging.getLogger("shop").warning("to a %s", "logger")
        current_job().logger.info("by the job's own")
        sys.stdout.write("no newline")

    with app.worker():
        job = work.enqueue()
        job.result(timeout=10)
        assert output_of(job) == (
            "to stdout\nto stderr\nWARNING shop: to a logger\nINFO tickwork.task.work: by the job's own\nno newline"
        )
    shown = capsys.readouterr()
    assert "to stdout" in shown.out, "a print is still a print"
    assert "to stderr" in shown.err


def test_attempts_are_apart(app: Tickwork) -> None:
    @app.task(retries=2, backoff="1ms")
    def work() -> None:
        print(f"attempt {current_job().attempt}")
        if current_job().attempt < 3:
            raise ConnectionError

    with app.worker():
        job = work.enqueue()
        job.result(timeout=10)
    assert [output_of(job, n) for n in (1, 2, 3)] == ["attempt 1\n", "attempt 2\n", "attempt 3\n"]
    (*_, last) = [chunk.seq for chunk in job.logs() if chunk.attempt == 1]
    assert {chunk.attempt for chunk in job.logs(after=(1, last))} == {2, 3}
    assert [chunk.attempt for chunk in job.logs(limit=1)] == [1]


def test_jobs_at_the_same_time_are_apart(app: Tickwork) -> None:
    everybody = threading.Barrier(4)

    @app.task
    def plain(name: str) -> None:
        for line in range(50):
            everybody.wait(10)
            print(f"{name} {line}")

    @app.task
    async def on_the_loop(name: str) -> None:
        for line in range(50):
            print(f"{name} {line}")
            await asyncio.sleep(0)

    with app.worker(concurrency=20):
        jobs = {name: plain.enqueue(name) for name in "abcd"} | {name: on_the_loop.enqueue(name) for name in "efgh"}
        for name, job in jobs.items():
            job.result(timeout=20)
            assert output_of(job) == "".join(f"{name} {line}\n" for line in range(50))


def test_output_is_readable_while_it_runs(app: Tickwork) -> None:
    go_on = threading.Event()

    @app.task
    def work() -> None:
        print("first")
        go_on.wait(20)
        print("second")

    with app.worker():
        job = work.enqueue()
        eventually(lambda: output_of(job) == "first\n")
        assert job.state == "running"
        go_on.set()
        job.result(timeout=10)
        assert output_of(job) == "first\nsecond\n"


def test_output_of_a_failed_attempt_is_kept(app: Tickwork) -> None:
    @app.task(retries=0)
    def work() -> None:
        print("so far so good")
        raise ValueError

    with app.worker():
        job = work.enqueue()
        assert job.wait(timeout=10) == "failed"
        assert output_of(job) == "so far so good\n"


def test_output_of_a_transactional_handler_is_kept_when_it_ends_and_when_it_fails(app: Tickwork) -> None:
    @app.task(transactional=True, retries=1, backoff="1ms")
    def work(tx: object) -> None:
        print("x" * 10_000)
        print(f"attempt {current_job().attempt}")
        if current_job().attempt == 1:
            raise ConnectionError

    with app.worker():
        job = work.enqueue()
        job.result(timeout=10)
    for n in (1, 2):
        assert output_of(job, n) == "x" * 10_000 + f"\nattempt {n}\n"


def test_much_output_is_kept_whole(app: Tickwork) -> None:
    @app.task
    def work() -> None:
        for n in range(20_000):
            print(f"line {n}")

    with app.worker():
        job = work.enqueue()
        job.result(timeout=20)
        assert output_of(job) == "".join(f"line {n}\n" for n in range(20_000))


def test_what_no_store_can_hold_is_escaped(app: Tickwork, monkeypatch: pytest.MonkeyPatch) -> None:
    @app.task
    def work() -> None:
        print("NUL \0, half a pair \ud800, a duck 🦆")

    monkeypatch.setattr(sys, "stdout", io.StringIO())  # pytest-xdist cannot send half a pair to its other half
    with app.worker():
        job = work.enqueue()
        job.result(timeout=10)
        assert output_of(job) == "NUL \\0, half a pair \\ud800, a duck 🦆\n"


def test_a_handler_finds_the_standard_streams_as_it_knows_them(
    app: Tickwork, capfd: pytest.CaptureFixture[str]
) -> None:
    @app.task
    def work() -> list[object]:
        sys.stdout.buffer.write(b"raw bytes\n")
        sys.stdout.flush()
        return [sys.stdout.encoding.lower(), sys.stdout.isatty(), sys.stdout.writable(), sys.stdout.closed]

    with app.worker():
        assert work.enqueue().result(timeout=10) == ["utf-8", False, True, False]
    assert "raw bytes" in capfd.readouterr().out


def test_outside_of_handlers_nothing_is_caught(app: Tickwork) -> None:
    @app.task
    def work() -> None: ...

    stdout = sys.stdout
    with app.worker():
        print("not a handler's")
        job = work.enqueue()
        job.result(timeout=10)
    assert job.logs() == []
    assert sys.stdout is stdout


def test_more_than_the_cap_is_cut_off_once() -> None:
    kept: list[str] = []
    sink = OutputSink(lambda seq, text: kept.append(text), lambda sink: None)
    for _ in range(12):
        sink.write("x" * 1024 * 1024)
    sink.flush()
    text = "".join(kept)
    assert len(text) < LOG_LIMIT + 200
    assert text.count("the rest is not kept") == 1


def test_a_print_into_a_broken_pipe_is_kept_and_hurts_no_other(app: Tickwork, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    @app.task(retries=0)
    def work() -> None:
        print("heard")

    monkeypatch.setattr(sys, "stdout", Broken())
    with app.worker():
        job = work.enqueue()
        job.result(timeout=10)
    assert output_of(job) == "heard\n"
