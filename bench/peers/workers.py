"""Start, watch, measure and stop the worker processes of a peer.

Their current folder is a folder of their own. By it, processes that a dead worker left behind are found, and if this
process is killed, the cleanup process of the folder finds all of them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from bench import proc
from bench.worker import BenchFailed

STOP_LIMIT_S = 5.0


class Workers:
    """All processes of a peer's workers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = folder / "workers.log"
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, commands: Sequence[Sequence[str]], env: Mapping[str, str]) -> None:
        with self._log.open("ab") as log:
            for command in commands:
                self._processes.append(
                    subprocess.Popen(
                        command,
                        cwd=self._folder,
                        env={**os.environ, **env},
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,  # so that Ctrl-C reaches only the benchmark
                    )
                )

    def wait_until(self, done: Callable[[], bool], what: str, limit_s: float, pause_s: float) -> None:
        """Poll until `done` returns true. Raises BenchFailed after the limit, or if a worker has ended."""
        deadline = time.monotonic() + limit_s
        while not done():
            gone = next((one for one in self._processes if one.poll() is not None), None)
            if gone is not None:
                raise BenchFailed(f"A worker exited with code {gone.returncode}.\n{self._tail()}")
            if time.monotonic() > deadline:
                raise BenchFailed(f"Not within {limit_s:.0f} s: {what}.\n{self._tail()}")
            time.sleep(pause_s)

    def pss_mb(self) -> float:
        """Return the memory of all processes, with shared pages counted once."""
        return sum(proc.pss_mb(process.pid) for process in self._processes)

    def cpu_s(self) -> float:
        """Return the CPU time that all processes have used."""
        return sum(proc.cpu_s(process.pid) for process in self._processes)

    def stop(self) -> None:
        """Ask the processes to end, and kill the remaining ones after a time."""
        for process in self._processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        if not self._are_gone_within(STOP_LIMIT_S):
            for pid in self.pids():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        if not self._are_gone_within(STOP_LIMIT_S):
            raise BenchFailed(f"Still there after SIGKILL: {self.pids()}")

    def pids(self) -> list[int]:
        """Return all processes in the folder: the workers, their children, and processes left by dead ones."""
        return [int(link.parent.name) for link in Path("/proc").glob("[0-9]*/cwd") if _target(link) == self._folder]

    def _are_gone_within(self, limit_s: float) -> bool:
        deadline = time.monotonic() + limit_s
        while self.pids() or any(process.poll() is None for process in self._processes):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def _tail(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-8:])


@contextmanager
def running_workers(commands: Sequence[Sequence[str]], folder: Path, env: Mapping[str, str]) -> Iterator[Workers]:
    """Run workers for the duration of a block."""
    home = folder / "workers"
    home.mkdir()
    workers = Workers(home)
    try:
        workers.start(commands, env)
        yield workers
    finally:
        workers.stop()


def _target(link: Path) -> Path | None:
    try:
        return link.readlink()
    except OSError:  # the process ended meanwhile
        return None
