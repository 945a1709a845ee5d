"""One command as a process group of its own: started, fed, read and ended by one thread.

A handler's thread can be interrupted between any two instructions, also between the birth of a process and the line
that remembers its number. The thread here cannot. Each command waits behind a gate until a guard knows its group, so
there is no moment at which a worker that is killed with -9 leaves one behind: it has not begun, or it is killed.
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
LOOK_S = 0.05  # how soon it is noticed that a signal is to be sent, or that only what was left running holds the pipes
LINGER_S = 1.0  # what was left running may write for so long, as in `exec > >(tee log)`
_FIRST_LOOK_S = 0.001
_CHUNK = 65_536
# The first line of stdin opens the gate; what follows it is the command's own. Without one, the worker is gone.
_GATE = ["/bin/sh", "-c", 'read -r go && exec "$@"', "sh"]
_OPEN = b"go\n"
# As another user a command goes to its folder by itself: the worker may reach folders that this user may not. Where no
# folder was named, it stays in / rather than in one that it cannot reach.
_GATE_TO = ["/bin/sh", "-c", 'read -r go && cd "$1" && shift && exec "$@"', "sh"]
_GATE_NEAR = ["/bin/sh", "-c", 'read -r go || exit; cd "$1" 2>/dev/null; shift; exec "$@"', "sh"]

_guard_lock = threading.Lock()
_guards: list[OrphanKiller] = []


class RunningCommand:
    """A command to run. `done` is set when it has ended and nothing of its group runs any more."""

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
        """Send a signal to its whole group, soon."""
        self._signals.append(number)

    def end(self, grace_s: float) -> None:
        """Return when it has ended: asked to at first, killed after a while.

        A thread that does not live yet finds that it is not wanted, before it starts anything.
        """
        self._unwanted = True
        if self._thread.is_alive():
            self.send_signal(signal.SIGTERM)
            if not self.done.wait(grace_s):
                self.send_signal(signal.SIGKILL)
                self.done.wait()

    # -- on its own thread

    def _run(self) -> None:
        try:
            if not self._unwanted:
                self._live()
        except Exception as error:  # told by whoever waits
            self.error = error
        finally:
            self.done.set()

    def _live(self) -> None:
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
            _kill_group(process.pid)  # while its number is still taken: it has not been reaped
            self.exit_code = process.wait()
            with _guard_lock:
                _guard().remove(process.pid)

    def _pump(self, process: subprocess.Popen[bytes]) -> None:
        """Feed and read it until its pipes are closed, or it has ended and they are quiet, or it ended a while ago."""
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
        """Write what the pipe takes; False when all was written, or nobody reads it."""
        try:
            self._unsent = self._unsent[os.write(pipe, self._unsent[:_CHUNK]) :]
        except BlockingIOError:
            return True
        except BrokenPipeError:
            return False
        return bool(self._unsent)

    def _read(self, stream: Stream, pipe: int) -> bool:
        """Pass on what is there; False at the end."""
        with suppress(BlockingIOError):
            data = os.read(pipe, _CHUNK)
            self._wrote(stream, data)
            return bool(data)
        return True

    def _await_end(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until the command itself has ended; mostly that is a moment after its pipes were closed."""
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
    """The folder that this process is in; / where somebody deleted that."""
    try:
        return os.getcwd()
    except OSError:
        return "/"


def _has_ended(pid: int) -> bool:
    """Whether a child of ours has ended. It stays a zombie, so that nobody else can be given its number."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _kill_group(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _guard() -> OrphanKiller:
    """The guard of this process, made for its first command."""
    if not _guards:
        _guards.append(OrphanKiller())
    return _guards[0]
