"""The fork server: a single-threaded process that has imported what a child needs, and forks children on request.

It has run no user code and opened no store, so a child starts with the imports of a new interpreter, and all children
share their memory. When its supervisor ends, for whatever reason, the fork server kills the process groups of all
children, including grandchildren, and exits.

A child that has ended stays a zombie until it is released. So the system cannot reuse its process id or group id while
the supervisor may still send a signal to it.
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
from tickwork.worker.process import child_main
from tickwork.worker.process.after_fork import Handlers, be_called, leave, put_back, signal_when_parent_dies
from tickwork.worker.process.hide_environment import clear_start_environment

NAME, CHILD_NAME = "tickwork-forker", "tickwork-child"  # 15 characters are shown at most
NOT_BORN = 71  # the exit code of a child that could not be forked: EX_OSERR of sysexits.h
DESCRIPTORS = 6  # of a child: see child_main.main
MINDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)  # they wake the fork server, and do not end it


class Spawn(msgspec.Struct, frozen=True, array_like=True, tag="spawn"):
    """Fork a child with these options, environment and folder. Its descriptors are sent with the first byte."""

    number: int
    options: child_main.ChildOptions
    environment: dict[bytes, bytes]
    folder: bytes


class Release(msgspec.Struct, frozen=True, array_like=True, tag="release"):
    """Kill what remains of a child's process group, and reap the child."""

    number: int


class Born(msgspec.Struct, frozen=True, array_like=True, tag="born"):
    number: int
    pid: int


class Exited(msgspec.Struct, frozen=True, array_like=True, tag="exited"):
    """A child has ended; the exit code is as in `subprocess`: negative for a signal."""

    number: int
    code: int


ToForkServer = Spawn | Release
FromForkServer = Born | Exited
to_fork_server = msgspec.msgpack.Decoder(ToForkServer)
from_fork_server = msgspec.msgpack.Decoder(FromForkServer)


def main(arguments: list[str]) -> NoReturn:
    """Run a fork server that was started as a program. Arguments: the socket to the supervisor, and its process id."""
    descriptor, parent = map(int, arguments)
    clear_start_environment()
    gc.freeze()  # a garbage collection in a child writes to objects, which would copy the shared memory pages
    run(socket.socket(fileno=descriptor), parent)


def run(connection: socket.socket, parent: int) -> NoReturn:
    """Run a fork server until the supervisor ends. Never returns, because the caller may be the supervisor's stack."""
    code = 1
    try:
        ForkServerProcess(connection, parent).serve()
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


class ForkServerProcess:
    """The state of a fork server, which serves one supervisor."""

    def __init__(self, connection: socket.socket, parent: int) -> None:
        self._connection = connection
        self._parent = parent
        self._frames = FrameReader()
        self._descriptors: deque[list[int]] = deque()  # received descriptors of requests that are not complete yet
        self._pids: dict[int, int] = {}  # number -> process id of the children that were not released
        self._running: set[int] = set()
        self._before: Handlers = {number: signal.getsignal(number) for number in MINDED}
        self._woken, self._wake = socket.socketpair()

    def serve(self) -> None:
        """Serve requests until the supervisor ends, then kill all children that were not released."""
        be_called(NAME, [])
        _open_standard_streams()
        self._woken.setblocking(False)
        self._wake.setblocking(False)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        for number in MINDED:
            signal.signal(number, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, MINDED)  # `start_fork_server_by_fork` has blocked them
        signal_when_parent_dies(signal.SIGHUP)  # wakes the loop even if another process keeps the socket open
        try:
            while os.getppid() == self._parent and self._listen():
                self._look()
        finally:
            for pid in self._pids.values():
                kill_family(pid)

    def _listen(self) -> bool:
        """Wait for a request or a signal, and carry out requests; return False if the supervisor has ended."""
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
                    self._obey(to_fork_server.decode(request))
                return bool(data)
            return False
        return True

    def _obey(self, request: ToForkServer) -> None:
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
        """Fork a child, and report its process id, or `NOT_BORN` as its exit code if the fork failed."""
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        signal.pthread_sigmask(signal.SIG_BLOCK, MINDED)  # until the child has installed its handlers
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
        """Run a forked child until it exits. Never returns."""
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
            child_main.main(descriptors, request.options)
            code = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            leave(code)

    def _look(self) -> None:
        """Report the children that have ended since the last call, without reaping them."""
        for number in list(self._running):
            how = os.waitid(os.P_PID, self._pids[number], os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if how is not None:
                self._running.discard(number)
                self._say(Exited(number, how.si_status if how.si_code == os.CLD_EXITED else -how.si_status))

    def _say(self, message: FromForkServer) -> None:
        with suppress(OSError):  # the main loop detects that the supervisor has ended
            self._connection.sendall(frame(message))


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _open_standard_streams() -> None:
    """Open the descriptors 0 to 2 if they are closed, so that no descriptor of a child gets one of these numbers."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)


def _move_to(request: Spawn) -> None:
    """Set the environment and the current folder to the supervisor's, as they were when it sent the request."""
    if os.environb != request.environment:
        os.environb.clear()
        os.environb.update(request.environment)
    if request.folder:
        with suppress(OSError):
            os.chdir(request.folder)


def kill_family(pid: int) -> None:
    """Kill an unreaped child and its process group. A child that was just forked may not have its group yet."""
    with suppress(ProcessLookupError, PermissionError):  # some systems refuse to signal a process that has ended
        os.kill(pid, signal.SIGKILL)
    kill_group(pid)


def kill_group(group: int) -> None:
    """Kill the remaining processes of a group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
