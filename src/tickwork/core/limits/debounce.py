"""Debounce and throttle, translated into the job options and limits that implement them.

*Debounce*: a burst of calls becomes one job, which starts when no call has come for `wait`, with the arguments of the
last call. *Throttle*: the first call runs at once; calls while its job is alive, and for `period` after it ended,
make no job of their own. With `trailing`, the last of those calls runs when the period is over.

A call must not be lost because the job of an earlier call has just started. Its job therefore follows the running
job: it is stored beside it, takes over the key, and starts after the running job has ended for good, held by a
sequence on its key. Calls that come before it starts replace its arguments. Keys and limits are separate for each
task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from tickwork.core.limits.limit_keys import key_text, read_key, shortened
from tickwork.core.limits.limits import Bound, Concurrency, Rate
from tickwork.core.option_parsing import read_span

_SHORTEST = timedelta(milliseconds=1)
_LONGEST = timedelta(days=365)
_LONGEST_TRAILING = timedelta(days=31)  # the longest period of any rate


def debounce(wait: str | timedelta, *, key: str | None = None) -> Debounce:
    """Return a debounce, which makes one job of a burst of calls: `debounce("5s", key="account")`.

    The job starts when no call has come for `wait`. Raises InvalidOption.
    """
    return Debounce(wait=read_span("debounce", wait, _SHORTEST, _LONGEST), key=key)


def throttle(period: str | timedelta, *, key: str | None = None, trailing: bool = False) -> Throttle:
    """Return a throttle, which makes no second job until `period` after the first ended: `throttle("1m",
    key="account")`.

    With `trailing=True`, at most one job starts in any `period`, counted from start to start, and the last call
    always runs: calls that come before the period is over become one more job, with the arguments of the last call.
    Raises InvalidOption.
    """
    longest = _LONGEST_TRAILING if trailing else _LONGEST
    return Throttle(period=read_span("throttle", period, _SHORTEST, longest), key=key, trailing=trailing)


class Debounce(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="debounce", forbid_unknown_fields=True):
    """Settings of a debounce: the last call of a burst runs after no call has come for `wait`."""

    wait: timedelta
    key: str | None = None

    def __post_init__(self) -> None:
        _check_key(self.key)


class Throttle(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="throttle", forbid_unknown_fields=True):
    """Settings of a throttle: no second job until `period` after the first ended.

    With `trailing`, the last call runs, too.
    """

    period: timedelta
    key: str | None = None
    trailing: bool = False

    def __post_init__(self) -> None:
        _check_key(self.key)


def options_of(
    merging: Debounce | Throttle,
    task: str,
    arguments: Mapping[str, Any],
    tenant: str | None = None,
    labels: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the job options that implement a debounce or throttle for one call.

    Raises InvalidArguments if the value of the key cannot be a key.
    """
    text = key_text(merging.key, arguments, tenant, labels)
    if isinstance(merging, Debounce):
        return {"key": shortened(f"debounce:{task}:{text}"), "if_exists": "follow", "delay": merging.wait}
    if merging.trailing:
        return {"key": shortened(f"throttle:{task}:{text}"), "if_exists": "follow"}
    return {"key": shortened(f"throttle:{task}:{text}"), "key_for": merging.period}


def limits_of(merging: Debounce | Throttle | None, task: str) -> tuple[Bound, ...]:
    """Return the limits that implement a debounce or throttle: following jobs run one at a time, in order."""
    if merging is None or (isinstance(merging, Throttle) and not merging.trailing):
        return ()
    kind = "debounce" if isinstance(merging, Debounce) else "throttle"
    line = Concurrency(name=f"task:{task}#{kind}", key=merging.key, capacity=1, in_order=True)
    if isinstance(merging, Debounce):
        return (line,)
    pace = Rate(name=f"task:{task}#throttle-rate", key=merging.key, count=1, period=merging.period, burst=0)
    return line, pace


def _check_key(key: str | None) -> None:
    if key is not None:
        read_key("the key of a debounce or throttle", key)
