"""The messages between a worker and the executors that run its handlers, and their framing.

Between processes, messages are sent as msgpack frames over a socket pair; within a process, as objects. Payloads stay
bytes: only the executor decodes them. A message identifies an attempt by its job id and its claim.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Literal

import msgspec

from tickwork.core.job import TaskDefinition
from tickwork.core.limits.job_limits import Broadcast
from tickwork.core.outcome import Cancelled, Ending, Failed, Released, Snoozed, Succeeded, TimedOut
from tickwork.core.schedule.spec import ScheduleSpec
from tickwork.core.workers.batch import Batch
from tickwork.errors import check

FRAME_LIMIT = 1024 * 1024 * 1024  # only a step with many results needs more than FRAME_ENOUGH
FRAME_ENOUGH = 16 * 1024 * 1024
_LENGTH = struct.Struct(">I")

Asked = Literal["state", "place", "secret"]


class Assignment(msgspec.Struct, frozen=True, array_like=True):
    """A message: an attempt to run. `claimed_mono` is when the reply of its claim arrived, on the monotonic clock.

    `company` are the other attempts of the same call of a batch task; the timeout then applies to the call. `spot`
    assigns the job to a process if the job has a sticky key. `tells_start`: send `Started` even without a timeout.
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
    occurrence: str | None = None
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
    """Split attempts into messages, so that no frame has more than about `FRAME_ENOUGH` bytes of arguments."""
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
    """End an attempt.

    With `cancel`, a plain handler first gets time to stop by itself; `stop` interrupts it at once.
    """

    job_id: str
    claim: int
    reason: Literal["cancel", "stop"]


class AskReply(msgspec.Struct, frozen=True, array_like=True, tag="answer"):
    request: int
    accepted: bool
    state: bytes | None


class Recall(msgspec.Struct, frozen=True, array_like=True, tag="recall"):
    """Return the attempts that were not started."""


class Quit(msgspec.Struct, frozen=True, array_like=True, tag="quit"):
    """Exit when the running attempts have ended; no more messages follow."""


ToExecutor = RunAttempts | Interrupt | AskReply | Recall | Quit


class AttemptEnd(msgspec.Struct, frozen=True, array_like=True):
    """The end of an attempt. `settled`: the handler's own transaction has already stored it."""

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
        """Return this end as an `Ending`, the type that `decide` takes."""
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
    """The first message of a child that has loaded the user's code: its tasks, schedules, dags and store settings.

    `batches`: the rules of the batch tasks. `graphs`: the dags in their stored encoding, because they contain JSON that
    msgpack cannot encode. `flaws`: error messages about invalid dags. `hidden`: passwords, which are masked in all
    stored data of attempts.
    """

    settings: dict[str, str | None]
    tasks: list[TaskDefinition]
    pools: dict[str, str]
    schedules: list[ScheduleSpec] = []
    batches: dict[str, Batch] = {}
    graphs: list[bytes] = []
    flaws: list[str] = []
    hidden: list[str] = []

    @property
    def solo_tasks(self) -> frozenset[str]:
        """Return the CPU-bound tasks, whose jobs each run in a child process of their own."""
        return frozenset(name for name, pool in self.pools.items() if pool == "process")


class LoadFailed(msgspec.Struct, frozen=True, array_like=True, tag="trouble"):
    """A child could not load the user's code."""

    error: str


class AttemptsEnded(msgspec.Struct, frozen=True, array_like=True, tag="ended"):
    ends: list[AttemptEnd]


class Started(msgspec.Struct, frozen=True, array_like=True, tag="started"):
    """Sent before a handler is called, for attempts that have a timeout or may begin only once.

    The supervisor enforces the timeout if the child cannot, and never reruns an attempt that may begin only once and
    has begun.
    """

    job_id: str
    claim: int
    began: float


class Stuck(msgspec.Struct, frozen=True, array_like=True, tag="stuck"):
    """An attempt was interrupted but did not end; the supervisor must kill the process."""

    job_id: str
    claim: int
    kind: Literal["timed_out", "cancelled", "released"]
    error: str
    began: float


class Returned(msgspec.Struct, frozen=True, array_like=True, tag="returned"):
    """Attempts that were recalled before they were started."""

    job_ids: list[str]


class Wrote(msgspec.Struct, frozen=True, array_like=True, tag="wrote"):
    """Output of an attempt.

    `shared`: it was read from a descriptor while several attempts ran, so it may belong to others.
    """

    job_id: str
    claim: int
    seq: int
    text: str
    shared: bool = False


class HideSecret(msgspec.Struct, frozen=True, array_like=True, tag="hide"):
    """An attempt received a secret, which the supervisor must mask in output that it reads from the descriptors."""

    value: str


class Progressed(msgspec.Struct, frozen=True, array_like=True, tag="progressed"):
    job_id: str
    claim: int
    fraction: float
    note: str | None


class Ask(msgspec.Struct, frozen=True, array_like=True, tag="ask"):
    """A request of a handler, answered with `AskReply`.

    `what` "state": store `state` for later attempts, or if it is None, return the state that an earlier attempt stored.
    "place": return the index of this instance of a mapped step, a `MapIndex` as JSON. "secret": return the value of the
    secret that `state` names; a reply that is not accepted has the error message in `state`.
    """

    request: int
    job_id: str
    claim: int
    state: bytes | None
    what: Asked = "state"


class ConnectionsRefused(msgspec.Struct, frozen=True, array_like=True, tag="refused"):
    """The database server refused connections to handlers because its connection limit was reached."""

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
    """A child process died while it held these attempts. The pool creates this message; it is never sent."""

    job_ids: list[str]
    error: str
    alone: bool


def encode(message: ToExecutor | FromExecutor) -> bytes:
    """Return a message as a frame."""
    return frame(message)


def frame(message: msgspec.Struct) -> bytes:
    """Return a struct as a frame: four bytes of length (big-endian), then msgpack."""
    body = _encoder.encode(message)
    if len(body) > FRAME_LIMIT:
        check(False, f"A frame of {len(body)} bytes is too long.")
    return _LENGTH.pack(len(body)) + body


class FrameReader:
    """Splits the bytes that arrive on a socket into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Add received bytes, and yield the contents of the frames that are now complete."""
        self._buffer += data
        start = 0
        while len(self._buffer) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer, start)
            if length > FRAME_LIMIT:
                check(False, f"A frame of {length} bytes was announced.")
            end = start + _LENGTH.size + length
            if len(self._buffer) < end:
                break
            yield bytes(self._buffer[start + _LENGTH.size : end])
            start = end
        del self._buffer[:start]


to_executor = msgspec.msgpack.Decoder(ToExecutor)
from_executor = msgspec.msgpack.Decoder(FromExecutor)


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """Return the two ends of a stream socket, with buffers for a burst of results."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    return ours, theirs
