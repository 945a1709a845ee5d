"""Export of the audit log as JSON lines: to a file, to syslog, or by HTTP.

Rows are sent in the order of the chain, each with its link, and at least once: the position is stored after the sink
has accepted the rows. One process at a time sends to a sink; another takes over when its lease of the sink has expired.
"""

from __future__ import annotations

import base64
import http.client
import os
import socket
import ssl
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec

from tickwork.core.text.mask_url import masked
from tickwork.errors import InvalidInput, StoreUnreachable
from tickwork.store.admin.audit import LinkedRow
from tickwork.store.base import Store

INTERVAL_S = 2.0
BATCH = 100
TURN = timedelta(minutes=1)  # longer than one batch may take
WAIT_S = 10.0  # for each response of a sink
_SYSLOG = "/dev/log"
_PRIORITY = 13 * 8 + 6  # facility 13 (audit log), severity 6 (informational)


class LineSink(Protocol):
    """A destination of lines."""

    def send(self, lines: Sequence[bytes]) -> None:
        """Send lines in order, and return only once all were accepted.

        If it raises OSError, some of them may have been accepted.
        """


class AuditSink:
    """Sends new rows of the audit log to a sink. Safe to run many times at once, on many machines."""

    def __init__(self, store: Store, url: str, holder: str) -> None:
        self._store = store
        self._sink = read_sink(url)
        self._name = masked(url)
        self._holder = holder

    def tick(self, now: float) -> float:
        """Send one batch of rows; return the seconds until the next. Raises StoreUnreachable if the sink fails."""
        after = self._store.audit.take_audit_sink(self._name, self._holder, TURN)
        if after is None:
            return INTERVAL_S
        page = self._store.audit.linked_changes(after, BATCH)
        lines = [line_of(one) for one in page if one.row is not None]
        if lines:
            try:
                self._sink.send(lines)
            except (OSError, http.client.HTTPException) as error:
                raise StoreUnreachable(f"the audit sink {self._name} cannot be written: {error}. Rows wait.") from error
        if page:
            self._store.audit.move_audit_sink(self._name, self._holder, page[-1].link.number)
        return 0.0 if len(page) == BATCH else INTERVAL_S


def line_of(one: LinkedRow) -> bytes:
    """Return a row with its link as a line of JSON."""
    row, link = one.row, one.link
    if row is None:
        raise TypeError(f"link {link.number} has no row")
    change = row.change
    said: dict[str, Any] = {
        "number": link.number,
        "hash": link.hash,
        "id": row.id,
        "at": row.at,
        "who": change.who,
        "action": change.action,
        "target": change.target,
        "before": None if change.before is None else msgspec.Raw(change.before),
        "after": None if change.after is None else msgspec.Raw(change.after),
        "request_id": change.request_id,
        "address": change.address,
    }
    return msgspec.json.encode(said) + b"\n"


def read_sink(url: str) -> LineSink:
    """Return the sink that a setting names. Raises InvalidInput."""
    parts = urlsplit(url)
    if parts.scheme == "file" and not parts.netloc and parts.path.startswith("/"):
        return FileSink(Path(unquote(parts.path)))
    if parts.scheme == "syslog":
        return SyslogSink(parts.hostname, parts.port or 601, unquote(parts.path) or _SYSLOG)
    if parts.scheme in ("http", "https") and parts.hostname:
        return HttpSink(parts)
    raise InvalidInput(
        f"audit_sink is {masked(url)!r}. Write file:///var/log/tickwork-audit.jsonl, syslog: for this machine, "
        f"syslog://host:601 (TCP), or https://user:password@host/path."
    )


class FileSink:
    """Appends to a file readable by its owner only. It is opened for each batch, so it may be rotated at any time."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def send(self, lines: Sequence[bytes]) -> None:
        descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            data = b"".join(lines)
            size = file.seek(0, os.SEEK_END)
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                data = b"\n" + data  # a line was cut off when the disk was full; it is sent again
            while data:
                data = data[file.write(data) :]
            os.fsync(descriptor)


class SyslogSink:
    """Sends to the syslog of this machine, or to a host over TCP (RFC 5424, RFC 6587)."""

    def __init__(self, host: str | None, port: int, path: str) -> None:
        self._host = host
        self._port = port
        self._path = path

    def send(self, lines: Sequence[bytes]) -> None:
        messages = [f"<{_PRIORITY}>1 - - tickwork - audit - ".encode() + line.rstrip(b"\n") for line in lines]
        if self._host is None:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as local:
                local.settimeout(WAIT_S)
                local.connect(self._path)
                for message in messages:
                    local.send(message)
            return
        with socket.create_connection((self._host, self._port), WAIT_S) as remote:
            remote.sendall(b"".join(b"%d %s" % (len(message), message) for message in messages))
            remote.shutdown(socket.SHUT_WR)
            remote.recv(1)  # the server closes the connection when it has read everything


class HttpSink:
    """Posts each batch as newline-delimited JSON. A status of 200 to 299 means accepted; redirects are not followed."""

    def __init__(self, parts: SplitResult) -> None:
        self._parts = parts
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._headers = {"Content-Type": "application/x-ndjson"}
        if parts.username is not None:
            said = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
            self._headers["Authorization"] = f"Basic {base64.b64encode(said).decode()}"

    def send(self, lines: Sequence[bytes]) -> None:
        host, port = str(self._parts.hostname), self._parts.port
        connection: http.client.HTTPConnection
        if self._parts.scheme == "https":
            connection = http.client.HTTPSConnection(host, port, timeout=WAIT_S, context=ssl.create_default_context())
        else:
            connection = http.client.HTTPConnection(host, port, timeout=WAIT_S)
        try:
            connection.request("POST", self._path, b"".join(lines), self._headers)
            answer = connection.getresponse()
        finally:
            connection.close()
        if not 200 <= answer.status < 300:
            raise OSError(f"it answered {answer.status}")
