"""Detect the kind of a schedule expression, parse it, and locate errors in its text."""

from __future__ import annotations

import re
from typing import Literal

from tickwork.core.recurrence.cron import cron
from tickwork.core.recurrence.cron_parser import Dialect
from tickwork.core.recurrence.interval import every
from tickwork.core.recurrence.rrule import rrule
from tickwork.core.recurrence.rule import RuleValue
from tickwork.core.recurrence.zones.wall_time import Dst

Kind = Literal["cron", "every", "rrule"]

_REPEATING = re.compile(r"R[0-9]*/")
_RECURRENCE = re.compile(r"\b(FREQ=|DTSTART|RRULE:)", re.IGNORECASE)
_RATE = re.compile(r"(?:@?every\s+)?([0-9.]+\s*(?:ms|[smhdw])(?![a-z]).*)", re.IGNORECASE)
_QUOTED = re.compile(r"'([^']+)'|\"([^\"]+)\"")
_LABELS = ("second", "minute", "hour", "day of the month", "month", "day of the week", "year")
_LABEL = re.compile(rf"\bthe ({'|'.join(_LABELS)})\b(?! of)")


def kind_of(text: str) -> Kind:
    """Return the kind of an expression: an RFC 5545 rule, a rate or an ISO 8601 interval, or else cron."""
    if _RECURRENCE.search(text):
        return "rrule"
    return "every" if _REPEATING.match(text) or _RATE.fullmatch(text.strip()) else "cron"


def read_expression(text: str, *, tz: str, dst: Dst, dialect: Dialect, name: str | None) -> RuleValue:
    """Return the rule of an expression. Raises InvalidOption."""
    match kind_of(text):
        case "rrule":
            return rrule(text, tz=tz, dst=dst)
        case "every":
            rate = None if _REPEATING.match(text) else _RATE.fullmatch(text.strip())
            return every(text if rate is None else rate[1])
        case "cron":
            return cron(text, tz=tz, dialect=dialect, dst=dst, name=name)


def place_of(text: str, said: str) -> tuple[int, int] | None:
    """Return the start and end of the part of a text that an error message is about; None if it is the whole text.

    The part is found by the text that the message quotes. For cron it is searched in the field that the message names,
    because the same text may occur in several fields.
    """
    low, high = _field(text, said)
    for found in _QUOTED.finditer(said):
        quoted = (found[1] or found[2]).lower()
        start = text.lower().find(quoted, low, high)
        if start >= 0 and quoted != text.lower():
            return start, start + len(quoted)
    return (low, high) if (low, high) != (0, len(text)) else None


def _field(text: str, said: str) -> tuple[int, int]:
    """Return the span of the cron field that a message names; the span of the whole text if it names none."""
    parts = [found.span() for found in re.finditer(r"\S+", text)]
    named = sorted(_LABEL.findall(said), key=_LABELS.index)
    if not named or len(parts) not in (5, 6, 7) or kind_of(text) != "cron":
        return 0, len(text)
    place = _LABELS.index(named[0]) - (len(parts) == 5)
    return parts[place] if 0 <= place < len(parts) else (0, len(text))
