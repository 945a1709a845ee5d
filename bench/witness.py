"""The witness file, to which handlers append their start times, independently of Tickwork. Lines have equal lengths."""

from __future__ import annotations

from array import array
from pathlib import Path

from bench.tasks import WITNESS, WITNESS_LINE


def make(folder: Path) -> Path:
    path = folder / "witness"
    path.touch()
    return path


def env(path: Path) -> dict[str, str]:
    """Return the environment variable with which a worker's handlers find the file."""
    return {WITNESS: str(path)}


def count(path: Path) -> int:
    """Return how many handlers have started, in constant time."""
    return path.stat().st_size // WITNESS_LINE


def read(path: Path) -> dict[int, int]:
    """Return when each number was first written, in nanoseconds. An incomplete last line is ignored."""
    seen: dict[int, int] = {}
    for line in path.read_text().split("\n")[:-1]:
        number, at_ns = line.split(" ")
        seen.setdefault(int(number), int(at_ns))
    return seen


def started_ns(path: Path, jobs: int) -> array[int]:
    """Return when each number from 0 on was first written; 0 if it was not. Needs less memory than `read`."""
    started = array("q", bytes(8 * jobs))
    with path.open() as file:
        for line in file:
            number, at_ns = line.split(" ")
            place = int(number)
            if 0 <= place < jobs and not started[place]:
                started[place] = int(at_ns)
    return started
