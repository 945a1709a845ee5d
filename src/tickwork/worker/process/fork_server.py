"""The supervisor's side of the nursery, the process that forks its children and outlives it by a moment.

`tickwork worker` forks its nursery early, while it has one thread and has opened nothing, so that the two and all
children share the memory of what was imported. In a process where that is not sure, the user's own say, or when the
first nursery was killed, a new interpreter becomes the nursery. Either way children are born in the same manner.

A nursery that is killed takes its children with it. They count as killed, and whoever needs a child starts another
nursery.
"""

from __future__ import annotations

import gc
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NoReturn

from tickwork.clock import SystemClock
from tickwork.core.command_env import OF_VAULT
from tickwork.worker.ipc.protocol import FrameReader, frame
from tickwork.worker.process.after_fork import forget_parent
from tickwork.worker.process.child import ChildOptions
from tickwork.worker.process.fork_server_main import (
    MINDED,
    Born,
    Exited,
    Release,
    Spawn,
    ToNursery,
    from_nursery,
    kill_family,
    kill_group,
    run,
)
from tickwork.worker.process.hide_environment import forget_variables

_log = logging.getLogger("tickwork.worker")
ANSWER_S = 30.0  # a nursery that says nothing for so long, though it is waited for, is killed
QUIT_S = 5.0
_PROGRAM = "import sys, tickwork.app; from tickwork.worker.process.fork_server_main import main; main(sys.argv[1:])"
_clock = SystemClock()


def fork_nursery(forget: Callable[[], None]) -> ForkServer | None:
    """Fork a nursery of this process, or return None where that is not safe: another thread may hold a lock.

    Everything that children need is imported by now. `forget` is called in the nursery, to let go of what is the
    caller's own. Nothing that the caller has begun goes on there, or is ended there.
    """
    if not _is_alone():
        return None
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.flush()  # else both would write what waits in it
    gc.freeze()  # a collection writes to what it looks at, and so copies the pages that are shared
    parent, (ours, theirs) = os.getpid(), _pair()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, MINDED)  # until the nursery has handlers of its own
    try:
        pid = os.fork()
        if pid == 0:
            _be_nursery(ours, theirs, parent, forget)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    theirs.close()
    return ForkServer(ours, pid, partial(_end_fork, pid))


def _be_nursery(ours: socket.socket, theirs: socket.socket, parent: int, forget: Callable[[], None]) -> NoReturn:
    try:
        os.setsid()
        ours.close()
        forget_variables(OF_VAULT)
        forget()
        forget_parent(keep=[theirs.fileno()])
        run(theirs, parent)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(1)


def _is_alone() -> bool:
    """Whether this process has one thread, those that Python does not know of included (Linux)."""
    try:
        return len(os.listdir("/proc/self/task")) == 1
    except OSError:
        return threading.active_count() == 1


def start_nursery() -> ForkServer:
    """Start a nursery as a new interpreter."""
    ours, theirs = _pair()
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _PROGRAM, str(theirs.fileno()), str(os.getpid())],
        env=_without_key(os.environb),
        pass_fds=[theirs.fileno()],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    theirs.close()
    return ForkServer(ours, process.pid, partial(_end_program, process))


