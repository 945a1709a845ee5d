"""Starts real workers, finds their processes, and kills them: each by its own pid, and only those started here."""

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.process.witness import Event, Witness
from tests.waiting import eventually
from tickwork import Job, Tickwork
from tickwork.worker.process.fork_server_main import CHILD_NAME, NAME

HERE = Path(__file__).parent
PATH = os.pathsep.join([str(HERE.parents[1]), str(HERE.parents[1] / "src")])  # the code that these tests belong to
LIBC = ctypes.CDLL(None)
TASKS = "tests.process.tasks"
_LOGS_SHOWN = 20  # of the workers of a test that failed


def die_with_the_tests() -> None:
    """Ask the kernel to kill this process when the tests end, also when they are killed themselves."""
    LIBC.prctl(1, signal.SIGKILL)


class WorkerProcess:
    """A `tickwork worker` of these tests: a supervisor, its fork server and its children."""

    def __init__(
        self, url: str, witness: Path, log: Path, target: str, options: list[str], hurry: dict[str, float]
    ) -> None:
        program = [str(HERE / "in_a_hurry.py"), json.dumps(hurry)] if hurry else ["-m", "tickwork", "worker"]
        environment = {**os.environ, "TICKWORK_URL": url, "WITNESS": str(witness), "PYTHONPATH": PATH}
        environment.pop("PYTHONUNBUFFERED", None)  # as most workers run: their console is a file or a pipe
        self.log = log
        self.descendants: set[int] = set()
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                [sys.executable, *program, target, *options],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env=environment,
                cwd=log.parent,
                start_new_session=True,
                preexec_fn=die_with_the_tests,  # noqa: PLW1509  # workers are started before any thread is
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def children(self) -> list[int]:
        """The children that run handlers, or are about to."""
        born = [pid for fork_server in self.fork_servers() for pid in children_of(fork_server)]
        found = [pid for pid in born if name_of(pid) == CHILD_NAME and not gone(pid)]
        self.descendants.update(found)
        return found

    def fork_servers(self) -> list[int]:
        """The process that the children are born in; none at all for a moment after it was killed."""
        return [pid for pid in children_of(self.pid) if name_of(pid) == NAME and not gone(pid)]

    def is_running(self) -> bool:
        return self.process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        """Kill the supervisor alone, with -9."""
        self.children()
        self.process.kill()
        self.process.wait(10)

    def kill_everything(self) -> None:
        """Kill supervisor and children at the same moment, as a machine that runs out of memory does."""
        pids = [self.pid, *self.children()]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        self.process.wait(10)

    def wait(self, within_s: float = 20.0) -> int:
        """The exit code of the supervisor."""
        return self.process.wait(within_s)

    def said(self) -> str:
        return self.log.read_text(errors="replace")


class Workers:
    """Starts workers for one test, and ends all of them after it."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.app = Tickwork(url)
        self.witness = Witness(folder / "witness.txt")
        self._folder = folder
        self.started: list[WorkerProcess] = []

    def start(
        self,
        *options: str,
        slots: int = 4,
        processes: int | str = 2,
        grace: str = "5s",
        lease_s: float | None = None,
        calm_s: float | None = None,
        target: str = TASKS,
        wait: bool = True,
    ) -> WorkerProcess:
        """Start a worker; unless told otherwise, return when it takes jobs.

        Its lease and the calm after which it shrinks may be shorter than any option makes them.
        """
        arguments = ["-c", str(slots), "--processes", str(processes), "--grace", grace, *options]
        log = self._folder / f"worker{len(self.started)}.log"
        hurry = {name: value for name, value in {"lease": lease_s, "calm": calm_s}.items() if value is not None}
        worker = WorkerProcess(self.url, self.witness.path, log, target, arguments, hurry)
        self.started.append(worker)
        if wait:
            self.wait_for(worker)
        return worker

    def wait_for(self, worker: WorkerProcess) -> None:
        def registered() -> bool:
            assert worker.is_running(), f"the worker ended: {worker.said()}"
            return any(one.pid == worker.pid and one.state == "running" for one in self.app.store.reads.workers())

        eventually(registered, 30, "a worker takes jobs")

    def job(self, task: str, *args: Any, **kwargs: Any) -> Job:
        return self.app.enqueue(task, *args, **kwargs)

    def witnessed(self, job: Job, event: str = "start", within_s: float = 20.0) -> Event:
        """Wait until a handler of the job told of the event, and return the last time it did."""
        events: list[Event] = eventually(lambda: self.witness.events(job.id, event), within_s, f"{event} of {job}")
        return events[-1]

    def close(self) -> None:
        for worker in self.started:
            if worker.is_running():
                worker.kill_everything()
            for pid in worker.descendants:
                if name_of(pid) == CHILD_NAME:
                    os.kill(pid, signal.SIGKILL)
        self.app.close()


@contextmanager
def workers_on(url: str, folder: Path) -> Iterator[Workers]:
    """Start workers on a store while the block runs; then end them, and print their last logs."""
    workers = Workers(url, folder)
    yield workers
    workers.close()
    for worker in workers.started[-_LOGS_SHOWN:]:
        print(f"--- worker {worker.pid}: {worker.said()[-3000:]}")


def create_counter(url: str) -> None:
    """Create our schema and the table that the task `counts` writes to."""
    app = Tickwork(url, upgrade=True)
    with app.connection() as tx:
        tx.execute("CREATE TABLE counter (n INTEGER)")
        tx.execute("INSERT INTO counter VALUES (0)")
    app.close()


def settled(jobs: list[Job], within_s: float, state: str = "succeeded") -> None:
    """Wait until every job ended in this way, and fail at once when one ended in another."""
    waiting = {job.id: job for job in jobs}

    def all_ended() -> bool:
        for id, job in list(waiting.items()):
            view = job.view
            if view.state.ended:
                assert view.state == state, f"job {id} ended as {view.state}: {view.error}"
                del waiting[id]
        return not waiting

    eventually(all_ended, within_s, f"all {len(jobs)} jobs ended")


def consistent(job: Job) -> None:
    """The result of a job is that of its last attempt, and no earlier one was accepted."""
    attempts = job.attempts()
    assert [one.number for one in attempts] == list(range(1, len(attempts) + 1))
    assert [one.state for one in attempts].count("succeeded") == 1  # type: ignore[comparison-overlap]
    assert attempts[-1].state == "succeeded"
    assert job.result()["attempt"] == job.attempt == len(attempts)


def gone(pid: int) -> bool:
    """Whether a process has ended (a zombie has)."""
    return state_of(pid) in ("", "Z")


def children_of(parent: int) -> list[int]:
    return [pid for pid in pids() if stat_of(pid)[1:2] == [str(parent)]]


def pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def state_of(pid: int) -> str:
    return "".join(stat_of(pid)[:1])


def stat_of(pid: int) -> list[str]:
    """The fields of a process after its name: state, parent, group and so on."""
    return read(f"/proc/{pid}/stat").rpartition(")")[2].split()


def command_of(pid: int) -> str:
    return read(f"/proc/{pid}/cmdline").replace("\0", " ")


def name_of(pid: int) -> str:
    return read(f"/proc/{pid}/comm").strip()


def read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""
