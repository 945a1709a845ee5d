"""A circuit breaker: when a task keeps failing, it is paused, and then tried with one job.

Closed, it counts failures alone, so a task that works writes nothing. At the last failure that is too many it opens and
nothing starts for the pause. After that it is half-open: one job is the probe. If the probe succeeds the breaker
closes; if it fails, another pause begins; if nothing is heard of it for as long as a pause, another job becomes the
probe. Jobs that were running when it opened say nothing about later, so their ends do not count.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

import msgspec

from tickwork.core.duration import format_duration
from tickwork.core.ids import JobId
from tickwork.core.limits.limit_keys import read_key
from tickwork.core.limits.limits import Bound
from tickwork.core.limits.sliding_counter import SlidingCounter
from tickwork.core.option_parsing import LARGEST, read_span, read_whole, to_us
from tickwork.core.versioned_json import VersionedJson

_SHORTEST = timedelta(seconds=1)
_LONGEST = timedelta(days=1)


def breaker(
    failures: int = 50, window: str | timedelta = "1m", pause: str | timedelta = "5m", *, key: str | None = None
) -> Breaker:
    """Pause a task (or a key of it) when so many attempts fail within a window: `breaker(failures=50, window="1m")`.

    After `pause` one job tries whether it works again. Raises InvalidOption.
    """
    return Breaker(
        failures=failures,
        window=read_span("window", window, _SHORTEST, _LONGEST),
        pause=read_span("pause", pause, _SHORTEST, _LONGEST),
        key=key,
    )


class Breaker(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="breaker"):
    """When to open and for how long."""

    failures: int
    window: timedelta
    pause: timedelta
    key: str | None = None

    def __post_init__(self) -> None:
        read_whole("failures", self.failures, 1, LARGEST)
        read_span("window", self.window, _SHORTEST, _LONGEST)
        read_span("pause", self.pause, _SHORTEST, _LONGEST)
        if self.key is not None:
            read_key("the key of a breaker", self.key)

    @property
    def said(self) -> str:
        """The breaker in a few words."""
        window, pause = format_duration(self.window), format_duration(self.pause)
        return f"{self.failures:,} failures in {window} pause {pause}"


class BreakerState(msgspec.Struct, frozen=True, array_like=True):
    """How a breaker stands; `open_until_us` None: closed."""

    failed: SlidingCounter = SlidingCounter()
    open_until_us: int | None = None
    probe: JobId | None = None
    probe_until_us: int = 0

    def phase(self, now_us: int) -> Literal["closed", "open", "half-open"]:
        if self.open_until_us is None:
            return "closed"
        return "open" if now_us < self.open_until_us else "half-open"

    def opens_at_us(self, now_us: int) -> int | None:
        """Return when the next job may start, or become the probe; None: now."""
        if self.open_until_us is None:
            return None
        until_us = self.open_until_us if self.probe is None else self.probe_until_us
        return until_us if now_us < until_us else None


BREAKERS = VersionedJson("breaker", msgspec.json.Decoder(Breaker))
BREAKER_STATES = VersionedJson("breaker_state", msgspec.json.Decoder(BreakerState))


def start(rule: Breaker, state: BreakerState, job: JobId, now_us: int) -> BreakerState | None:
    """Return how the breaker stands when a job starts now; None: it may not start."""
    if state.opens_at_us(now_us) is not None:
        return None
    if state.open_until_us is None:
        return state
    return msgspec.structs.replace(state, probe=job, probe_until_us=now_us + to_us(rule.pause))


def end(rule: Breaker, state: BreakerState, job: JobId, now_us: int, *, failed: bool) -> BreakerState:
    """Return how the breaker stands after an attempt ended; the same object where nothing is to be stored."""
    if state.open_until_us is not None:
        if job != state.probe:
            return state
        return _opened(rule, now_us) if failed else BreakerState()
    if not failed:
        return state
    tally = state.failed.added(1, now_us, to_us(rule.window))
    if tally.total(now_us, to_us(rule.window)) >= rule.failures:
        return _opened(rule, now_us)
    return BreakerState(failed=tally)


def _opened(rule: Breaker, now_us: int) -> BreakerState:
    return BreakerState(open_until_us=now_us + to_us(rule.pause))


Rule = Bound | Breaker
"""What bounds the jobs of a limit or of a task."""
