"""Workers in bash, Node and C, as they stand in examples/workers, against a real server."""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cli.programs import program
from tests.waiting import eventually
from tests.worker.job_helpers import output_of
from tickwork import Job, Tickwork

pytestmark = pytest.mark.process

EXAMPLES = Path(__file__).parents[2] / "examples" / "workers"
TOKEN = "a-token-of-these-tests"
LEASE_S = 3


class Language(NamedTuple):
    """The command of an example, and a job that only it can run."""

    tools: tuple[str, ...]
    command: Callable[[Path], list[str]]
    task: str
    args: dict[str, Any]
    result: Any
    line: str
    bad: dict[str, Any]


def _compiled(folder: Path) -> list[str]:
    worker = folder / "worker"
    subprocess.run(
        ["cc", "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(worker), str(EXAMPLES / "worker.c")],
        check=True,
        timeout=60,
    )
    return [str(worker)]


LANGUAGES = {
    "bash": Language(
        ("bash", "curl", "sha256sum"),
        lambda folder: ["bash", str(EXAMPLES / "worker.sh")],
        "checksum",
        {"text": "hello"},
        {"sha256": "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"},
        "summing up\n",
        {},
    ),
    "node": Language(
        ("node",),
        lambda folder: ["node", str(EXAMPLES / "worker.mjs")],
        "words",
        {"text": "any language\ncan do it, even \N{SNOWMAN}"},
        {"words": 7},
        "counting\n",
        {"text": 7},
    ),
    "c": Language(
        ("cc",),
        _compiled,
        "primes",
        {"below": 1000},
        {"count": 168},
        "counting below 1000\n",
        {"above": 3},
    ),
}


@pytest.fixture(params=LANGUAGES)
def language(request: pytest.FixtureRequest) -> Language:
    found = LANGUAGES[request.param]
    missing = [tool for tool in found.tools if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"NOT TESTED: the worker in {request.param} needs {', '.join(missing)}, which is not here.")
    return found


Start = Callable[[], AbstractContextManager["RestWorker"]]


class RestWorker:
    """A running example."""

    def __init__(self, command: list[str], log: Path, api: str) -> None:
        self._log = log
        environment = {"TICKWORK_API": api, "TICKWORK_TOKEN": TOKEN, "TICKWORK_LEASE": str(LEASE_S)}
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                [*command, "work"],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        return self._log.read_text()

    def says(self, text: str) -> None:
        eventually(lambda: text in self.said or self.process.poll() is not None, 20, f"{text!r} in what it said")
        assert text in self.said, self.said

    def signal(self, number: int) -> None:
        """Send a signal to it and to whatever it has started that is still in its session's first group."""
        os.killpg(self.process.pid, number)


@pytest.fixture
def api(app: Tickwork, tmp_path: Path) -> Iterator[str]:
    """The address of a server."""
    with program(tmp_path, "server", "--dev", "--port", "0", TICKWORK_URL=app.url, TICKWORK_TOKEN=TOKEN) as server:
        server.says("server     http://")
        found = re.search(r"http://127\.0\.0\.1:\d+", server.said)
        assert found
        yield found[0]
        assert "Traceback" not in server.said, server.said
        server.end()


@pytest.fixture
def start(language: Language, api: str, tmp_path: Path) -> Start:
    command = language.command(tmp_path)
    numbers = iter(range(100))

    @contextmanager
    def start() -> Iterator[RestWorker]:
        worker = RestWorker(command, tmp_path / f"worker-{next(numbers)}.log", api)
        try:
            worker.says("waiting for jobs in work")
            yield worker
        finally:
            for number in (signal.SIGCONT, signal.SIGKILL):
                with suppress(ProcessLookupError):
                    worker.signal(number)
            worker.process.wait(10)

    return start


def enqueue(app: Tickwork, task: str, args: dict[str, Any], **options: Any) -> Job:
    return app.named(task).options(queue="work", **options).enqueue(**args)


def test_it_does_jobs_and_says_how_they_ended(app: Tickwork, language: Language, start: Start) -> None:
    with start() as worker:
        good = enqueue(app, language.task, language.args)
        assert good.result(timeout=20) == language.result
        assert output_of(good) == language.line
        bad = enqueue(app, language.task, language.bad, retries=0)
        if bad.wait(timeout=20) == "failed":
            assert bad.error
        else:
            assert language.bad == {}, "an empty text has a checksum, too"
        nobodys = enqueue(app, "unknown", {})
        after = enqueue(app, language.task, language.args)
        assert after.result(timeout=20) == language.result
        assert nobodys.state == "queued", "it asks for the tasks alone that it knows"
        worker.process.send_signal(signal.SIGTERM)
        assert worker.process.wait(5) == 0
        worker.says("stopped")


def test_a_job_longer_than_its_lease_is_kept_by_heartbeats(app: Tickwork, start: Start) -> None:
    with start():
        nap = enqueue(app, "nap", {"seconds": LEASE_S * 2.5})
        assert nap.result(timeout=30) is None
        assert nap.attempt == 1
        assert output_of(nap) == "napping\n"


def test_the_job_of_a_worker_that_was_killed_is_done_by_another(app: Tickwork, start: Start) -> None:
    with start() as first:
        nap = enqueue(app, "nap", {"seconds": 1})
        first.says(nap.id)  # one that has not heard of it by then, and is gone, has it given back at once
        first.signal(signal.SIGKILL)
        with start():
            assert nap.result(timeout=30) is None
    assert [one.state.value for one in nap.attempts()] == ["lost", "succeeded"]


def test_a_worker_that_slept_through_its_lease_cannot_end_the_job(app: Tickwork, start: Start) -> None:
    with start() as late:
        nap = enqueue(app, "nap", {"seconds": 2})
        late.says(nap.id)
        late.signal(signal.SIGSTOP)
        with start() as prompt:
            eventually(lambda: nap.state == "running" and nap.attempt == 2, 30)
            prompt.says(nap.id)
            assert nap.result(timeout=30) is None
            late.signal(signal.SIGCONT)
            late.says("holds no lease over REST")
    assert [one.state.value for one in nap.attempts()] == ["lost", "succeeded"]


def test_a_worker_that_is_told_to_stop_gives_back_what_takes_too_long(app: Tickwork, start: Start) -> None:
    with start() as worker:
        nap = enqueue(app, "nap", {"seconds": 60}, retries=0)
        worker.says(nap.id)
        worker.process.send_signal(signal.SIGTERM)
        assert worker.process.wait(15) == 0
    assert nap.state == "queued"
    assert [one.state.value for one in nap.attempts()] == ["released"]
    assert nap.view.failures == 0


def test_a_cancelled_job_is_stopped(app: Tickwork, start: Start) -> None:
    with start() as worker:
        nap = enqueue(app, "nap", {"seconds": 60})
        eventually(lambda: nap.state == "running", 20)
        assert nap.cancel()
        assert nap.wait(timeout=20) == "cancelled"
        again = enqueue(app, "nap", {"seconds": 0})
        assert again.result(timeout=20) is None, worker.said
