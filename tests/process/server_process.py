"""A `tickwork server` process under test: requests to it, and its memory, CPU time, threads and connections."""

import json
import re
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

from tests.cli.programs import Program, program
from tickwork import Tickwork

TOKEN = "a-token-of-these-tests"
API = "/api/v1"


class Server:
    """A `tickwork server` of these tests."""

    def __init__(self, made: Program) -> None:
        self.program = made
        made.says("server     http://")
        found = re.search(r"http://127\.0\.0\.1:\d+", made.said)
        assert found
        self.address = found[0]
        self._process = psutil.Process(made.process.pid)

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        sent = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json", **headers}
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.address}{API}{path}", data, sent, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"null")

    def connect(self) -> socket.socket:
        where = urlsplit(self.address)
        return socket.create_connection((where.hostname or "", where.port or 0), timeout=60)

    def send(self, client: socket.socket, method: str, path: str, body: bytes = b"", *headers: str) -> None:
        """Send a request, and do not wait for its answer."""
        known = [f"Host: {urlsplit(self.address).netloc}", f"Authorization: Bearer {TOKEN}", *headers]
        length = [] if any("chunked" in one for one in headers) else [f"Content-Length: {len(body)}"]
        lines = [f"{method} {API}{path} HTTP/1.1", *known, "Content-Type: application/json", *length, "", ""]
        client.sendall("\r\n".join(lines).encode() + body)

    @property
    def memory(self) -> int:
        return int(self._process.memory_info().rss)

    @property
    def processor_s(self) -> float:
        """The CPU time that it has used."""
        times = self._process.cpu_times()
        return float(times.user + times.system)

    @property
    def connection_count(self) -> int:
        """The number of connected clients."""
        port = urlsplit(self.address).port
        known = self._process.net_connections("tcp")
        return len([one for one in known if one.laddr.port == port and one.status != psutil.CONN_LISTEN])

    @property
    def threads(self) -> int:
        return int(self._process.num_threads())


@contextmanager
def serving(app: Tickwork, folder: Path) -> Iterator[Server]:
    with program(folder, "server", "--dev", "--port", "0", TICKWORK_URL=app.url, TICKWORK_TOKEN=TOKEN) as made:
        yield Server(made)
