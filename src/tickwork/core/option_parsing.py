"""Flow-control options: check texts, numbers and durations, refuse invalid ones, and store values as versioned JSON."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Generic, TypeVar

import msgspec

from tickwork.core.text.duration import format_duration, parse_duration
from tickwork.core.text.suggestions import closest
from tickwork.errors import InvalidInput, InvalidOption

NAME_LIMIT = 200
LARGEST = 1_000_000
_MICROSECOND = timedelta(microseconds=1)


def read_text(what: str, value: Any) -> str:
    """Return a text that can be stored, shown and typed. Raises InvalidOption, which names `what`."""
    if not isinstance(value, str) or not value or len(value) > NAME_LIMIT or not value.isprintable():
        raise InvalidOption(f"{what} must be a printable text of 1 to {NAME_LIMIT} characters, not {shown(value)}.")
    return value


def read_whole(what: str, value: Any, low: int, high: int) -> int:
    """Return a whole number from `low` to `high`. Raises InvalidOption, which names `what`."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise InvalidOption(f"{what} must be a whole number from {low} to {high:,}, not {shown(value)}.")
    return value


def read_span(what: str, value: Any, shortest: timedelta, longest: timedelta) -> timedelta:
    """Return a duration from `shortest` to `longest`. Raises InvalidOption, which names `what`."""
    span = parse_duration(value, what=what)
    if not shortest <= span <= longest:
        between = f"{format_duration(shortest)} to {format_duration(longest)}"
        raise InvalidOption(f"{what}: {shown(value)} is not from {between}.")
    return span


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint for an unknown name: "did you mean ...?", or all known names."""
    names = list(known)
    close = closest(name, names)
    return f"did you mean {close!r}?" if close else f"there are: {', '.join(names) or 'none'}."


def to_us(span: timedelta) -> int:
    """Return a duration in microseconds, exactly."""
    return span // _MICROSECOND


def shown(value: Any) -> str:
    """Return a value as errors show it."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


_VERSION = 1
_envelopes = msgspec.json.Decoder(dict[str, msgspec.Raw])
_versions = msgspec.json.Decoder(int)

T = TypeVar("T")


class VersionedJson(Generic[T]):
    """The stored form of one kind of value: `{"version": 1, "<name>": ...}`."""

    def __init__(self, name: str, decoder: msgspec.json.Decoder[T]) -> None:
        self._name = name
        self._values = decoder

    def encode(self, value: T) -> bytes:
        """Return the stored form of a value."""
        return msgspec.json.encode({"version": _VERSION, self._name: value})

    def decode(self, data: bytes) -> T:
        """Return the value from its stored form. Raises InvalidInput for any other data."""
        what = f"stored {self._name}"
        try:
            parts = _envelopes.decode(data)
            version = _versions.decode(parts.get("version", b"0"))
            if version != _VERSION:
                raise InvalidInput(f"{what}: version {version}; this Tickwork reads {_VERSION}. Update it.")
            return self._values.decode(parts.get(self._name, b""))
        except msgspec.MsgspecError as error:
            raise InvalidInput(f"{what} cannot be read: {error}. Was it written by a newer Tickwork?") from None
