"""Enqueues at a steady rate, from a process of its own: what it costs is no part of what is measured.

Each batch leaves a line: the number of its first job, and when `enqueue_many` was about to be called. A batch that is
late is sent at once, so that the rate holds on the whole.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.tasks import make_app
from bench.worker import ROOT, BenchFailed

_LATE_LIMIT_S = 60.0  # beyond the time that it should take


class Feeder:
    """A running feeder, and what it says of itself."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path, seconds: float) -> None:
        self._process = process
        self._folder = folder
        self._seconds = seconds

    def join(self) -> None:
        """Wait until everything is enqueued. Raises BenchFailed."""
        try:
            code = self._process.wait(self._seconds + _LATE_LIMIT_S)
        except subprocess.TimeoutExpired:
            raise BenchFailed(f"The feeder was not done {_LATE_LIMIT_S:.0f} s after its time.") from None
        if code:
            raise BenchFailed(f"The feeder failed.\n{(self._folder / 'feeder.log').read_text()[-2000:]}")

    def sent_ns(self, batch: int) -> array[int]:
        """When each job was sent, by its number."""
        sent = array("q")
        for line in (self._folder / "sent").read_text().splitlines():
            sent.extend([int(line.split(" ")[1])] * batch)
        return sent

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def feeding(url: str, folder: Path, task: str, per_s: float, batch: int, seconds: float) -> Iterator[Feeder]:
    """A feeder at work; at the end of the block it is gone."""
    arguments = [url, task, str(per_s), str(batch), str(seconds)]
    with (folder / "feeder.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.feeder", *arguments],
            cwd=folder,  # by which the guard of the folder finds it when we are killed
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    feeder = Feeder(process, folder, seconds)
    try:
        yield feeder
    finally:
        feeder.end()


def paced(seconds: float, per_s: float) -> Iterator[int]:
    """Numbers from 0 on, evenly spaced in time."""
    began = time.monotonic()
    for number in range(round(seconds * per_s)):
        time.sleep(max(0.0, began + number / per_s - time.monotonic()))
        yield number


def _feed(url: str, task: str, per_s: float, batch: int, seconds: float) -> None:
    app = make_app(url)
    enqueue_many = app.tasks[task].enqueue_many
    _ = app.store  # opened before the first batch is timed
    with Path("sent").open("w") as sent:
        for number in paced(seconds, per_s / batch):
            first = number * batch
            sent.write(f"{first} {time.time_ns()}\n")
            enqueue_many([(first + step,) for step in range(batch)])
    app.close()


if __name__ == "__main__":
    _feed(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]))
