"""Parse points in time in the options of commands."""

from __future__ import annotations

from datetime import datetime, timedelta

from tickwork.errors import InvalidInput


def instant(text: str, now: datetime, option: str) -> datetime:
    """Return the instant of a duration before now, such as 2d, or of an instant with its offset.

    Raises InvalidInput.
    """
    from tickwork.core.text.duration import parse_duration

    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return now - min(parse_duration(text, what=option), timedelta(days=36500))
    if found.tzinfo is None:
        raise InvalidInput(f"{option} {text!r} needs an offset from UTC: 2026-11-15T12:00+00:00.")
    return found
