"""Versioned JSON for stored flow-control values, so that old rows can always be read."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from tickwork.errors import InvalidInput

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
