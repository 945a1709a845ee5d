"""Instants and durations as whole microseconds, which is how both stores exchange them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_us(instant: datetime) -> int:
    """Return an aware instant as microseconds since the epoch, exactly."""
    return (instant - _EPOCH) // _MICROSECOND


def from_us(us: int) -> datetime:
    """Return the instant this many microseconds after the epoch."""
    return _EPOCH + timedelta(microseconds=us)


def duration_us(duration: timedelta) -> int:
    """Return a duration in microseconds, exactly."""
    return duration // _MICROSECOND


def from_us_or_none(us: int | None) -> datetime | None:
    """Return the instant this many microseconds after the epoch; None for None."""
    return None if us is None else from_us(us)


def to_us_or_none(instant: datetime | None) -> int | None:
    """Return an aware instant as microseconds since the epoch; None for None."""
    return None if instant is None else to_us(instant)
