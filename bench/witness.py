"""A file to which handlers append when they started, read past Tickwork. All its lines are of one length."""

from __future__ import annotations

from array import array
from pathlib import Path

from bench.tasks import WITNESS, WITNESS_LINE


def make(folder: Path) -> Path:
    path = folder / "witness"
    path.touch()
    return path


def env(path: Path) -> dict[str, str]:
    """What a worker's environment has to say for its handlers to find the file."""
    return {WITNESS: str(path)}


def count(path: Path) -> int:
    """How many handlers have started. It costs nothing, however many they are."""
    return path.stat().st_size // WITNESS_LINE


def read(path: Path) -> dict[int, int]:
    """When each number was first seen, in nanoseconds. A line that is being written is left for the next time."""
    seen: dict[int, int] = {}
    for line in path.read_text().split("\n")[:-1]:
        number, at_ns = line.split(" ")
        seen.setdefault(int(number), int(at_ns))
    return seen


def started_ns(path: Path, jobs: int) -> array[int]:
    """When each of the numbers from 0 on was first seen; 0 for those that were not. For more than fit into a dict."""
    started = array("q", bytes(8 * jobs))
    with path.open() as file:
        for line in file:
            number, at_ns = line.split(" ")
            place = int(number)
            if 0 <= place < jobs and not started[place]:
                started[place] = int(at_ns)
    return started
