"""A server and a worker as real processes on a store of their own, and the calls that check what pages show."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import httpx2

from tests.waiting import eventually
from tickwork import Tickwork

HERE = Path(__file__).parent
PATH = os.pathsep.join([str(HERE.parents[1]), str(HERE.parents[1] / "src")])  # the code that these tests belong to
TOKEN = "a-token-of-tests"
SECRET_KEY = "5e" * 32
VIEWER, PASSWORD = "vera", "only looks at things"
START_S, STOP_S = 60.0, 10.0
_ADDRESS = re.compile(r"^server +(http://[^/\s]+)", re.MULTILINE)


class Process:
    """A `tickwork` command that ends with the tests, however they end."""

    def __init__(self, url: str, log: Path, arguments: Sequence[str]) -> None:
        given = {"TICKWORK_URL": url, "TICKWORK_TOKEN": TOKEN, "PYTHONPATH": PATH, "PYTHONUNBUFFERED": "1"}
        if not url.startswith("sqlite"):
            given["TICKWORK_SECRET_KEY"] = SECRET_KEY  # beside a SQLite file there is one of its own
        self.log = log
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tickwork", *arguments, "--with-parent", str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env={**os.environ, **given},
                cwd=log.parent,
                start_new_session=True,
            )

    def said(self) -> str:
        assert self._process.poll() is None, f"it ended: {self.log.read_text(errors='replace')[-2000:]}"
        return self.log.read_text(errors="replace")

    def stop(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                self._process.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_S)
                return


class Served:
    """A store with a server at `address` and, unless told otherwise, a worker that runs shop.py.

    `app` is on the same store, and `get`, `post` and `put` call the server with all scopes.
    """

    def __init__(self, url: str, folder: Path, *, worker: bool = True, server: Sequence[str] = ()) -> None:
        self.url = url
        self.app = Tickwork(url, upgrade=True)
        self.app.store.now()
        self._server = Process(url, folder / "server.log", ["server", "--dev", "--port", "0", *server])
        self._worker: Process | None = None
        if worker:
            options = ["-c", "8", "--processes", "2", "--grace", "1s", "--allow-shell"]
            self._worker = Process(url, folder / "worker.log", ["worker", str(HERE / "shop.py"), *options])
        self.address = eventually(self._found_address, START_S, "the server listens")
        headers = {"Authorization": f"Bearer {TOKEN}"}
        self._client = httpx2.Client(base_url=f"{self.address}/api/v1", headers=headers, trust_env=False, timeout=30)
        if worker:
            eventually(self.app.store.reads.workers, START_S, "a worker takes jobs")

    def _found_address(self) -> str:
        found = _ADDRESS.search(self._server.said())
        return found[1] if found else ""

    def get(self, path: str, **query: Any) -> Any:
        return self._answer("GET", path, params=query)

    def post(self, path: str, body: Any = None) -> Any:
        return self._answer("POST", path, json=body)

    def put(self, path: str, body: Any) -> Any:
        return self._answer("PUT", path, json=body)

    def _answer(self, method: str, path: str, **given: Any) -> Any:
        answer = self._client.request(method, path, **given)
        assert answer.is_success, f"{method} {path}: {answer.text}"
        return answer.json() if answer.content else None

    def close(self) -> None:
        for one in (self._worker, self._server):
            if one is not None:
                one.stop()
        self._client.close()
        self.app.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
