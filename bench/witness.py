"""A file to which handlers append when they started, read past Tickwork."""

from __future__ import annotations

from pathlib import Path

from bench.tasks import WITNESS


def make(folder: Path) -> Path:
    path = folder / "witness"
    path.touch()
    return path


def env(path: Path) -> dict[str, str]:
    """What a worker's environment has to say for its handlers to find the file."""
    return {WITNESS: str(path)}


def read(path: Path) -> dict[int, int]:
    """When each number was first seen, in nanoseconds. A line that is being written is left for the next time."""
    seen: dict[int, int] = {}
    for line in path.read_text().split("\n")[:-1]:
        number, at_ns = line.split(" ")
        seen.setdefault(int(number), int(at_ns))
    return seen