def _end_fork(pid: int) -> None:
    with suppress(ProcessLookupError, ChildProcessError):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _end_program(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of a stream, with numbers that are not those of the standard streams, though these may be closed."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)


class ForkServer:
    """A nursery that was asked for. All calls come from one thread at a time, except `hear`."""

    def __init__(self, connection: socket.socket, pid: int, end: Callable[[], None]) -> None:
        self.pid = pid
        self.lost = False
        self._connection = connection
        self._end = end  # kills and reaps it
        self._frames = FrameReader()
        self._children: dict[int, ForkedChild] = {}
        self._count = 0
        self._hearing = threading.Lock()

    def spawn(self, descriptors: Sequence[int], what: ChildOptions) -> ForkedChild:
        """Have a child made that gets these descriptors. It is there soon, and sees the world as we do now.

        Except for the vault's key, which no child gets: the worker opens secrets for it.
        """
        self._count += 1
        offspring = ForkedChild(self, self._count)
        self._children[self._count] = offspring
        self._send(Spawn(self._count, what, _without_key(os.environb), _folder()), descriptors)
        if self.lost:
            offspring.returncode = -signal.SIGKILL
        return offspring

    def release(self, number: int) -> None:
        """Let what is left of a child be killed, and its number be given to others."""
        if self._children.pop(number, None) is not None:
            self._send(Release(number))

    def _send(self, message: ToNursery, descriptors: Sequence[int] = ()) -> None:
        if self.lost:
            return
        data = frame(message)
        try:
            sent = socket.send_fds(self._connection, [data], descriptors) if descriptors else 0
            self._connection.sendall(data[sent:])
        except (BrokenPipeError, ConnectionResetError):
            self._lose()

    def fileno(self) -> int:
        """Readable when a child was born or has ended; negative when the nursery is lost."""
        return self._connection.fileno()

    def hear(self, within_s: float = 0.0) -> bool:
        """Take in what the nursery has said, or says within so long; False when that is nothing."""
        if self.lost or (within_s > 0 and not self._says_within(within_s)):
            return self.lost
        with self._hearing:
            return self._take_in() or within_s > 0  # another thread may have taken in what it said

    def _take_in(self) -> bool:
        if self.lost:
            return True
        try:
            data = self._connection.recv(4096, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except ConnectionResetError:
            data = b""
        if not data:
            _log.error("The process that starts child processes was killed, and they with it.")
            self._lose()
        for one in self._frames.feed(data):
            match from_nursery.decode(one):
                case Born(number, pid):
                    if number in self._children:
                        self._children[number].born(pid)
                case Exited(number, code):
                    if number in self._children:
                        self._children[number].returncode = code
        return True

    def _says_within(self, seconds: float) -> bool:
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def _lose(self) -> None:
        """It is gone. Its children are killed by the kernel, or will be by whoever finds that they ended."""
        self.lost = True
        self._connection.close()
        self._end()
        for child in self._children.values():
            child.returncode = -signal.SIGKILL if child.returncode is None else child.returncode

    def give_up(self) -> None:
        """Kill a nursery that does not answer."""
        _log.error("The process that starts child processes did not answer for %.0f s.", ANSWER_S)
        self._lose()

    def close(self) -> None:
        """Let it kill what was not released, and end."""
        if self.lost:
            return
        self._connection.shutdown(socket.SHUT_WR)
        until = _clock.monotonic() + QUIT_S
        with suppress(ConnectionResetError):
            while self._says_within(max(0.0, until - _clock.monotonic())):
                if not self._connection.recv(1 << 16):
                    break
        self.lost = True
        self._connection.close()
        self._end()


class ForkedChild:
    """A child as its nursery tells of it; it is used like a `subprocess.Popen`."""

    def __init__(self, nursery: ForkServer, number: int) -> None:
        self.returncode: int | None = None
        self._nursery = nursery
        self._number = number
        self._pid: int | None = None
        self._released = False

    def born(self, pid: int) -> None:
        self._pid = pid

    @property
    def pid(self) -> int | None:
        """Its process id, which is waited for until it is born. None: it never was."""
        while self._pid is None and self.returncode is None and not self._released:
            self._await()
        return self._pid

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        if self.returncode is None:
            self._nursery.hear()
        return self.returncode

    def wait(self, within_s: float | None = None) -> int:
        """Return its exit code when it has ended. Raises TimeoutError when that takes too long."""
        until = None if within_s is None else _clock.monotonic() + within_s
        while self.returncode is None:
            if until is None:
                self._await()
            elif not self._nursery.hear(left := max(0.0, until - _clock.monotonic())) and left <= 0:
                raise TimeoutError
        return self.returncode

    def _await(self) -> None:
        if not self._nursery.hear(ANSWER_S):
            self._nursery.give_up()

    def kill(self) -> None:
        """Kill it with everything that its handlers started, also when it has ended itself."""
        pid = None if self._released else self.pid
        if pid is not None and not self._nursery.lost:
            kill_family(pid)
        elif pid is not None:
            kill_group(pid)

    def kill_now(self) -> None:
        """Kill it without waiting for anything, from any thread."""
        if self._pid is None:
            self._nursery.hear()
        if self._pid is not None and not self._released:
            kill_family(self._pid)

    def release(self) -> None:
        """Have nothing more to do with it."""
        self._released = True
        self._nursery.release(self._number)


def _without_key(environ: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    return {name: value for name, value in environ.items() if os.fsdecode(name) not in OF_VAULT}


def _folder() -> bytes:
    try:
        return os.getcwdb()
    except OSError:
        return b""  # somebody deleted it
