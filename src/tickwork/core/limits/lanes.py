"""What a job carries with it for flow control, and where it stands for it.

A *lane* is a stretch of the queue's order. A plain job stands in the lane that has its queue's name. A job with a flow
has a lane by its queue, needs, group and tenant, so that claims can choose between these. A job that something holds
stands in a lane of that turnstile, out of everybody's way. (Names of queues have no colon, so that lanes can.)
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import msgspec

from tickwork.core.limits.limits import LimitKey, LimitUse
from tickwork.core.placement.sticky import group_of

_KEY_SIGN = "\x1e"
_HOME_SIGN = "\x1f"
_ORDER_SIGN = "!"
_GROUP_SIGN = "@"
SEQUENCE_PRIORITY = 5
_RETURNED_PRIORITY = 4


class Broadcast(msgspec.Struct, frozen=True, array_like=True):
    """Which of the workers of a broadcast a job is for: one of 0 to `total` - 1."""

    index: int
    total: int


class Flow(msgspec.Struct, frozen=True, omit_defaults=True):
    """The limits that a job passes, with their keys; whose it is; what it needs of a worker (see placement).

    `sequence`: one of the limits wants its jobs in order. `diverted`: a gate has sent it to another queue, as happens
    once. `broadcast`: it is one of many, for a worker each. `spot`: that of its key, if it sticks (see sticky).
    """

    slots: tuple[LimitUse, ...] = ()
    tenant: str | None = None
    needs: str = ""
    sequence: bool = False
    diverted: bool = False
    broadcast: Broadcast | None = None
    spot: int | None = None


class Lane(NamedTuple):
    """The parts of a lane's name. `held_by`: the turnstile that holds the jobs in it.

    In a lane `in_order` time alone counts, not priority, and one claim at a time takes from it. Jobs that came back
    after an attempt stand before the others. All of a sequence stand there together, wherever they stick. `group` is
    that of the others that do.
    """

    queue: str
    needs: str = ""
    tenant: str = ""
    in_order: bool = False
    held_by: LimitKey | None = None
    group: int | None = None

    @property
    def is_strict(self) -> bool:
        """Whether none may be passed by for a moment: order counts, or others come in before those that stand there."""
        return self.in_order or self.held_by is not None


def home_lane(queue: str, flow: Flow | None) -> str:
    """Return the lane of a job that nothing holds."""
    if flow is None:
        return queue
    needs = flow.needs
    if flow.sequence:
        needs = f"{_ORDER_SIGN}{needs}"
    elif flow.spot is not None:
        needs = f"{needs}{_GROUP_SIGN}{group_of(flow.spot)}"
    return f"{queue}:{needs}|{flow.tenant or ''}"


def row_priority(priority: int, flow: Flow | None) -> int:
    """Return the priority by which a job stands in its lane: in a sequence all are alike."""
    return SEQUENCE_PRIORITY if flow is not None and flow.sequence else priority


def returned_priority(priority: int, lane: str) -> int:
    """Return the priority by which a job goes back to its home lane after an attempt.

    In a sequence it goes before all that have not started: they may not start before it, and must not hide it.
    """
    return _RETURNED_PRIORITY if read_lane(lane).in_order else priority


def held_lane(held_by: LimitKey, home: str) -> str:
    """Return the lane of a job that a turnstile holds."""
    return f"{held_prefix(held_by)}{home}"


def held_prefix(held_by: LimitKey) -> str:
    """Return how the lanes of a turnstile begin."""
    return f":{turnstile_name(held_by)}{_HOME_SIGN}"


def turnstile_name(passage: LimitKey) -> str:
    """Return the name by which a turnstile is stored."""
    return f"{passage.limit}{_KEY_SIGN}{passage.key}"


def passage_of(name: str) -> LimitKey:
    """Return the turnstile that has this name."""
    limit, _, key = name.rpartition(_KEY_SIGN)
    return LimitKey(limit, key)


@lru_cache(maxsize=1 << 14)
def read_lane(lane: str) -> Lane:
    """Return the parts of a lane's name."""
    held_by = None
    if lane.startswith(":"):
        name, _, lane = lane[1:].rpartition(_HOME_SIGN)
        held_by = passage_of(name)
    queue, _, rest = lane.partition(":")
    needs, _, tenant = rest.partition("|")
    in_order = needs.startswith(_ORDER_SIGN)
    needs, _, group = needs.removeprefix(_ORDER_SIGN).partition(_GROUP_SIGN)
    return Lane(queue, needs, tenant, in_order, held_by, int(group) if group else None)


def lane_range(prefix: str) -> tuple[str, str]:
    """Return from where to before where the names lie that begin with this prefix, compared byte by byte."""
    return prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1)
