"""A pool of child processes without a worker, and the messages that they sent."""

import time
from pathlib import Path
from typing import Any

from tests.waiting import eventually
from tickwork.clock import SystemClock
from tickwork.worker.ipc.protocol import Assignment, AttemptsEnded, ChildDied, FromExecutor
from tickwork.worker.process.child_handle import Child
from tickwork.worker.process.child_pool import ChildPool
from tickwork.worker.process.child_starter import ChildSetup

TASKS = """
import os, time
from tickwork import Tickwork

app = Tickwork("sqlite:///unused.db")

@app.task
def work(seconds: float = 0.0) -> int:
    time.sleep(seconds)
    return os.getpid()

@app.task
def chats(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        print("still here", flush=True)
        time.sleep(0.02)

@app.task
def writes() -> None:
    print("x" * 100_000)
"""


def assignment(number: int, task: str = "work", args: str = "{}", spot: int | None = None) -> Assignment:
    now = time.monotonic()
    return Assignment(f"job{number}", 1, 1, task, "default", args.encode(), None, (), (), 0, 0, now, spot=spot)


class Pool:
    """Some children, and everything that they said."""

    def __init__(self, file: Path, processes: int = 1, slots: int = 2, solo_limit: int = 1) -> None:
        self.children = ChildPool(
            ChildSetup(general=[str(file)] * processes, slots=slots),
            SystemClock(),
            target_of=lambda task: str(file),
            solo_tasks=(),
            solo_limit=solo_limit,
        )
        self.heard: list[FromExecutor | ChildDied] = []

    def listen(self) -> list[FromExecutor | ChildDied]:
        self.heard += [message for _, message in self.children.poll()]
        self.children.tend(time.monotonic())
        return self.heard

    def hears(self, kind: type[Any], count: int = 1, within_s: float = 10.0) -> list[Any]:
        def found() -> list[Any]:
            return [message for message in self.listen() if isinstance(message, kind)]

        return eventually(lambda: len(messages := found()) >= count and messages, within_s, f"{count} {kind.__name__}")

    def ended(self, count: int) -> dict[str, Any]:
        """Wait for `count` ends; return them by job."""

        def ends() -> dict[str, Any]:
            return {end.job_id: end for said in self.listen() if isinstance(said, AttemptsEnded) for end in said.ends}

        return eventually(lambda: len(found := ends()) >= count and found, 10, f"{count} ends")

    @property
    def all(self) -> list[Child]:
        # Tests kill single children; the pool has no public list of them.
        return self.children._children
