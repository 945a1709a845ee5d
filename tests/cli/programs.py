"""`tickwork` as a program of its own: started, read while it runs, and told to stop."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.waiting import eventually


class Program:
    """A running `tickwork` command. What it writes goes to one file."""

    def __init__(self, folder: Path, arguments: list[str], environment: dict[str, str]) -> None:
        self._log = folder / f"program-{len(list(folder.iterdir()))}.log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tickwork", *arguments],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        return self._log.read_text()

    def says(self, text: str, times: int = 1, within_s: float = 20.0) -> None:
        """Wait until it has printed a text that many times."""
        eventually(
            lambda: self.said.count(text) >= times or self.process.poll() is not None,
            within_s,
            f"{text!r} in what it said",
        )
        assert self.said.count(text) >= times, self.said

    def end(self, number: int = signal.SIGTERM, within_s: float = 15.0) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(within_s)

    def tree(self) -> set[int]:
        """The processes of it that live, itself included, wherever they moved their session."""
        return descendants(self.process.pid)


@contextmanager
def program(folder: Path, *arguments: str, **environment: str) -> Iterator[Program]:
    """Start one; whatever the test does, nothing of it is left afterwards."""
    made = Program(folder, list(arguments), environment)
    try:
        yield made
    finally:
        for pid in made.tree():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        made.process.wait(10)


def descendants(root: int) -> set[int]:
    """A process and everything below it, as far as it lives."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] != "Z":
                parents[int(entry.name)] = int(fields[1])
    found = {root} & parents.keys()
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def gone(pids: set[int], within_s: float = 10.0) -> None:
    """Wait until none of these processes lives."""
    eventually(lambda: not any(descendants(pid) for pid in pids), within_s, f"{pids} have ended")
