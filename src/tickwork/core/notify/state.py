"""How a notification stands: how far it has looked, and what it has still to tell.

Everything of a look is in the value that it leads to, so that whoever stores it first has told it, and a second look at
the same time has not.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

import msgspec

from tickwork.core.notify.matching import AlertCase
from tickwork.core.notify.rule import Notification

EXAMPLES = 5
KNOWN_LIMIT = 1000


class EndedMark(msgspec.Struct, frozen=True):
    """A place in the order in which jobs ended: after this one, or after all that ended at that instant."""

    at: datetime
    job_id: str | None = None


class AlertState(msgspec.Struct, frozen=True, omit_defaults=True):
    """`mark`: up to where it has looked. `known`: cases that last, and were told. `count` and `examples` wait.

    `alive_at` is the last success that was seen, of a notification on silence.
    """

    mark: EndedMark
    known: tuple[str, ...] = ()
    count: int = 0
    examples: tuple[AlertCase, ...] = ()
    first_at: datetime | None = None
    told_at: datetime | None = None
    alive_at: datetime | None = None


class AlertDigest(msgspec.Struct, frozen=True):
    """What one message tells: how many cases there were since `first_at`, and some of them."""

    notification: Notification
    count: int
    examples: tuple[AlertCase, ...]
    first_at: datetime
    told_at: datetime


def new_watch(now: datetime) -> AlertState:
    """A notification that is made now is about what comes after it."""
    return AlertState(EndedMark(now), alive_at=now)


def not_ahead(watch: AlertState, now: datetime) -> AlertState:
    """Return a watch that looks from now on if it has looked further: the store's clock was ahead then."""
    if watch.mark.at <= now:
        return watch
    told_at, alive_at = (None if at is None else min(at, now) for at in (watch.told_at, watch.alive_at))
    return msgspec.structs.replace(watch, mark=EndedMark(now), told_at=told_at, alive_at=alive_at)


def lasting(watch: AlertState, cases: Sequence[AlertCase]) -> tuple[list[AlertCase], AlertState]:
    """Of cases that last, those that were not told before. One that is over is forgotten: it may come again."""
    known = set(watch.known)
    fresh = [case for case in cases if case.key not in known]
    return fresh, msgspec.structs.replace(watch, known=tuple(case.key for case in cases[:KNOWN_LIMIT]))


def under_way(
    watch: AlertState, running: Sequence[AlertCase], ended: Sequence[AlertCase], gone: Collection[str]
) -> tuple[list[AlertCase], AlertState]:
    """Of jobs that run and that have ended, those that were not told while they ran. `gone` are all that have ended."""
    known = set(watch.known)
    fresh = {case.key: case for case in (*running, *ended) if case.key not in known}
    live = [key for key in (*watch.known, *(case.key for case in running if case.key in fresh)) if key not in gone]
    return list(fresh.values()), msgspec.structs.replace(watch, known=tuple(live[-KNOWN_LIMIT:]))


def judged(
    notification: Notification, watch: AlertState, fresh: Sequence[AlertCase], now: datetime
) -> tuple[AlertState, AlertDigest | None]:
    """Add cases to what waits, and say what is to be told now: the first at once, others when the window is over."""
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
