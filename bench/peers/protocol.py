"""The benchmark's side of the protocol with drivers: one line of JSON per request, one line per response."""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from bench.worker import ROOT, BenchFailed

DRIVERS = Path(__file__).parent / "drivers"
START_LIMIT_S = 60.0
ANSWER_LIMIT_S = 120.0
STOP_LIMIT_S = 5.0


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message of a driver: first the capabilities of its peer, then the response to each request."""

    bulk: bool = False
    timers: bool = False
    seconds: float = 0.0
    at_ns: list[int] = []
    error: str | None = None


def read(line: bytes) -> Answer:
    """Decode a line. Raises BenchFailed with the error that the driver reports."""
    try:
        answer = msgspec.json.decode(line, type=Answer)
    except msgspec.DecodeError as error:
        raise BenchFailed(f"The driver said {line[:200]!r}: {error}") from None
    if answer.error is not None:
        raise BenchFailed(answer.error)
    return answer


class Driver:
    """A process in a peer's environment that enqueues on request."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log
        able = self._answer(START_LIMIT_S)
        self.bulk, self.timers = able.bulk, able.timers

    def ask(self, do: str, **arguments: float) -> Answer:
        """Send a request and return the response. Raises BenchFailed."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(msgspec.json.encode({"do": do, **arguments}) + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise BenchFailed(f"The driver is gone.\n{self._tail()}") from None
        return self._answer(ANSWER_LIMIT_S)

    def _answer(self, limit_s: float) -> Answer:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], limit_s)
        if not ready:
            raise BenchFailed(f"The driver did not answer within {limit_s:.0f} s.\n{self._tail()}")
        line = self._process.stdout.readline()
        if not line:
            raise BenchFailed(f"The driver ended.\n{self._tail()}")
        return read(line)

    def _tail(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-8:])


@contextmanager
def running_driver(python: str, module: str, folder: Path, env: Mapping[str, str]) -> Iterator[Driver]:
    """Run a peer's driver for the duration of a block."""
    log = folder / "driver.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [python, str(DRIVERS / "driver.py"), module],
            cwd=folder,  # the cleanup process of the folder finds it by this if we are killed
            env={**os.environ, **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
    try:
        yield Driver(process, log)
    finally:
        _end(process)


def environment(url: str) -> dict[str, str]:
    """Return environment variables for drivers and workers: the path of drivers/, and the URL of the store."""
    path = os.pathsep.join([str(DRIVERS), str(ROOT)])
    return {"PYTHONPATH": path, "PEERS_URL": url, "TICKWORK_URL": url}


def _end(process: subprocess.Popen[bytes]) -> None:
    """Close the input of a driver, which ends it; kill it if it does not end."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError):
        process.stdin.close()
    try:
        process.wait(STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(STOP_LIMIT_S)
    process.stdout.close()
