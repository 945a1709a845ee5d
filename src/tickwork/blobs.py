"""Blob storage for results too large for the store; the store holds references to them (`core/blob_ref.py`).

A blob is written before the end of its job is stored, and deleted after its job is deleted. A crash in between leaves
a blob that no row refers to; the pruner deletes such blobs later.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Protocol, runtime_checkable

from tickwork.config import Settings, sqlite_path
from tickwork.core.arguments.payload import BLOB_LIMIT, RESULT_LIMIT, too_large
from tickwork.core.blob_ref import MARK, BlobRef, Unfillable, owner_of, reference_in, whole
from tickwork.errors import BlobError, InvalidArguments, InvalidInput, InvalidPayload
from tickwork.file_modes import FILE_MODE, FOLDER_MODE, exposed, narrow

AN_OBJECT = "an object of the program"  # value of the setting when Tickwork(blobs=...) got an object
READ_LIMIT = 64 * 1024 * 1024  # for results that a server assembles in memory for one request
_CHUNK = 1024 * 1024
_NAMED = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


@runtime_checkable
class Blobs(Protocol):
    """Blob storage, such as a folder or a bucket, that every worker and every reader of results can access.

    Keys are letters, digits, dots and dashes. Each key is written once. Data that is read is checked against its
    reference.
    """

    def put(self, key: str, data: bytes) -> None:
        """Store a blob. It must be durable when this method returns, because the end of the job is stored next."""

    def get(self, key: str) -> bytes:
        """Return a blob."""

    def delete(self, keys: Sequence[str]) -> None:
        """Delete blobs; some of them may already be deleted."""

    def keys(self, before: datetime) -> Iterable[str]:
        """Return the keys of the blobs written before an instant."""


class LocalBlobs:
    """Blobs as files in a folder, which is created on first use. Any number of processes may share the folder.

    A file is written under a temporary name, synced and renamed, so a blob exists completely or not at all. Files and
    created folders are accessible to this user only. An existing folder keeps its mode.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(os.path.abspath(folder))

    def __repr__(self) -> str:
        return f"LocalBlobs({str(self.folder)!r})"

    def put(self, key: str, data: bytes) -> None:
        path = self._path(key)
        _make_folder(path.parent)
        narrow(path.parent)
        partial = path.with_name(f"{key}~{secrets.token_hex(8)}")
        try:
            with open(partial, "xb", opener=_open_private) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.rename(partial, path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        _sync(path.parent)

    def get(self, key: str) -> bytes:
        return self._path(key).read_bytes()

    def open(self, key: str) -> BinaryIO:
        """Open the file of a blob, for readers that must not load all of it into memory."""
        return open(self._path(key), "rb")

    def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            self._path(key).unlink(missing_ok=True)

    def keys(self, before: datetime) -> Iterator[str]:
        """Yield the keys of blobs written before an instant, and the names of files that a crash left incomplete."""
        for path in self.folder.glob("[0-9a-f][0-9a-f]/*"):
            if owner_of(path.name) is not None and _is_before(path, before):
                yield path.name

    def trouble(self) -> str | None:
        """Return why nothing can be written, as far as is known without writing; None if no problem is known."""
        there = self.folder
        while not there.exists() and there != there.parent:
            there = there.parent
        if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
            return None
        return f"{there} cannot be written" if there.is_dir() else f"{there} is not a folder"

    def exposed(self) -> list[Path]:
        """Return the folders in which other users of this machine may read blobs or create files."""
        if not exposed([self.folder]):
            return []
        return exposed([self.folder], stat.S_IWGRP | stat.S_IWOTH) + exposed(self.folder.glob("[0-9a-f][0-9a-f]"))

    def _path(self, key: str) -> Path:
        if "/" in key or key.startswith("."):
            raise ValueError(f"{key!r} is not the key of a blob")
        return self.folder / key[:2] / key


class NamedBlobs:
    """Blob storage implemented by an object that the settings name, `shop.storage:blobs`, imported on first use."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name

    @cached_property
    def _blobs(self) -> Blobs:
        """The imported object. Raises BlobError if it cannot be imported or does not implement Blobs."""
        module, _, attribute = self._name.partition(":")
        if "" not in sys.path and str(Path.cwd()) not in sys.path:
            sys.path.insert(0, str(Path.cwd()))
        try:
            found: Any = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise BlobError(f"the setting blobs names {self._name}, which cannot be imported: {error}.") from error
        if not isinstance(found, Blobs):
            raise BlobError(f"the setting blobs names {self._name}, which is no tickwork.Blobs but {found!r}.")
        return found

    def put(self, key: str, data: bytes) -> None:
        self._blobs.put(key, data)

    def get(self, key: str) -> bytes:
        return self._blobs.get(key)

    def delete(self, keys: Sequence[str]) -> None:
        self._blobs.delete(keys)

    def keys(self, before: datetime) -> Iterable[str]:
        return self._blobs.keys(before)


def open_blobs(settings: Settings) -> Blobs | None:
    """Return the blob storage that the settings name; for a SQLite file the default is a folder beside it."""
    if settings.blobs == AN_OBJECT:
        raise InvalidInput(
            "Tickwork(blobs=...) was given an object, and the supervisor of a worker, which never runs your code, "
            "needs it too. Give its name instead: Tickwork(blobs='shop.storage:blobs')."
        )
    if settings.blobs is not None:
        return NamedBlobs(settings.blobs) if _NAMED.fullmatch(settings.blobs) else LocalBlobs(settings.blobs)
    path = sqlite_path(settings.place)
    if path is None:
        return None
    beside = LocalBlobs(f"{path}-blobs")
    narrow(beside.folder)  # no other program uses this folder, unlike a folder that the settings name
    return beside


class TooMuch(Exception):
    """Raised when a value together with the blobs that it refers to is larger than the reader allows."""


class LargeResults:
    """Converts results to the form stored in rows: the result itself, or a reference to a blob."""

    def __init__(self, blobs: Blobs | None) -> None:
        self._blobs = blobs

    def keep(self, data: bytes, job_id: str, attempt: int, what: str) -> bytes:
        """Return what to store for a result; a result too large for a row is first written to a blob.

        Raises InvalidPayload, which names `what`, if the result is too large for a blob or no blob storage is
        configured, and BlobError if the blob cannot be written.
        """
        if len(data) <= RESULT_LIMIT:
            return data
        if len(data) > BLOB_LIMIT:
            raise too_large(data, what=what, limit_bytes=BLOB_LIMIT)
        if self._blobs is None:
            raise InvalidPayload(
                f"{what} is {len(data):,} bytes; the cap is {RESULT_LIMIT:,} where no place for blobs is set. Set "
                f"TICKWORK_BLOBS, or Tickwork(blobs=...), to a folder that all machines share."
            )
        reference = BlobRef.of(data, job_id, attempt)
        try:
            self._blobs.put(reference.key, data)
        except BlobError:
            raise
        except Exception as error:  # any exception of the library that accesses the blobs
            raise BlobError(f"{what} could not be written to {self._blobs!r}: {_said(error)}.") from error
        return reference.encode()

    def load(self, reference: BlobRef) -> bytes:
        """Return the data of the blob that a reference names. Raises BlobError."""
        if self._blobs is None:
            raise BlobError(f"blob {reference.key} cannot be read here: no place for blobs is set (TICKWORK_BLOBS).")
        try:
            data = self._blobs.get(reference.key)
        except BlobError:
            raise
        except Exception as error:
            raise BlobError(f"blob {reference.key} is not in {self._blobs!r}: {_said(error)}.") from error
        return reference.checked(data)

    def whole(self, data: bytes, limit_bytes: int | None = None) -> bytes:
        """Return stored JSON with its references replaced by their data.

        Raises BlobError, InvalidArguments for a bad path, and TooMuch before more than `limit_bytes` are read.
        """
        read_bytes = 0

        def load(reference: BlobRef) -> bytes:
            nonlocal read_bytes
            read_bytes += reference.size
            if limit_bytes is not None and read_bytes > limit_bytes:
                raise TooMuch(f"{read_bytes:,} bytes")
            return self.load(reference)

        try:
            return whole(data, load)
        except Unfillable as error:
            raise InvalidArguments(f"{error}.") from None

    def opened(self, data: bytes) -> BinaryIO | None:
        """Return a checked file with the complete large result, or None if the result cannot be read from one file.

        Returns None if the result must be assembled, or if the blob storage has no method `open`. Raises BlobError.
        """
        reference, open_blob = reference_in(data), getattr(self._blobs, "open", None)
        if reference is None or reference.path or open_blob is None:
            return None
        try:
            file: BinaryIO = open_blob(reference.key)
        except Exception as error:
            raise BlobError(f"blob {reference.key} is not in {self._blobs!r}: {_said(error)}.") from error
        try:
            is_plain = _check_file(file, reference)
        except BaseException:
            file.close()
            raise
        if is_plain:
            file.seek(0)
            return file
        file.close()
        return None


def _check_file(file: BinaryIO, reference: BlobRef) -> bool:
    """Return whether a file refers to no other blobs. Raises BlobError if its content is not what was written."""
    digest, size, end, is_plain = hashlib.sha256(), 0, b"", True
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
        size += len(chunk)
        is_plain = is_plain and MARK not in end + chunk
        end = chunk[-len(MARK) :]
    reference.check_digest(digest.hexdigest(), size)
    return is_plain


def _said(error: Exception) -> str:
    return str(error).removesuffix(".") or type(error).__name__


def _is_before(path: Path, instant: datetime) -> bool:
    with suppress(FileNotFoundError):  # another process deleted it meanwhile
        return datetime.fromtimestamp(path.stat().st_mtime, UTC) < instant
    return False


def _make_folder(folder: Path) -> None:
    """Create a folder and its parents, and sync each, so that they are as durable as the files in the folder."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    with suppress(FileExistsError):
        folder.mkdir(mode=FOLDER_MODE)
    _sync(folder.parent)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, FILE_MODE)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
