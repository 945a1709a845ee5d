"""Measure memory and CPU time of process trees with /proc; a worker is its supervisor with all descendants."""

from __future__ import annotations

import os
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_MB = 1024 * 1024


def family(pid: int) -> list[int]:
    """Return the ids of a process and all its descendants, including helper processes."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and (fields := _stat(int(entry.name))):
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found = [pid]
    for one in found:  # the loop appends to `found`
        found += children.get(one, [])
    return found


def pss_mb(pid: int) -> float:
    """Return the proportional memory (PSS) of a process tree, in which shared memory is counted once."""
    return sum(_pss_kb(one) for one in family(pid)) / 1024


def rss_mb(pid: int) -> float:
    """Return the resident memory of a process tree. Fast, but too high: shared memory is counted in each process."""
    return sum(_resident_pages(one) for one in family(pid)) * _PAGE / _MB


def cpu_s(pid: int) -> float:
    """Return the CPU time that a process tree has used so far, including ended children."""
    ticks = [[int(field) for field in fields[11:15]] for one in family(pid) if (fields := _stat(one))]
    return sum(map(sum, ticks)) / _TICKS_PER_S


def processors() -> tuple[int, int]:
    """Return the total time of all CPUs so far, and the part that the host has stolen, in ticks."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(fields), fields[7]


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on; an empty list if the process has ended."""
    return _read(pid, "stat").rpartition(")")[2].split()


def _pss_kb(pid: int) -> int:
    lines = _read(pid, "smaps_rollup").splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def _resident_pages(pid: int) -> int:
    fields = _read(pid, "statm").split()
    return int(fields[1]) if fields else 0


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
