"""What a worker and the executors that run its handlers say to each other.

Between processes these travel as msgpack frames over a socket pair; within one process as they are. Payloads stay
bytes: only the executor decodes them. A message names an attempt by its job and the claim that began it.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Literal

import msgspec

from tickwork.core.batch import Batch
from tickwork.core.job import TaskDefinition
from tickwork.core.limits.lanes import Broadcast
from tickwork.core.outcome import Cancelled, Ending, Failed, Released, Snoozed, Succeeded, TimedOut
from tickwork.core.schedule.spec import ScheduleSpec
from tickwork.errors import check

FRAME_LIMIT = 1024 * 1024 * 1024  # for one step with many results; others are sent in frames of FRAME_ENOUGH
FRAME_ENOUGH = 16 * 1024 * 1024
_LENGTH = struct.Struct(">I")

Asked = Literal["state", "place", "secret"]


class Assignment(msgspec.Struct, frozen=True, array_like=True):
    """One attempt to make. `claimed_mono` is when its claim came back, on the monotonic clock that processes share.

    `company`: attempts that are made in the same call, of a task with batches. The time limit is then the call's.
    `spot` is that of a job which sticks to a process. `tells_start`: its beginning is told, also without
    a time limit.
    """

    job_id: str
    attempt: int
    claim: int
    task: str
    queue: str
    args: bytes
    timeout_s: float | None
    retry_on: tuple[str, ...]
    give_up_on: tuple[str, ...]
    run_at_us: int
    claimed_at_us: int
    claimed_mono: float
    tick: str | None = None
    company: tuple[Assignment, ...] = ()
    broadcast: Broadcast | None = None
    run: str | None = None
    step: str | None = None
    produce: tuple[str, ...] = ()
    trace: str | None = None
    spot: int | None = None
    tells_start: bool = False


class RunAttempts(msgspec.Struct, frozen=True, array_like=True, tag="run"):
    jobs: list[Assignment]


def runs_of(jobs: Iterable[Assignment]) -> Iterator[RunAttempts]:
    """Attempts in as many messages as they need, so that no frame gets much too large."""
    part: list[Assignment] = []
    size = 0
    for job in jobs:
        if part and size + len(job.args) > FRAME_ENOUGH:
            yield RunAttempts(part)
            part, size = [], 0
        part.append(job)
        size += len(job.args)
    if part:
        yield RunAttempts(part)


class Interrupt(msgspec.Struct, frozen=True, array_like=True, tag="interrupt"):
    """End an attempt: `cancel` asks first and insists later, `stop` insists."""

    job_id: str
    claim: int
    reason: Literal["cancel", "stop"]


class AskReply(msgspec.Struct, frozen=True, array_like=True, tag="answer"):
    request: int
    accepted: bool
    state: bytes | None


class Recall(msgspec.Struct, frozen=True, array_like=True, tag="recall"):
    """Give back what has not been started."""


class Quit(msgspec.Struct, frozen=True, array_like=True, tag="quit"):
    """Nothing more comes; leave when what runs has ended."""


ToExecutor = RunAttempts | Interrupt | AskReply | Recall | Quit


class AttemptEnd(msgspec.Struct, frozen=True, array_like=True):
    """How an attempt ended. `settled`: its handler's own transaction has stored that already."""

    job_id: str
    claim: int
    kind: Literal["succeeded", "failed", "timed_out", "snoozed", "cancelled", "released"]
    began: float
    result: bytes | None = None
    error: str | None = None
    after_s: float | None = None
    fatal: bool = False
    settled: bool = False
    took: float = 0.0

    def ending(self) -> Ending:
        """The same, as `decide` takes it."""
        after = None if self.after_s is None else timedelta(seconds=self.after_s)
        match self.kind:
            case "succeeded":
                return Succeeded(self.result or b"null")
            case "failed":
                return Failed(self.error or "", self.fatal, after)
            case "timed_out":
                return TimedOut(self.error or "")
            case "snoozed":
                return Snoozed(after or timedelta(0))
            case "cancelled":
                return Cancelled(self.error or "cancelled")
            case "released":
                return Released()


