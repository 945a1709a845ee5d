"""Workers that run commands, killed with -9 at random moments and drained: no command outlives them."""

import os
import random
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.cli.programs import Program, gone, program
from tests.process.harness import children_of, name_of, pids, read, state_of
from tests.waiting import eventually
from tickwork import Tickwork
from tickwork.worker.process.fork_server_main import CHILD_NAME

pytestmark = pytest.mark.process

ROUNDS, COMMANDS = 12, 24


def of(mark: str) -> list[int]:
    """Return the living processes that have this mark in their environment."""
    return [pid for pid in pids() if mark in read(f"/proc/{pid}/environ") and state_of(pid) not in ("", "Z")]


@pytest.fixture
def marks() -> Iterator[list[str]]:
    """Marks of commands; what has one of them does not outlive the test, whatever becomes of it."""
    marks: list[str] = []
    yield marks
    for pid in [pid for mark in marks for pid in of(mark)]:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.timeout(240)
def test_kills_at_random_moments_leave_no_command(store_url: str, tmp_path: Path, marks: list[str]) -> None:
    """Each round kills while commands are being started: behind the gate, just told to the guard, or running."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    rng, app = random.Random(seed), Tickwork(store_url)
    seen = 0
    for _ in range(ROUNDS):
        mark = f"mark{uuid.uuid4().hex}"
        marks.append(mark)
        shell = app.named("shell").options(retries=0, on_lost="fail", labels=[mark])
        shells = ("worker", "--allow-shell", "-c", "12", "--processes", "2")
        with program(tmp_path, *shells, TICKWORK_URL=app.url) as worker:
            worker.says("pid  ")
            shell.enqueue_many([{"command": "sleep 600 & sleep 600", "env": {"MARK": mark}}] * COMMANDS)
            eventually(lambda mark=mark: of(mark), 20, "commands run")
            time.sleep(rng.uniform(0, 0.05))  # the random moment
            seen += len(of(mark))
            worker.process.kill()
            worker.process.wait(10)
            eventually(lambda mark=mark: not of(mark), 5, "no command outlives its worker")
        app.cancel(label=mark)
    app.close()
    print(f"{seen} commands were seen running")
    assert seen >= ROUNDS


def test_a_drained_worker_ends_its_commands_and_gives_the_jobs_back(store_url: str, tmp_path: Path) -> None:
    app = Tickwork(store_url)
    with _worker(tmp_path, app) as worker:
        quick = app.named("shell").enqueue(command="sleep 1; echo done")
        slow = app.named("shell").enqueue(command="trap '' TERM; sleep 600 & wait; wait")
        eventually(lambda: (quick.state, slow.state) == ("running", "running"), 20)
        eventually(lambda: len(worker.tree()) >= 7, 20, "both commands have begun")
        tree = worker.tree()
        assert worker.end(signal.SIGTERM) == 0
        assert quick.result(timeout=5)["stdout"] == "done\n"
        assert slow.state == "queued"
        assert [one.state for one in slow.attempts()] == ["released"]
        gone(tree)
    app.close()


def test_a_worker_that_lives_leaves_nothing_of_what_ended(store_url: str, tmp_path: Path) -> None:
    """A guard and its groups cost nothing in the long run: processes, pipes and threads are all given back."""
    app = Tickwork(store_url)
    with _worker(tmp_path, app) as worker:
        shell = app.named("shell").options(retries=0)
        shell.enqueue(command="true").result(timeout=20)
        (child,) = {pid for pid in worker.tree() if name_of(pid) == CHILD_NAME}
        before = _holds(child)
        jobs = shell.enqueue_many([{"command": f"sleep 0.01 & exit {n % 2}"} for n in range(200)])
        for job in jobs:
            job.wait(timeout=30)
        assert {job.state for job in jobs} == {"succeeded", "failed"}
        eventually(
            lambda: _holds(child) <= (before[0] + 4, before[1] + 1), 5, f"as few files and processes as {before}"
        )
    app.close()


def _worker(folder: Path, app: Tickwork) -> AbstractContextManager[Program]:
    shells = ("worker", "--allow-shell", "-c", "4", "--processes", "1", "--grace", "3s")
    return program(folder, *shells, TICKWORK_URL=app.url)


def _holds(pid: int) -> tuple[int, int]:
    """Return the number of open files and child processes of a process."""
    return len(os.listdir(f"/proc/{pid}/fd")), len(children_of(pid))
