"""Circuit breaker: pause a task that keeps failing, then test it with one job.

While closed, the breaker counts failures only, so a task that works writes nothing. The failure that reaches the limit
opens it, and no job starts during the pause. After the pause it is half-open: one job is the probe. If the probe
succeeds, the breaker closes; if it fails, another pause begins; if it reports nothing for the length of a pause,
another job becomes the probe. Ends of jobs that were running when the breaker opened do not count.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

import msgspec

from tickwork.core.ids import JobId
from tickwork.core.limits.limit_keys import read_key
from tickwork.core.limits.limits import Bound
from tickwork.core.limits.rate_counters import SlidingCounter
from tickwork.core.option_parsing import LARGEST, read_span, read_whole, to_us
from tickwork.core.text.duration import format_duration

_SHORTEST = timedelta(seconds=1)
_LONGEST = timedelta(days=1)


def breaker(
    failures: int = 50, window: str | timedelta = "1m", pause: str | timedelta = "5m", *, key: str | None = None
) -> Breaker:
    """Return a breaker for a task, or for one key of it: `breaker(50, window="1m")`.

    It pauses the task after `failures` failed attempts in a window. After `pause`, one job tests whether the task
    works again. Raises InvalidOption.
    """
    return Breaker(
        failures=failures,
        window=read_span("window", window, _SHORTEST, _LONGEST),
        pause=read_span("pause", pause, _SHORTEST, _LONGEST),
        key=key,
    )


class Breaker(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="breaker"):
    """The settings of a circuit breaker: when it opens, and for how long."""

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
        """The breaker as a short text."""
        window, pause = format_duration(self.window), format_duration(self.pause)
        return f"{self.failures:,} failures in {window} pause {pause}"


class BreakerState(msgspec.Struct, frozen=True, array_like=True):
    """The state of a breaker. `open_until_us` is None while the breaker is closed."""

    failed: SlidingCounter = SlidingCounter()
    open_until_us: int | None = None
    probe: JobId | None = None
    probe_until_us: int = 0

    def phase(self, now_us: int) -> Literal["closed", "open", "half-open"]:
        if self.open_until_us is None:
            return "closed"
        return "open" if now_us < self.open_until_us else "half-open"

    def opens_at_us(self, now_us: int) -> int | None:
        """Return when the next job may start or become the probe; None means now."""
        if self.open_until_us is None:
            return None
        until_us = self.open_until_us if self.probe is None else self.probe_until_us
        return until_us if now_us < until_us else None


def start(rule: Breaker, state: BreakerState, job: JobId, now_us: int) -> BreakerState | None:
    """Return the state of the breaker after a job starts now; None if the job may not start."""
    if state.opens_at_us(now_us) is not None:
        return None
    if state.open_until_us is None:
        return state
    return msgspec.structs.replace(state, probe=job, probe_until_us=now_us + to_us(rule.pause))


def end(rule: Breaker, state: BreakerState, job: JobId, now_us: int, *, failed: bool) -> BreakerState:
    """Return the state of the breaker after an attempt ended, or `state` itself if there is nothing to store."""
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
"""Any rule that limits the jobs of a limit or of a task."""
