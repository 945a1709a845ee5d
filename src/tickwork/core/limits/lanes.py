"""Lanes: the parts of a queue's order.

A *lane* is a section of the queue's order, stored by name. A plain job is in the lane that has its queue's name. A job
that has JobLimits is in a lane by its queue, needs, sticky group and tenant, so that claims can choose between these. A
held job is in a lane of the limit key that holds it, where it delays no other job. Names of queues have no colon, so
that names of lanes can.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from tickwork.core.limits.job_limits import JobLimits, LimitKey, limit_key_of, limit_key_text
from tickwork.core.placement import group_of

_HOME_SIGN = "\x1f"
_ORDER_SIGN = "!"
_GROUP_SIGN = "@"
SEQUENCE_PRIORITY = 5
_RETURNED_PRIORITY = 4


class Lane(NamedTuple):
    """The parts of a lane's name. `held_by` is the limit key that holds the jobs in it.

    In a lane that is `in_order`, only time counts, not priority, and one claim at a time takes from it. Jobs that
    returned after an attempt go before the others. All jobs of sequences share that lane, whatever their sticky groups;
    `group` is the sticky group of other jobs.
    """

    queue: str
    needs: str = ""
    tenant: str = ""
    in_order: bool = False
    held_by: LimitKey | None = None
    group: int | None = None

    @property
    def is_strict(self) -> bool:
        """Whether claims always read the lane from its first job, without a scan cursor.

        That is so if the lane is in order, or if it holds parked jobs, since a job may enter the lane before the jobs
        in it.
        """
        return self.in_order or self.held_by is not None


def home_lane(queue: str, job_limits: JobLimits | None) -> str:
    """Return the lane of a job that is not held."""
    if job_limits is None:
        return queue
    needs = job_limits.needs
    if job_limits.sequence:
        needs = f"{_ORDER_SIGN}{needs}"
    elif job_limits.spot is not None:
        needs = f"{needs}{_GROUP_SIGN}{group_of(job_limits.spot)}"
    return f"{queue}:{needs}|{job_limits.tenant or ''}"


def row_priority(priority: int, job_limits: JobLimits | None) -> int:
    """Return the priority of a job within its lane; all jobs of a sequence have the same priority."""
    return SEQUENCE_PRIORITY if job_limits is not None and job_limits.sequence else priority


def returned_priority(priority: int, lane: str) -> int:
    """Return the priority with which a job returns to its home lane after an attempt.

    In a sequence it goes before all jobs that have not started: they may not start before it, and must not hide it.
    """
    return _RETURNED_PRIORITY if read_lane(lane).in_order else priority


def held_lane(held_by: LimitKey, home: str) -> str:
    """Return the lane of a job that a limit key holds."""
    return f"{held_prefix(held_by)}{home}"


def held_prefix(held_by: LimitKey) -> str:
    """Return the prefix of all lanes of a limit key."""
    return f":{limit_key_text(held_by)}{_HOME_SIGN}"


@lru_cache(maxsize=1 << 14)
def read_lane(lane: str) -> Lane:
    """Return the parts of a lane's name."""
    held_by = None
    if lane.startswith(":"):
        name, _, lane = lane[1:].rpartition(_HOME_SIGN)
        held_by = limit_key_of(name)
    queue, _, rest = lane.partition(":")
    needs, _, tenant = rest.partition("|")
    in_order = needs.startswith(_ORDER_SIGN)
    needs, _, group = needs.removeprefix(_ORDER_SIGN).partition(_GROUP_SIGN)
    return Lane(queue, needs, tenant, in_order, held_by, int(group) if group else None)


def lane_range(prefix: str) -> tuple[str, str]:
    """Return the range (from, before) of all names that begin with this prefix, compared byte by byte."""
    return prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1)
