"""How a result that is too large for a row is written there: as a reference to a blob, which holds it.

A reference is JSON, `{"$blob": {"key":"…","size":…}}`, and stands wherever the result would: in a row, in the arguments
of a step, in a list of results. A user's own dict is never taken for one, because of the space after `"$blob":`. No
JSON that we write has one there, and `payload.seal` takes it out of JSON that comes ready-made. So references are found
by that mark alone, and what stands around them is not read.

The key says what is in the blob and whose it is: a digest, the job, and the attempt that wrote it. No two attempts
write the same one, so a blob that nobody names after its attempt has ended will never be named.
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
Path = tuple[str | int, ...]  # keys and positions on the way into a value

_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_ARRAY = msgspec.json.Decoder(list[Raw])
_PATH = rb'(?:,"path":\[(?:[-\d,]|"(?:[^"\\]|\\.)*")*\])?'
_REFERENCE = re.compile(rb'\{"\$blob": (\{"key":"[\w.-]+","size":\d+' + _PATH + rb"\})\}")
_KEY = re.compile(r"[0-9a-f]{64}\.([\w-]+)\.\d+(?:~[0-9a-f]+)?")


class Unfillable(Exception):
    """A reference leads to nothing: the value is there, and has no such key."""


class Unreadable(Unfillable):
    """A reference leads to a blob that cannot be read."""


class BlobRef(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a value is: a blob of `size` bytes, or the part of it to which a path leads."""

    key: str
    size: int
    path: Path = ()

    @classmethod
    def of(cls, data: bytes, job_id: str, attempt: int) -> Self:
        """What to call the blob in which an attempt leaves its result."""
        return cls(f"{hashlib.sha256(data).hexdigest()}.{job_id}.{attempt}", len(data))

    def encode(self) -> bytes:
        """The reference, as it is stored."""
        return MARK + msgspec.json.encode(self) + b"}"

    def checked(self, data: bytes) -> bytes:
        """What was read for it. Raises BlobError when that is not what was written."""
        self.check_digest(hashlib.sha256(data).hexdigest(), len(data))
        return data

    def check_digest(self, digest: str, size: int) -> None:
        """Raise BlobError when what was read has another digest or size than what was written."""
        if size != self.size or not self.key.startswith(digest):
            raise BlobError(f"blob {self.key} is not what was written: {size:,} of {self.size:,} bytes are there.")


Load = Callable[[BlobRef], bytes]  # what a blob holds; raises BlobError


def owner_of(key: str) -> str | None:
    """The job that wrote a blob, or has begun to (`key~…`); None for what is no key of ours."""
    found = _KEY.fullmatch(key)
    return None if found is None else found[1]


def reference_in(value: bytes | Raw) -> BlobRef | None:
    """The reference that a value is, if it is one."""
    if memoryview(value)[: len(MARK)] != MARK:
        return None
    found = _REFERENCE.fullmatch(value)
    return None if found is None else msgspec.json.decode(found[1], type=BlobRef)


def whole(value: bytes, load: Load) -> bytes:
    """JSON with the values in the place of all references to them. Raises BlobError, and Unfillable for a bad path."""
    if MARK not in value:
        return value
    return _REFERENCE.sub(lambda found: _loaded(msgspec.json.decode(found[1], type=BlobRef), load), value)


def opened(value: Raw, load: Load) -> Raw:
    """A value that is not itself a reference, though there may be some inside of it."""
    reference = reference_in(value)
    return value if reference is None else part_of(Raw(load(reference)), reference.path, "the result")


def _loaded(reference: BlobRef, load: Load) -> bytes:
    return whole(bytes(part_of(Raw(load(reference)), reference.path, "the result")), load)


def part_of(value: Raw, path: Path, what: str) -> Raw:
    """The part of a value to which a path leads; of a blob, a reference to it. Raises Unfillable.

    None has parts that are None, as a step that did not succeed has.
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
    """JSON for a sentence about it."""
    text = bytes(value).decode()
    return text if len(text) <= 80 else f"{text[:77]}..."
