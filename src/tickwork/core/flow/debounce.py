"""Debounce and throttle: two habits of keys, told as the options that they stand for.

*Debounce*: a burst of calls becomes one job, which starts when no call has come for a while, with the arguments of the
last call: `key`, `if_exists="replace"` and `delay`. *Throttle*: the first call runs at once, and calls while it lives
and for a while after its end become no job of their own: `key` and `key_for`. Each has a key for each task, so the two
never meet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from tickwork.core.flow.keys import key_text, read_key, shortened
from tickwork.core.flow.reading import read_span
from tickwork.core.flow.stored import Form

_SHORTEST = timedelta(milliseconds=1)
_LONGEST = timedelta(days=365)


def debounce(wait: str | timedelta, *, key: str | None = None) -> Debounce:
    """One job for a burst of calls, when it has been quiet for `wait`: `debounce("5s", key="account")`."""
    return Debounce(wait=read_span("debounce", wait, _SHORTEST, _LONGEST), key=key)


def throttle(period: str | timedelta, *, key: str | None = None) -> Throttle:
    """No second job until `period` after the first one ended: `throttle("1m", key="account")`."""
    return Throttle(period=read_span("throttle", period, _SHORTEST, _LONGEST), key=key)


class Debounce(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="debounce", forbid_unknown_fields=True):
    """The last of a burst, when it has been quiet for `wait`."""

    wait: timedelta
    key: str | None = None

    def __post_init__(self) -> None:
        _check_key(self.key)


class Throttle(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="throttle", forbid_unknown_fields=True):
    """The first, and no other until `period` after it ended."""

    period: timedelta
    key: str | None = None

    def __post_init__(self) -> None:
        _check_key(self.key)


HABITS = Form("habit", msgspec.json.Decoder(Debounce | Throttle))


def options_of(
    habit: Debounce | Throttle,
    task: str,
    arguments: Mapping[str, Any],
    tenant: str | None = None,
    labels: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the options that a habit stands for, for one call. Raises InvalidArguments for a key that is none."""
    text = key_text(habit.key, arguments, tenant, labels)
    if isinstance(habit, Debounce):
        return {"key": shortened(f"debounce:{task}:{text}"), "if_exists": "replace", "delay": habit.wait}
    return {"key": shortened(f"throttle:{task}:{text}"), "key_for": habit.period}


def _check_key(key: str | None) -> None:
    if key is not None:
        read_key("the key of a debounce or throttle", key)
