"""The nursery: a process with one thread that has imported what a child needs, and forks children when it is asked to.

It has run no code of the user's and opened no store, so what a child is born with is what a new interpreter would have
imported, and the memory of that is shared by all. It outlives its supervisor by a moment, in which it kills the process
groups of all children, however that one ended: grandchildren included.

A child that has ended stays a zombie until it is released, so neither its number nor that of its group can become
somebody else's while the supervisor may still send a signal to it.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import NoReturn

import msgspec

from tickwork.observe.json_log import output_line, wants_json
from tickwork.worker.ipc.protocol import FrameReader, frame
from tickwork.worker.process import child
from tickwork.worker.process.after_fork import Handlers, be_called, leave, put_back, signal_when_parent_dies
from tickwork.worker.process.hide_environment import clear_start_environment

NAME, CHILD_NAME = "tickwork-nurse", "tickwork-child"  # 15 characters are shown at most
NOT_BORN = 71  # the exit code of a child that could not be forked, as in sysexits.h: an error of the system
DESCRIPTORS = 6  # of a child: see child.main
MINDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)  # they wake a nursery, and end none


class Spawn(msgspec.Struct, frozen=True, array_like=True, tag="spawn"):
    """Fork a child with these options, environment and folder. Its descriptors travel with the first byte."""

    number: int
    options: child.ChildOptions
    environment: dict[bytes, bytes]
    folder: bytes


class Release(msgspec.Struct, frozen=True, array_like=True, tag="release"):
    """The supervisor has no more to do with a child: what is left of its group is killed."""

    number: int


class Born(msgspec.Struct, frozen=True, array_like=True, tag="born"):
    number: int
    pid: int


class Exited(msgspec.Struct, frozen=True, array_like=True, tag="exited"):
    """A child has ended; the code is that of `subprocess`: negative for a signal."""

    number: int
    code: int


ToNursery = Spawn | Release
FromNursery = Born | Exited
to_nursery = msgspec.msgpack.Decoder(ToNursery)
from_nursery = msgspec.msgpack.Decoder(FromNursery)


def main(arguments: list[str]) -> NoReturn:
    """Be a nursery that was started as a program: FD PARENT, a socket to the supervisor and its process id."""
    descriptor, parent = map(int, arguments)
    clear_start_environment()
    gc.freeze()  # a collection in a child writes to what it looks at, and so copies the pages that are shared
    run(socket.socket(fileno=descriptor), parent)


def run(connection: socket.socket, parent: int) -> NoReturn:
    """Be a nursery until the supervisor is gone. Never returns: what called this may be the supervisor's own stack."""
    code = 1
    try:
        ForkServerProcess(connection, parent).serve()
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


class ForkServerProcess:
    """Serves one supervisor."""

    def __init__(self, connection: socket.socket, parent: int) -> None:
        self._connection = connection
        self._parent = parent
        self._frames = FrameReader()
        self._descriptors: deque[list[int]] = deque()  # received, for requests that are not complete yet
        self._pids: dict[int, int] = {}  # of the children that were not released
        self._running: set[int] = set()
        self._before: Handlers = {number: signal.getsignal(number) for number in MINDED}
        self._woken, self._wake = socket.socketpair()

    def serve(self) -> None:
        be_called(NAME, [])
        _open_standard_streams()
        self._woken.setblocking(False)
        self._wake.setblocking(False)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        for number in MINDED:
            signal.signal(number, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, MINDED)  # blocked by whoever forked us
        signal_when_parent_dies(signal.SIGHUP)  # which wakes the loop, though a fork may keep the socket open
        try:
            while os.getppid() == self._parent and self._listen():
                self._look()
        finally:
            for pid in self._pids.values():
                kill_family(pid)

    def _listen(self) -> bool:
        """Wait for a request or a signal, and do what is asked; False when the supervisor is gone."""
        ready, _, _ = select.select([self._connection, self._woken], [], [])
        if self._woken in ready:
            with suppress(BlockingIOError):
                self._woken.recv(4096)
        if self._connection in ready:
            with suppress(ConnectionResetError):
                data, descriptors, _, _ = socket.recv_fds(self._connection, 1 << 18, DESCRIPTORS)
                if descriptors:
                    self._descriptors.append(descriptors)
                for request in self._frames.feed(data):
                    self._obey(to_nursery.decode(request))
                return bool(data)
            return False
        return True

    def _obey(self, request: ToNursery) -> None:
        match request:
            case Spawn():
                self._bear(request, self._descriptors.popleft())
            case Release(number):
                pid = self._pids.pop(number, None)
                if pid is not None:
                    kill_family(pid)
                    os.waitpid(pid, 0)
                    self._running.discard(number)

    def _bear(self, request: Spawn, descriptors: list[int]) -> None:
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        signal.pthread_sigmask(signal.SIG_BLOCK, MINDED)  # until the child has handlers of its own
        try:
            pid = os.fork()
            if pid == 0:
                self._live(request, descriptors)
        except OSError as error:
            said = f"No child process could be made: {error}"
            sys.stderr.write((output_line(said, "stderr", os.getpid(), {}) if wants_json() else said) + "\n")
            self._say(Exited(request.number, NOT_BORN))
        else:
            self._pids[request.number] = pid
            self._running.add(request.number)
            self._say(Born(request.number, pid))
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, MINDED)
            _close(descriptors)

    def _live(self, request: Spawn, descriptors: list[int]) -> NoReturn:
        """Be the child, from its first moment to its last."""
        code = 1
        try:
            os.setsid()
            for end in (self._connection, self._woken, self._wake):
                end.close()
            for others in self._descriptors:
                _close(others)
            put_back(self._before)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, MINDED)
            be_called(CHILD_NAME, [request.options.target])
            _move_to(request)
            child.main(descriptors, request.options)
            code = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            leave(code)

    def _look(self) -> None:
        """Tell of the children that have ended since."""
        for number in list(self._running):
            how = os.waitid(os.P_PID, self._pids[number], os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if how is not None:
                self._running.discard(number)
                self._say(Exited(number, how.si_status if how.si_code == os.CLD_EXITED else -how.si_status))

    def _say(self, message: FromNursery) -> None:
        with suppress(OSError):  # a supervisor that is gone is noticed by the loop
            self._connection.sendall(frame(message))


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _open_standard_streams() -> None:
    """Have the descriptors 0 to 2 be open, so that none of a child's descriptors is given one of these numbers."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)


def _move_to(request: Spawn) -> None:
    """Have the environment and the folder of the supervisor, as they are now."""
    if os.environb != request.environment:
        os.environb.clear()
        os.environb.update(request.environment)
    if request.folder:
        with suppress(OSError):
            os.chdir(request.folder)


def kill_family(pid: int) -> None:
    """Kill a child that nobody has reaped, with its group; one that was just born may not have made its group yet."""
    with suppress(ProcessLookupError, PermissionError):  # some systems refuse to signal what has ended
        os.kill(pid, signal.SIGKILL)
    kill_group(pid)


def kill_group(group: int) -> None:
    """Kill what is left of a group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
