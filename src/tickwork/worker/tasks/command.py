"""Run a command as its own process group, with a thread that starts it, pipes its input and output, and kills it.

A handler's thread can be interrupted between any two instructions, even between the start of a process and the line
that records its process id. The thread of a command is never interrupted. Each command is started behind a small shell
script, the gate, and begins only after the orphan killer has recorded its group. So a worker that is killed with
SIGKILL never leaves a command running: the command has not begun, or the orphan killer kills it.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from contextvars import copy_context
from functools import partial
from typing import IO, Literal, cast

from tickwork.clock import SystemClock
from tickwork.worker.tasks.orphan_killer import OrphanKiller
from tickwork.worker.tasks.run_as import SystemUser

Stream = Literal["stdout", "stderr"]
LOOK_S = 0.05  # the interval of checks for signals to send, and for the end of a command whose pipes are still open
LINGER_S = 1.0  # how long processes that the command left running may still write, as in `exec > >(tee log)`
_FIRST_LOOK_S = 0.001
_CHUNK = 65_536
# The first line of stdin opens the gate; the rest is the input of the command. End-of-file means the worker has died.
_GATE = ["/bin/sh", "-c", 'read -r go && exec "$@"', "sh"]
_OPEN = b"go\n"
# With another user, the gate changes to the folder as that user, because the worker may reach folders that this user
# may not. If no folder was given and the user cannot reach the worker's folder, the command runs in /.
_GATE_TO = ["/bin/sh", "-c", 'read -r go && cd "$1" && shift && exec "$@"', "sh"]
_GATE_NEAR = ["/bin/sh", "-c", 'read -r go || exit; cd "$1" 2>/dev/null; shift; exec "$@"', "sh"]

_guard_lock = threading.Lock()
_guards: list[OrphanKiller] = []


class RunningCommand:
    """A command to run. `done` is set when the command and all processes of its group have ended."""

    def __init__(
        self,
        arguments: Sequence[str],
        env: Mapping[str, str],
        cwd: str | None,
        stdin: bytes,
        wrote: Callable[[Stream, bytes], None],
        user: SystemUser | None = None,
    ) -> None:
        self._arguments = [*_GATE, *arguments]
        self._env = env
        self._cwd = cwd
        if user is not None:
            gate, folder = (_GATE_NEAR, _own_folder()) if cwd is None else (_GATE_TO, os.path.abspath(cwd))
            self._arguments, self._cwd = [*gate, folder, *arguments], "/"
        self._unsent = memoryview(_OPEN + stdin)
        self._wrote = wrote
        self._user = user
        self._signals: list[signal.Signals] = []
        self.done = threading.Event()
        self.exit_code: int | None = None
        self.error: Exception | None = None
        self._clock = SystemClock()
        self._unwanted = False
        self._thread = threading.Thread(
            target=copy_context().run, args=(self._run,), name="tickwork-command", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the process group of the command, within `LOOK_S` seconds."""
        self._signals.append(number)

    def end(self, grace_s: float) -> None:
        """End the command with SIGTERM, or SIGKILL after `grace_s` seconds, and wait until it has ended.

        If its thread has not started yet, the thread will not start the command.
        """
        self._unwanted = True
        if self._thread.is_alive():
            self.send_signal(signal.SIGTERM)
            if not self.done.wait(grace_s):
                self.send_signal(signal.SIGKILL)
                self.done.wait()

    # -- on the command's thread

    def _run(self) -> None:
        try:
            if not self._unwanted:
                self._live()
        except Exception as error:  # reported by the thread that waits for `done`
            self.error = error
        finally:
            self.done.set()

    def _live(self) -> None:
        """Start the process, pipe its input and output until it ends, and kill the rest of its group."""
        process = subprocess.Popen(
            self._arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self._env,
            cwd=self._cwd,
            bufsize=0,
            start_new_session=True,
            **({} if self._user is None else self._user.identity),
        )
        with _guard_lock:
            _guard().add(process.pid)
        try:
            self._pump(process)
            self._await_end(process)
        finally:
            _kill_group(process.pid)  # before it is reaped, so that its process id cannot have been reused
            self.exit_code = process.wait()
            with _guard_lock:
                _guard().remove(process.pid)

    def _pump(self, process: subprocess.Popen[bytes]) -> None:
        """Pipe input and output until all pipes are closed, or the command has ended.

        After its end, read until the pipes are idle, but for at most `LINGER_S` seconds.
        """
        moves: list[tuple[IO[bytes] | None, int, Callable[[int], bool]]] = [
            (process.stdin, selectors.EVENT_WRITE, self._feed),
            (process.stdout, selectors.EVENT_READ, partial(self._read, "stdout")),
            (process.stderr, selectors.EVENT_READ, partial(self._read, "stderr")),
        ]
        ended_at: float | None = None
        with selectors.DefaultSelector() as pipes, ExitStack() as stack:
            for pipe, events, move in moves:
                if pipe is not None:
                    os.set_blocking(stack.enter_context(pipe).fileno(), False)
                    pipes.register(pipe, events, move)
            while pipes.get_map():
                ready = pipes.select(LOOK_S)
                for key, _ in ready:
                    if not key.data(key.fd):
                        pipes.unregister(key.fileobj)
                        cast(IO[bytes], key.fileobj).close()
                self._send_signals(process.pid)
                if ended_at is None and _has_ended(process.pid):
                    ended_at = self._clock.monotonic()
                if ended_at is not None and (not ready or self._clock.monotonic() - ended_at > LINGER_S):
                    return

    def _feed(self, pipe: int) -> bool:
        """Write as much input as the pipe takes; return False when all is written or the pipe has no reader."""
        try:
            self._unsent = self._unsent[os.write(pipe, self._unsent[:_CHUNK]) :]
        except BlockingIOError:
            return True
        except BrokenPipeError:
            return False
        return bool(self._unsent)

    def _read(self, stream: Stream, pipe: int) -> bool:
        """Read available output and pass it on; return False at end-of-file."""
        with suppress(BlockingIOError):
            data = os.read(pipe, _CHUNK)
            self._wrote(stream, data)
            return bool(data)
        return True

    def _await_end(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until the command itself has ended; usually it ends shortly after its pipes were closed."""
        pause_s = _FIRST_LOOK_S
        while not _has_ended(process.pid):
            self._send_signals(process.pid)
            threading.Event().wait(pause_s)
            pause_s = min(LOOK_S, 2 * pause_s)

    def _send_signals(self, group: int) -> None:
        while self._signals:
            with suppress(ProcessLookupError):
                os.killpg(group, self._signals.pop(0))


def _own_folder() -> str:
    """Return the current folder of this process, or / if it was deleted."""
    try:
        return os.getcwd()
    except OSError:
        return "/"


def _has_ended(pid: int) -> bool:
    """Return whether a child process has ended, without reaping it, so that its process id is not reused."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _kill_group(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _guard() -> OrphanKiller:
    """Return the orphan killer of this process; it is created for the first command."""
    if not _guards:
        _guards.append(OrphanKiller())
    return _guards[0]
