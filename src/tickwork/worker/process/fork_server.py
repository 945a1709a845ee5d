"""The supervisor's client of the fork server, the process that forks the child processes of a worker.

`tickwork worker` forks the fork server early, while it has one thread and no open resources, so that both and all
children share the memory of imported modules. Where that is not certain, for example in the user's own process, or
after the first fork server was killed, a new interpreter is started as the fork server. Children are created in the
same way in both cases.

If the fork server is killed, its children are killed with it and count as killed. The next request for a child then
starts a new fork server.
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
from tickwork.core.access.secret_policy import OF_VAULT
from tickwork.worker.ipc.protocol import FrameReader, frame
from tickwork.worker.process.after_fork import forget_parent
from tickwork.worker.process.child_main import ChildOptions
from tickwork.worker.process.fork_server_main import (
    MINDED,
    Born,
    Exited,
    Release,
    Spawn,
    ToForkServer,
    from_fork_server,
    kill_family,
    kill_group,
    run,
)
from tickwork.worker.process.hide_environment import forget_variables

_log = logging.getLogger("tickwork.worker")
ANSWER_S = 30.0  # a fork server that does not answer within this time is killed
QUIT_S = 5.0
_PROGRAM = "import sys, tickwork.app; from tickwork.worker.process.fork_server_main import main; main(sys.argv[1:])"
_clock = SystemClock()


def start_fork_server_by_fork(forget: Callable[[], None]) -> ForkServer | None:
    """Fork this process into a fork server; return None if the process has other threads, which may hold locks.

    The caller must have imported everything that children need. `forget` is called in the fork server, to drop the
    caller's resources. The caller's stack is not unwound there: no `finally` or `with` block of it runs.
    """
    if not _is_alone():
        return None
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.flush()  # otherwise both processes would write the buffered text
    gc.freeze()  # a garbage collection writes to objects, which would copy the shared memory pages
    parent, (ours, theirs) = os.getpid(), _pair()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, MINDED)  # until the fork server has installed its handlers
    try:
        pid = os.fork()
        if pid == 0:
            _run_fork_server(ours, theirs, parent, forget)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    theirs.close()
    return ForkServer(ours, pid, partial(_end_fork, pid))


def _run_fork_server(ours: socket.socket, theirs: socket.socket, parent: int, forget: Callable[[], None]) -> NoReturn:
    """Run the fork server in the forked process. Never returns."""
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
    """Return whether this process has only one thread. On Linux this includes threads that Python did not start."""
    try:
        return len(os.listdir("/proc/self/task")) == 1
    except OSError:
        return threading.active_count() == 1


def start_fork_server() -> ForkServer:
    """Start a fork server as a new interpreter."""
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
    """Return two connected sockets whose descriptors are above 2, even if standard streams are closed."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)


