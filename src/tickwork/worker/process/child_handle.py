"""A child process as its supervisor sees it: the connection, the attempts that it holds, and its output."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from tickwork.clock import Clock
from tickwork.worker.ipc.protocol import (
    Assignment,
    AttemptsEnded,
    FrameReader,
    FromExecutor,
    Hello,
    HideSecret,
    LoadFailed,
    Returned,
    ToExecutor,
    Wrote,
    encode,
    from_executor,
)
from tickwork.worker.process.child_output import ChildOutput, OutputAttribution
from tickwork.worker.process.fork_server import ForkedChild


@dataclass(eq=False, kw_only=True)
class Child:
    """A child process of the supervisor, its connection, and the attempts that it holds."""

    name: str
    process: ForkedChild
    connection: socket.socket
    solo: bool
    target: str
    output: ChildOutput
    credit: OutputAttribution
    clock: Clock
    frames: FrameReader = field(default_factory=FrameReader)
    held: dict[str, Assignment] = field(default_factory=dict)
    unsent: bytearray = field(default_factory=bytearray)
    hello: Hello | None = None
    trouble: str | None = None
    done: int = 0
    retiring: bool = False
    leaves_by: float | None = None
    moved_at: float = 0.0
    recalled: bool = False
    silent: bool = False  # its end of the socket is closed
    fenced: bool = False  # it was killed because the lease ended, so its attempts are released, not charged
    interrupted: set[str] = field(default_factory=set)  # ids of jobs that it was told to stop or cancel
    lock: threading.RLock = field(default_factory=threading.RLock)  # for sending and killing, also by `LeaseWatch`

    def send(self, message: ToExecutor) -> None:
        """Queue a message, and send as much as the socket takes without blocking the supervisor."""
        with self.lock:
            self.unsent += encode(message)
            self.flush()

    def flush(self) -> None:
        with self.lock, suppress(OSError):  # the socket is full, or the child is gone
            while self.unsent:
                sent = self.connection.send(self.unsent)
                del self.unsent[:sent]

    def kill(self) -> None:
        """Kill the child with all processes that its handlers started."""
        self.process.kill()

    def fence(self) -> None:
        """Kill the child at once because the worker's lease ends. May be called from any thread."""
        with self.lock:
            self.fenced = True
            self.process.kill_now()

    def release(self) -> None:
        """Release the resources of a child that has ended."""
        with self.lock:
            self.connection.close()
            self.process.release()

    # -- its messages

    def remaining(self) -> Iterator[FromExecutor]:
        """Yield the remaining messages and output of the child, which has ended."""
        self.output.drain()
        yield from self.received()
        yield from self._of_held(self.credit.flush())
        yield from self._of_held(self.credit.recovered(self.output.board.unsent()))

    def received(self) -> Iterator[FromExecutor]:
        """Yield the child's messages and the output from its descriptors, in the order in which logs store them.

        The output is taken between two reads of the socket. The first read returns no end of an attempt whose output
        is missing here; the second returns every secret that an attempt received before it wrote the output.
        """
        messages = list(self._messages())
        pieces = self.output.take()
        if pieces:
            messages += self._messages()
        for message in messages:
            if isinstance(message, HideSecret):
                self.credit.hide(message.value)
        for message in messages:
            if isinstance(message, Wrote):
                self.credit.sent(message)
            elif isinstance(message, AttemptsEnded):
                yield from self._of_held(self.credit.credit(pieces))
                ended = ((end.job_id, end.claim) for end in message.ends)
                yield from self._of_held(self.credit.flush(ended))
                pieces = []
            self._note(message)
            yield message
        yield from self._of_held(self.credit.credit(pieces))

    def _of_held(self, chunks: Iterable[Wrote]) -> Iterator[Wrote]:
        """Yield the chunks that belong to attempts which this child holds."""
        for chunk in chunks:
            held = self.held.get(chunk.job_id)
            if held is not None and held.claim == chunk.claim:
                yield chunk

    def _messages(self) -> Iterator[FromExecutor]:
        """Yield the messages that can be read from the child's socket without blocking."""
        while True:
            try:
                data = self.connection.recv(1 << 18)
            except (BlockingIOError, ConnectionResetError):
                return
            if not data:
                self.silent = True
                if self.process.returncode is None:
                    self.kill()  # without its socket, it cannot be controlled any more
                return
            for frame in self.frames.feed(data):
                yield from_executor.decode(frame)

    def _note(self, message: FromExecutor) -> None:
        """Update the state of the child from one of its messages."""
        match message:
            case Hello():
                self.hello = message
                self.credit.always_hide(message.hidden)
            case LoadFailed(error):
                self.trouble = error
            case AttemptsEnded(ends):
                for end in ends:
                    self.held.pop(end.job_id, None)
                    self.credit.forget(end.job_id, end.claim)
                self.done += len(ends)
                self.moved_at, self.recalled = self.clock.monotonic(), False
            case Returned(job_ids):
                for job_id in job_ids:
                    self.held.pop(job_id, None)
            case _:
                pass
