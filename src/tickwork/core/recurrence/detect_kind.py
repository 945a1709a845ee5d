"""Rules as people type them, of whatever kind: which kind it is, and where in a text a mistake is."""

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
    """Return which kind of rule somebody means: an RFC 5545 rule, a rate or an ISO 8601 interval, or else cron."""
    if _RECURRENCE.search(text):
        return "rrule"
    return "every" if _REPEATING.match(text) or _RATE.fullmatch(text.strip()) else "cron"


def read_expression(text: str, *, tz: str, dst: Dst, dialect: Dialect, name: str | None) -> RuleValue:
    """Return the rule that a text says. Raises InvalidOption."""
    match kind_of(text):
        case "rrule":
            return rrule(text, tz=tz, dst=dst)
        case "every":
            rate = None if _REPEATING.match(text) else _RATE.fullmatch(text.strip())
            return every(text if rate is None else rate[1])
        case "cron":
            return cron(text, tz=tz, dialect=dialect, dst=dst, name=name)


def place_of(text: str, said: str) -> tuple[int, int] | None:
    """Return from where to where a text has what was said to be wrong with it; None when that is all of it.

    What is wrong is quoted. Of cron it is told in which field it is, and the same may stand in several.
    """
    low, high = _field(text, said)
    for found in _QUOTED.finditer(said):
        quoted = (found[1] or found[2]).lower()
        start = text.lower().find(quoted, low, high)
        if start >= 0 and quoted != text.lower():
            return start, start + len(quoted)
    return (low, high) if (low, high) != (0, len(text)) else None


def _field(text: str, said: str) -> tuple[int, int]:
    """Where the field of a cron expression is that is named; all of the text, where none is."""
    parts = [found.span() for found in re.finditer(r"\S+", text)]
    named = sorted(_LABEL.findall(said), key=_LABELS.index)
    if not named or len(parts) not in (5, 6, 7) or kind_of(text) != "cron":
        return 0, len(text)
    place = _LABELS.index(named[0]) - (len(parts) == 5)
    return parts[place] if 0 <= place < len(parts) else (0, len(text))
