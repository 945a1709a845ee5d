"""The state of a notification: up to where it has read events, and which cases it has not reported yet.

The whole result of a look is in the new state. The process that stores the state first reports the cases; a
concurrent look stores nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

import msgspec

from tickwork.core.notify.rule import AlertCase, Notification

EXAMPLES = 5
KNOWN_LIMIT = 1000


class EndedMark(msgspec.Struct, frozen=True):
    """A position in the order in which jobs ended: after this job, or after all jobs that ended at that instant."""

    at: datetime
    job_id: str | None = None


class AlertState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of a notification between two looks.

    `mark` is the position up to which it has read. `known` are lasting cases that were reported. `count` and
    `examples` are cases still to report. `alive_at` is the last success that was seen, for the kind "silent".
    """

    mark: EndedMark
    known: tuple[str, ...] = ()
    count: int = 0
    examples: tuple[AlertCase, ...] = ()
    first_at: datetime | None = None
    told_at: datetime | None = None
    alive_at: datetime | None = None


class AlertDigest(msgspec.Struct, frozen=True):
    """The content of one message: the number of cases since `first_at`, and some examples."""

    notification: Notification
    count: int
    examples: tuple[AlertCase, ...]
    first_at: datetime
    told_at: datetime


def new_watch(now: datetime) -> AlertState:
    """Return the state of a new notification, which reads events from now on."""
    return AlertState(EndedMark(now), alive_at=now)


def not_ahead(watch: AlertState, now: datetime) -> AlertState:
    """Return the state; if its position is in the future, because the store's clock was ahead, reset it to now."""
    if watch.mark.at <= now:
        return watch
    told_at, alive_at = (None if at is None else min(at, now) for at in (watch.told_at, watch.alive_at))
    return msgspec.structs.replace(watch, mark=EndedMark(now), told_at=told_at, alive_at=alive_at)


def lasting(watch: AlertState, cases: Sequence[AlertCase]) -> tuple[list[AlertCase], AlertState]:
    """Return the lasting cases that were not reported before.

    A case that is over is forgotten, and can be reported again.
    """
    known = set(watch.known)
    fresh = [case for case in cases if case.key not in known]
    return fresh, msgspec.structs.replace(watch, known=tuple(case.key for case in cases[:KNOWN_LIMIT]))


def under_way(
    watch: AlertState, running: Sequence[AlertCase], ended: Sequence[AlertCase], gone: Collection[str]
) -> tuple[list[AlertCase], AlertState]:
    """Return the cases among running and ended jobs that were not reported before. `gone` are all jobs that ended."""
    known = set(watch.known)
    fresh = {case.key: case for case in (*running, *ended) if case.key not in known}
    live = [key for key in (*watch.known, *(case.key for case in running if case.key in fresh)) if key not in gone]
    return list(fresh.values()), msgspec.structs.replace(watch, known=tuple(live[-KNOWN_LIMIT:]))


def judged(
    notification: Notification, watch: AlertState, fresh: Sequence[AlertCase], now: datetime
) -> tuple[AlertState, AlertDigest | None]:
    """Add cases to the state; return it with the message to send now, if any.

    The first case is sent at once, later cases when the window is over.
    """
    count = watch.count + len(fresh)
    examples = (*watch.examples, *fresh)[:EXAMPLES]
    first_at = watch.first_at or (now if fresh else None)
    if count and first_at and (watch.told_at is None or now - watch.told_at >= notification.window):
        digest = AlertDigest(notification, count, examples, first_at, now)
        return msgspec.structs.replace(watch, count=0, examples=(), first_at=None, told_at=now), digest
    return msgspec.structs.replace(watch, count=count, examples=examples, first_at=first_at), None


def encode_watch(watch: AlertState) -> str:
    return msgspec.json.encode(watch).decode()


def decode_watch(text: str) -> AlertState:
    return msgspec.json.decode(text, type=AlertState)
