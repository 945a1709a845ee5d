"""Count the CPUs that this process may use, by its CPU affinity and by the quota of its control group."""

from __future__ import annotations

import os
from math import ceil
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_GROUPS = Path("/proc/self/cgroup")


def usable_cpus(root: Path = _ROOT, groups: Path = _GROUPS) -> int:
    """Return the number of usable CPUs: the smaller of the CPU affinity and the control group quota, at least 1."""
    try:
        allowed = len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS
        allowed = os.cpu_count() or 1
    quota = cgroup_quota(root, groups)
    return max(1, allowed if quota is None else min(allowed, ceil(quota)))


def cgroup_quota(root: Path, groups: Path) -> float | None:
    """Return the smallest CPU quota of this process's control group and its ancestors, in CPUs; None if unlimited.

    Reads both versions of control groups. In a container, the process's own group may be mounted as the root.
    """
    quotas = []
    for line in _lines(groups):
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if not controllers:
            quotas += [_quota_v2(folder) for folder in _upwards(root, path)]
        elif "cpu" in controllers.split(","):
            for name in (controllers, "cpu"):
                quotas += [_quota_v1(folder) for folder in _upwards(root / name, path)]
    return min((one for one in quotas if one is not None), default=None)


def _upwards(root: Path, path: str) -> list[Path]:
    """Return the folders of a group and of its ancestors."""
    folder = root / path.lstrip("/")
    return [folder, *(parent for parent in folder.parents if parent.is_relative_to(root))]


def _quota_v2(folder: Path) -> float | None:
    quota, _, period = next(iter(_lines(folder / "cpu.max")), "").partition(" ")
    return _ratio(quota, period)


def _quota_v1(folder: Path) -> float | None:
    quota = next(iter(_lines(folder / "cpu.cfs_quota_us")), "")
    return _ratio(quota, next(iter(_lines(folder / "cpu.cfs_period_us")), ""))


def _ratio(quota: str, period: str) -> float | None:
    """Return a quota as a number of CPUs; None for "max" and -1, which mean no quota."""
    if not quota.isdecimal() or not period.isdecimal() or int(period) == 0:
        return None
    return int(quota) / int(period)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except (OSError, ValueError):
        return []
