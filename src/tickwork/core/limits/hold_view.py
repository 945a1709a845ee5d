"""The reason why a waiting job is held: a limit key with its rule, or a gate."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tickwork.core.ids import JobId
from tickwork.core.limits.breaker import Rule
from tickwork.core.limits.gates import Gate
from tickwork.core.limits.limits import LimitKey


@dataclass(frozen=True, slots=True)
class Hold:
    """A hold on a waiting job: the limit key, its rule, when it opens by itself, and its current holders.

    `live` is the weight of the live leases, and `holders` are some of their jobs. `ahead` is the number of jobs that
    wait before this one. `head` is the job of a sequence that goes before it, has started, and waits for its next
    attempt, due at `head_due`.
    """

    held_by: LimitKey
    rule: Rule | None
    gate: Gate | None
    opens_at: datetime | None
    live: int
    holders: tuple[JobId, ...]
    ahead: int
    head: JobId | None = None
    head_due: datetime | None = None
