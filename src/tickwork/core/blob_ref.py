"""Blob references: how a row stores a result that is too large for it, by a reference to the blob that holds it.

A reference is JSON, `{"$blob": {"key":"…","size":…}}`, in the place of the result: in a row, in the arguments of a
step, in a list of results. A user's own dict is never mistaken for a reference, because of the space after
`"$blob":`. JSON that Tickwork writes never has that space, and `payload.seal` removes it from JSON that is supplied
encoded. References are therefore found by this mark alone, without decoding the JSON around them.

The key consists of a digest of the content, the job, and the attempt that wrote it. No two attempts write the same
key, so a blob that is not referenced after its attempt has ended will never be referenced.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Self

import msgspec
from msgspec import Raw

from tickwork.errors import BlobError

MARK = b'{"$blob": '
NULL = Raw(b"null")
Path = tuple[str | int, ...]  # keys and indexes on the way into a value

_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_ARRAY = msgspec.json.Decoder(list[Raw])
_PATH = rb'(?:,"path":\[(?:[-\d,]|"(?:[^"\\]|\\.)*")*\])?'
_REFERENCE = re.compile(rb'\{"\$blob": (\{"key":"[\w.-]+","size":\d+' + _PATH + rb"\})\}")
_KEY = re.compile(r"[0-9a-f]{64}\.([\w-]+)\.\d+(?:~[0-9a-f]+)?")


class Unfillable(Exception):
    """Raised for an expression that has no value, because the value to which it refers has no such key."""


class Unreadable(Unfillable):
    """Raised for an expression whose value is in a blob that cannot be read."""


class BlobRef(msgspec.Struct, frozen=True, omit_defaults=True):
    """A reference to a value: a blob of `size` bytes, or the part of it to which `path` leads."""

    key: str
    size: int
    path: Path = ()

    @classmethod
    def of(cls, data: bytes, job_id: str, attempt: int) -> Self:
        """Return the reference to the blob in which an attempt stores its result."""
        return cls(f"{hashlib.sha256(data).hexdigest()}.{job_id}.{attempt}", len(data))

    def encode(self) -> bytes:
        """Return the stored form of the reference."""
        return MARK + msgspec.json.encode(self) + b"}"

    def checked(self, data: bytes) -> bytes:
        """Return data that was read for this reference. Raises BlobError if it is not the data that was written."""
        self.check_digest(hashlib.sha256(data).hexdigest(), len(data))
        return data

    def check_digest(self, digest: str, size: int) -> None:
        """Raise BlobError if the data that was read has another digest or size than the data that was written."""
        if size != self.size or not self.key.startswith(digest):
            raise BlobError(f"blob {self.key} is not what was written: {size:,} of {self.size:,} bytes are there.")


Load = Callable[[BlobRef], bytes]  # returns the content of a blob; raises BlobError


def owner_of(key: str) -> str | None:
    """Return the job that wrote, or began to write (`key~…`), a blob; None for a text that is not a blob key."""
    found = _KEY.fullmatch(key)
    return None if found is None else found[1]


def reference_in(value: bytes | Raw) -> BlobRef | None:
    """Return the reference that a value consists of; None if the value is not a reference."""
    if memoryview(value)[: len(MARK)] != MARK:
        return None
    found = _REFERENCE.fullmatch(value)
    return None if found is None else msgspec.json.decode(found[1], type=BlobRef)


def whole(value: bytes, load: Load) -> bytes:
    """Return JSON with all references replaced by their values. Raises BlobError, and Unfillable for a bad path."""
    if MARK not in value:
        return value
    return _REFERENCE.sub(lambda found: _loaded(msgspec.json.decode(found[1], type=BlobRef), load), value)


def opened(value: Raw, load: Load) -> Raw:
    """Load a value if it is a reference, and return it; references inside of it are kept.

    Raises BlobError and Unfillable.
    """
    reference = reference_in(value)
    return value if reference is None else part_of(Raw(load(reference)), reference.path, "the result")


def _loaded(reference: BlobRef, load: Load) -> bytes:
    return whole(bytes(part_of(Raw(load(reference)), reference.path, "the result")), load)


def part_of(value: Raw, path: Path, what: str) -> Raw:
    """Return the part of a value to which a path leads; inside a blob, a reference to the part. Raises Unfillable.

    Every part of null is null, as for a step that did not succeed.
    """
    for depth, key in enumerate(path):
        if is_null(value):
            return NULL
        reference = reference_in(value)
        if reference is not None:
            further = msgspec.structs.replace(reference, path=(*reference.path, *path[depth:]))
            return Raw(further.encode())
        try:
            value = _OBJECT.decode(value)[key] if isinstance(key, str) else _ARRAY.decode(value)[key]
        except (msgspec.ValidationError, LookupError):
            way = "".join(f"[{part!r}]" for part in path[:depth])
            raise Unfillable(f"{what}{way} has no {key!r}: it is {brief(value)}") from None
    return value


def is_null(value: Raw) -> bool:
    return bytes(value) == b"null"


def brief(value: Raw) -> str:
    """Return a short form of JSON for a message."""
    text = bytes(value).decode()
    return text if len(text) <= 80 else f"{text[:77]}..."