class ForkServer:
    """The connection to a fork server. Calls must come from one thread at a time, except `hear`."""

    def __init__(self, connection: socket.socket, pid: int, end: Callable[[], None]) -> None:
        self.pid = pid
        self.lost = False
        self._connection = connection
        self._end = end  # kills and reaps the fork server
        self._frames = FrameReader()
        self._children: dict[int, ForkedChild] = {}
        self._count = 0
        self._hearing = threading.Lock()

    def spawn(self, descriptors: Sequence[int], what: ChildOptions) -> ForkedChild:
        """Request a child process, with some descriptors and the caller's current environment and folder.

        Returns before the child is forked. The environment excludes the vault's key: the worker opens secrets for its
        children.
        """
        self._count += 1
        forked_child = ForkedChild(self, self._count)
        self._children[self._count] = forked_child
        self._send(Spawn(self._count, what, _without_key(os.environb), _folder()), descriptors)
        if self.lost:
            forked_child.returncode = -signal.SIGKILL
        return forked_child

    def release(self, number: int) -> None:
        """Kill what remains of a child's process group, and reap the child, which frees its process id."""
        if self._children.pop(number, None) is not None:
            self._send(Release(number))

    def _send(self, message: ToForkServer, descriptors: Sequence[int] = ()) -> None:
        """Send a message and descriptors to the fork server; mark it as lost if it does not exist any more."""
        if self.lost:
            return
        data = frame(message)
        try:
            sent = socket.send_fds(self._connection, [data], descriptors) if descriptors else 0
            self._connection.sendall(data[sent:])
        except (BrokenPipeError, ConnectionResetError):
            self._lose()

    def fileno(self) -> int:
        """Return a descriptor that is readable when a child was forked or has ended; -1 if the fork server is lost."""
        return self._connection.fileno()

    def hear(self, within_s: float = 0.0) -> bool:
        """Process messages of the fork server, waiting up to `within_s` for one; return False if there was none."""
        if self.lost or (within_s > 0 and not self._says_within(within_s)):
            return self.lost
        with self._hearing:
            return self._take_in() or within_s > 0  # another thread may have processed the message already

    def _take_in(self) -> bool:
        """Read and process messages without blocking; return False if there were none."""
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
            match from_fork_server.decode(one):
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
        """Mark the fork server as lost and all its children as killed.

        On Linux the kernel kills the children; elsewhere the pool kills them when it finds that they have ended.
        """
        self.lost = True
        self._connection.close()
        self._end()
        for child in self._children.values():
            child.returncode = -signal.SIGKILL if child.returncode is None else child.returncode

    def give_up(self) -> None:
        """Kill a fork server that does not answer."""
        _log.error("The process that starts child processes did not answer for %.0f s.", ANSWER_S)
        self._lose()

    def close(self) -> None:
        """Shut the fork server down; it kills the children that were not released."""
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
    """A child process of the fork server, with an interface like `subprocess.Popen`."""

    def __init__(self, fork_server: ForkServer, number: int) -> None:
        self.returncode: int | None = None
        self._fork_server = fork_server
        self._number = number
        self._pid: int | None = None
        self._released = False

    def born(self, pid: int) -> None:
        """Record the process id, which the fork server has reported."""
        self._pid = pid

    @property
    def pid(self) -> int | None:
        """Return the process id; waits until the child is forked. None if it was never forked."""
        while self._pid is None and self.returncode is None and not self._released:
            self._await()
        return self._pid

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while the child runs."""
        if self.returncode is None:
            self._fork_server.hear()
        return self.returncode

    def wait(self, within_s: float | None = None) -> int:
        """Wait until the child has ended, and return its exit code. Raises TimeoutError after `within_s` seconds."""
        until = None if within_s is None else _clock.monotonic() + within_s
        while self.returncode is None:
            if until is None:
                self._await()
            elif not self._fork_server.hear(left := max(0.0, until - _clock.monotonic())) and left <= 0:
                raise TimeoutError
        return self.returncode

    def _await(self) -> None:
        if not self._fork_server.hear(ANSWER_S):
            self._fork_server.give_up()

    def kill(self) -> None:
        """Kill the child and all processes that its handlers started, even if the child itself has ended."""
        pid = None if self._released else self.pid
        if pid is not None and not self._fork_server.lost:
            kill_family(pid)
        elif pid is not None:
            kill_group(pid)

    def kill_now(self) -> None:
        """Kill the child, without blocking. May be called from any thread."""
        if self._pid is None:
            self._fork_server.hear()
        if self._pid is not None and not self._released:
            kill_family(self._pid)

    def release(self) -> None:
        """Let the fork server reap the child. Must be called after the last use of the process id."""
        self._released = True
        self._fork_server.release(self._number)


def _without_key(environ: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    return {name: value for name, value in environ.items() if os.fsdecode(name) not in OF_VAULT}


def _folder() -> bytes:
    try:
        return os.getcwdb()
    except OSError:
        return b""  # the folder was deleted
