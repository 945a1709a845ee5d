"""Handlers tell what happens to them, in a file that outlives them: one line for each event, appended in one write."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from tickwork import CurrentJob, current_job


def tell(event: str, job: CurrentJob | None = None) -> None:
    job = job or current_job()
    line = f"{time.monotonic_ns()} {os.getpid()} {job.id} {job.attempt} {event}\n"
    descriptor = os.open(os.environ["WITNESS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


@dataclass(frozen=True)
class Event:
    at_ns: int
    pid: int
    job: str
    attempt: int
    event: str

    @property
    def key(self) -> tuple[str, int]:
        return self.job, self.attempt


class Witness:
    """Reads what handlers told."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.path.touch()

    def events(self, job: str | None = None, event: str | None = None) -> list[Event]:
        found = []
        for line in self.path.read_text().rpartition("\n")[0].splitlines():  # the last one may be half written
            at, pid, told_of, attempt, what = line.split(" ", 4)
            if job in (None, told_of) and (event is None or what.startswith(event)):
                found.append(Event(int(at), int(pid), told_of, int(attempt), what))
        return found

    def running(self) -> list[Event]:
        """The attempts that started and have not told of their end, the newest last. Some may be dead."""
        ended = {one.key for one in self.events(event="end")}
        return [one for one in self.events(event="start") if one.key not in ended]
