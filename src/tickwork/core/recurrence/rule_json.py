"""JSON of rules and calendars in the store. Rules have a format version, so that old rows stay readable."""

from __future__ import annotations

import msgspec

from tickwork.core.recurrence.calendars.calendar import Calendar
from tickwork.core.recurrence.combine import AnyRule
from tickwork.core.recurrence.rule import RuleValue
from tickwork.errors import InvalidInput

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
