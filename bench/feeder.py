"""Enqueue jobs at a steady rate from a separate process, so that its cost is not part of the measured process.

For each batch it writes a line: the number of its first job, and the time just before `enqueue_many` was called. A late
batch is sent at once, so that the average rate is kept.
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

_LATE_LIMIT_S = 60.0  # time limit in addition to the planned time


class Feeder:
    """A running feeder process and its log of sent batches."""

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
        """Return when each job was sent, in nanoseconds, indexed by job number."""
        sent = array("q")
        for line in (self._folder / "sent").read_text().splitlines():
            sent.extend([int(line.split(" ")[1])] * batch)
        return sent

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def feeding(url: str, folder: Path, task: str, per_s: float, batch: int, seconds: float) -> Iterator[Feeder]:
    """Run a feeder for the duration of a block."""
    arguments = [url, task, str(per_s), str(batch), str(seconds)]
    with (folder / "feeder.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.feeder", *arguments],
            cwd=folder,  # the cleanup process of the folder finds it by this if we are killed
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
    """Yield numbers from 0 on, evenly spaced in time."""
    began = time.monotonic()
    for number in range(round(seconds * per_s)):
        time.sleep(max(0.0, began + number / per_s - time.monotonic()))
        yield number


def _feed(url: str, task: str, per_s: float, batch: int, seconds: float) -> None:
    app = make_app(url)
    enqueue_many = app.tasks[task].enqueue_many
    _ = app.store  # open it before the first batch is timed
    with Path("sent").open("w") as sent:
        for number in paced(seconds, per_s / batch):
            first = number * batch
            sent.write(f"{first} {time.time_ns()}\n")
            enqueue_many([(first + step,) for step in range(batch)])
    app.close()


if __name__ == "__main__":
    _feed(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]))
