"""What processes use, as the kernel says in /proc: a worker is its supervisor with everything that it started."""

from __future__ import annotations

import os
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_MB = 1024 * 1024


def family(pid: int) -> list[int]:
    """A process and all its descendants, guards and helpers included."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and (fields := _stat(int(entry.name))):
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found = [pid]
    for one in found:  # grows while it is walked
        found += children.get(one, [])
    return found


def pss_mb(pid: int) -> float:
    """The memory of a family. What it shares is counted once: each process has its proportional part of it."""
    return sum(_pss_kb(one) for one in family(pid)) / 1024


def rss_mb(pid: int) -> float:
    """The resident memory of a family, what is shared counted in each process: quick to ask for, and too high."""
    return sum(_resident_pages(one) for one in family(pid)) * _PAGE / _MB


def cpu_s(pid: int) -> float:
    """The processor time that a family has used so far, that of its ended children included."""
    ticks = [[int(field) for field in fields[11:15]] for one in family(pid) if (fields := _stat(one))]
    return sum(map(sum, ticks)) / _TICKS_PER_S


def processors() -> tuple[int, int]:
    """How much time all processors had so far, and how much of it the host gave to others, in ticks."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(fields), fields[7]


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on; none when the process is gone."""
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
