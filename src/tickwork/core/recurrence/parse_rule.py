"""Read rules: from an expression, whose kind is detected, with errors located in its text, and from stored JSON.

Stored rules have a format version, so that old rows stay readable.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from tickwork.core.recurrence.base_rule import RuleValue
from tickwork.core.recurrence.calendar import Calendar
from tickwork.core.recurrence.combine import AnyRule
from tickwork.core.recurrence.cron import cron
from tickwork.core.recurrence.cron_parser import Dialect
from tickwork.core.recurrence.interval import every
from tickwork.core.recurrence.rrule import rrule
from tickwork.core.recurrence.zones import Dst
from tickwork.errors import InvalidInput

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
    """Return the recurrence rule that a text describes, such as `30 2 * * *` or `every 5m`. Raises InvalidOption."""
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


_VERSION = 1


class _StoredRule(msgspec.Struct, frozen=True):
    version: int
    rule: AnyRule


_encoder = msgspec.json.Encoder()
_rules = msgspec.json.Decoder(_StoredRule)
_calendars = msgspec.json.Decoder(Calendar)


def encode_rule(rule: RuleValue) -> bytes:
    """Return a rule as JSON."""
    return _encoder.encode({"version": _VERSION, "rule": rule})


def decode_rule(data: bytes) -> AnyRule:
    """Return the rule that `encode_rule` encoded. Raises InvalidInput for anything else."""
    try:
        stored = _rules.decode(data)
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"a stored rule cannot be read: {error}. Was it written by a newer Tickwork?") from None
    if stored.version != _VERSION:
        raise InvalidInput(f"a stored rule has version {stored.version}; this Tickwork reads {_VERSION}. Update it.")
    return stored.rule


def encode_calendar(calendar: Calendar) -> bytes:
    """Return a calendar as JSON."""
    return _encoder.encode(calendar)


def decode_calendar(data: bytes) -> Calendar:
    """Return the calendar that `encode_calendar` encoded. Raises InvalidInput for anything else."""
    try:
        return _calendars.decode(data)
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"a stored calendar cannot be read: {error}.") from None