class Hello(msgspec.Struct, frozen=True, array_like=True, tag="hello"):
    """A child has loaded the user's code: which tasks and schedules it found, and which store they are meant for.

    `batches`: how those tasks take their jobs that take many in one call. `graphs` are its dags as they are stored, for
    the JSON inside of them is no msgpack, and `flaws` what is wrong with others. `hidden`: passwords that are masked in
    everything that is stored of any attempt.
    """

    settings: dict[str, str | None]
    tasks: list[TaskDefinition]
    pools: dict[str, str]
    schedules: list[ScheduleSpec] = []
    batches: dict[str, Batch] = {}
    graphs: list[bytes] = []
    flaws: list[str] = []
    hidden: list[str] = []


class LoadFailed(msgspec.Struct, frozen=True, array_like=True, tag="trouble"):
    """A child could not load the user's code."""

    error: str


class AttemptsEnded(msgspec.Struct, frozen=True, array_like=True, tag="ended"):
    ends: list[AttemptEnd]


class Started(msgspec.Struct, frozen=True, array_like=True, tag="started"):
    """Sent before a handler is called, of attempts that have a time limit or may begin only once.

    The supervisor enforces the limit where the child cannot, and does not run an attempt again that began.
    """

    job_id: str
    claim: int
    began: float


class Stuck(msgspec.Struct, frozen=True, array_like=True, tag="stuck"):
    """An attempt does not end although it was told to; only killing the process helps."""

    job_id: str
    claim: int
    kind: Literal["timed_out", "cancelled", "released"]
    error: str
    began: float


class Returned(msgspec.Struct, frozen=True, array_like=True, tag="returned"):
    """Attempts that were recalled before they were started."""

    job_ids: list[str]


class Wrote(msgspec.Struct, frozen=True, array_like=True, tag="wrote"):
    """Some output of an attempt. `shared`: it came through a descriptor while other attempts ran, too."""

    job_id: str
    claim: int
    seq: int
    text: str
    shared: bool = False


class HideSecret(msgspec.Struct, frozen=True, array_like=True, tag="hide"):
    """An attempt was given a secret, which must not be stored with what comes through the descriptors."""

    value: str


class Progressed(msgspec.Struct, frozen=True, array_like=True, tag="progressed"):
    job_id: str
    claim: int
    fraction: float
    note: str | None


class Ask(msgspec.Struct, frozen=True, array_like=True, tag="ask"):
    """Store `state` for later attempts, or without one, give what an earlier attempt stored. Answered with Answer.

    `what` "place": give which instance of a mapped step it is, a MapPlace as JSON. "secret": give the value of the
    secret that `state` names; an answer that is not accepted says in `state` why it does not open.
    """

    request: int
    job_id: str
    claim: int
    state: bytes | None
    what: Asked = "state"


class ConnectionsRefused(msgspec.Struct, frozen=True, array_like=True, tag="refused"):
    """The database server refused connections to handlers because it had none left."""

    count: int


FromExecutor = (
    Hello
    | LoadFailed
    | AttemptsEnded
    | Started
    | Stuck
    | Returned
    | Wrote
    | HideSecret
    | Progressed
    | Ask
    | ConnectionsRefused
)

_encoder = msgspec.msgpack.Encoder()


class ChildDied(msgspec.Struct, frozen=True):
    """A child process is gone, with these attempts in it. Made by the pool, never sent."""

    job_ids: list[str]
    error: str
    alone: bool


def encode(message: ToExecutor | FromExecutor) -> bytes:
    """A message as a frame."""
    return frame(message)


def frame(message: msgspec.Struct) -> bytes:
    """Four bytes of length, then msgpack."""
    body = _encoder.encode(message)
    check(len(body) <= FRAME_LIMIT, f"A frame of {len(body)} bytes is too long.")
    return _LENGTH.pack(len(body)) + body


class FrameReader:
    """Cuts what arrives on a socket into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take in some bytes and give the frames that are now complete."""
        self._buffer += data
        start = 0
        while len(self._buffer) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer, start)
            check(length <= FRAME_LIMIT, f"A frame of {length} bytes was announced.")
            end = start + _LENGTH.size + length
            if len(self._buffer) < end:
                break
            yield bytes(self._buffer[start + _LENGTH.size : end])
            start = end
        del self._buffer[:start]


to_executor = msgspec.msgpack.Decoder(ToExecutor)
from_executor = msgspec.msgpack.Decoder(FromExecutor)


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of a stream, with room for a burst of results."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    return ours, theirs
