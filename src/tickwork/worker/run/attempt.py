"""One attempt inside an executor, and what its handler sees of it through `current_job()`."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Literal, Protocol

import msgspec

from tickwork import errors
from tickwork.clock import Clock
from tickwork.context import NOTE_LIMIT, CurrentJob
from tickwork.core.access.secret_policy import secret_variables
from tickwork.core.ids import ClaimId, JobId
from tickwork.core.job import MapIndex
from tickwork.core.limits.lanes import Broadcast
from tickwork.core.occurrence import Occurrence, decode_tick
from tickwork.observe.json_log import about_job
from tickwork.otel import AttemptSpan
from tickwork.store.base import NewLog, Progress
from tickwork.store.row_codec import from_us
from tickwork.task import Task
from tickwork.worker.ipc.protocol import (
    Asked,
    AskReply,
    Assignment,
    AttemptEnd,
    FromExecutor,
    HideSecret,
    Progressed,
    Wrote,
)
from tickwork.worker.run.capture import OutputSink
from tickwork.worker.run.mask import SecretMask
from tickwork.worker.run.secrets import value_of
from tickwork.worker.run.timer import TimedCall

EndKind = Literal["timed_out", "cancelled", "released"]


class AttemptHost(Protocol):
    """What an attempt needs of the executor that runs it."""

    clock: Clock
    emit: Callable[[FromExecutor], None]
    mask: SecretMask | None
    secret_env: str | None  # the setting: which variables of the environment pass for secrets

    def stir(self, sink: OutputSink) -> None:
        """Some output waits to be passed on."""

    def ask(self, attempt: Attempt, state: bytes | None, what: Asked = "state") -> AskReply:
        """Ask the worker to store or give a state, for its place in a map or for a secret; wait for the answer."""


class Attempt:
    """One attempt that this executor holds: what it is, and how far it is. Its handler's `current_job()` sees it."""

    __slots__ = (
        "args",
        "began",
        "cancelled",
        "claim",
        "company",
        "ending",
        "executor",
        "future",
        "given",
        "job_id",
        "leader",
        "lock",
        "number",
        "reminders",
        "reported",
        "sealed",
        "sink",
        "span",
        "task",
        "thread",
        "written",
    )

    def __init__(self, executor: AttemptHost, given: Assignment, task: Task[Any, Any] | None) -> None:
        self.executor = executor
        self.given = given
        self.args = given.args
        self.job_id = given.job_id
        self.number = given.attempt
        self.claim = ClaimId(given.claim)
        self.task = task
        self.company: list[Attempt] = []  # the others of a batch, which begin and end with this one
        self.leader: Attempt | None = None  # of these others: this one
        self.lock = threading.Lock()
        self.began = 0.0
        self.thread: int | None = None
        self.future: asyncio.Task[None] | None = None
        self.cancelled = False
        self.reminders: list[TimedCall] = []
        self.ending: tuple[EndKind, str] | None = None  # why it is being ended from outside
        self.span: AttemptSpan | None = None
        self.sealed = False  # it has ended, or was given up: nothing more is said of it
        self.sink = OutputSink(self._pass_on, executor.stir, mask=executor.mask, about=self.about)
        self.reported: Progress | None = None
        self.written: list[NewLog] = []  # what a transactional handler wrote, to be stored in its transaction

    @property
    def key(self) -> tuple[str, int]:
        return self.job_id, self.claim

    def end(
        self,
        kind: Any,
        result: bytes | None = None,
        error: str | None = None,
        after_s: float | None = None,
        fatal: bool = False,
        settled: bool = False,
    ) -> AttemptEnd:
        error = None if error is None else self.sink.masked(error)
        if self.span is not None and kind != "succeeded":
            self.span.failed(kind, error)
        took = self.executor.clock.monotonic() - self.began
        return AttemptEnd(self.job_id, self.claim, kind, self.began, result, error, after_s, fatal, settled, took)

    def everyone(self) -> list[Attempt]:
        """All attempts that its call is for, in the order of their arguments."""
        if self.given.company and not self.company:
            self.company = [self._beside(given) for given in self.given.company]
        return [self, *self.company]

    def _beside(self, given: Assignment) -> Attempt:
        attempt = Attempt(self.executor, given, self.task)
        attempt.began, attempt.leader = self.began, self
        return attempt

    def each(self, end: Callable[[Attempt], AttemptEnd]) -> list[AttemptEnd]:
        """The ends of all attempts of its call. Its own comes last: once it is heard, all are."""
        return [end(one) for one in reversed(self.everyone())]

    def interrupted(self) -> list[AttemptEnd]:
        kind, error = self.ending or ("failed", "the handler raised Interrupted by itself")
        return self.each(lambda one: one.end(kind, error=error))

    def _pass_on(self, seq: int, text: str) -> None:
        if self.task is not None and self.task.transactional:
            self.written.append(NewLog(JobId(self.job_id), self.claim, seq, text))
        self.executor.emit(Wrote(self.job_id, self.claim, seq, text))

    def about(self) -> dict[str, Any]:
        """What a line of its output in a log as JSON says of it."""
        return about_job(CurrentJob(self))

    # -- for its handler

    def stored_secret(self, name: str) -> str | None:
        answer = self.executor.ask(self, name.encode(), "secret")
        if answer.accepted:
            return None if answer.state is None else answer.state.decode("utf-8", "surrogatepass")
        if answer.state is not None:
            raise errors.SecretError(answer.state.decode())
        raise errors.LeaseLost("this attempt was superseded; no secret is opened for it any more.")

    def hide(self, value: str) -> None:
        for one in (self.leader or self).everyone():
            one.sink.hide(value)
        self.executor.emit(HideSecret(value))

    def masked(self, text: str, *, is_cut: bool = False) -> str:
        return self.sink.masked_beginning(text) if is_cut else self.sink.masked(text)

    def secret(self, name: str) -> str:
        return value_of(name, self, secret_variables(os.environ, self.executor.secret_env))

    @property
    def task_name(self) -> str:
        return self.given.task

    @property
    def queue(self) -> str:
        return self.given.queue

    @property
    def run_id(self) -> str | None:
        return self.given.run

    @property
    def step(self) -> str | None:
        return self.given.step

    @property
    def broadcast(self) -> Broadcast | None:
        return self.given.broadcast

    @property
    def timeout(self) -> timedelta | None:
        return None if self.given.timeout_s is None else timedelta(seconds=self.given.timeout_s)

    def tick(self) -> Occurrence | None:
        return None if self.given.tick is None else decode_tick(self.given.tick)

    def scheduled_for(self) -> datetime:
        tick = self.tick()
        return from_us(self.given.run_at_us) if tick is None else tick.scheduled_for

    def waited_s(self) -> float:
        """How long it took from its claim to its beginning."""
        return max(0.0, self.began - self.given.claimed_mono)

    def late_by(self) -> timedelta:
        late = from_us(self.given.claimed_at_us) + timedelta(seconds=self.waited_s()) - self.scheduled_for()
        return max(late, timedelta(0))

    def progress(self, fraction: float, note: str | None) -> None:
        shown = None if note is None else self.sink.masked(note)[:NOTE_LIMIT]  # in this order, as for errors
        self.reported = Progress(JobId(self.job_id), self.claim, fraction, shown)
        self.executor.emit(Progressed(self.job_id, self.claim, fraction, shown))

    def save(self, state: bytes) -> None:
        if not self.executor.ask(self, self.sink.masked_json(state)).accepted:
            raise errors.LeaseLost("this attempt was superseded; what it saves is not stored.")

    def saved(self) -> bytes | None:
        answer = self.executor.ask(self, None)
        if not answer.accepted:
            raise errors.LeaseLost("this attempt was superseded; what was saved is not its to read.")
        return answer.state

    def map_place(self) -> MapIndex | None:
        if self.given.step is None:
            return None
        answer = self.executor.ask(self, None, "place")
        if not answer.accepted:
            raise errors.LeaseLost("this attempt was superseded; its place in the map is not known any more.")
        return None if answer.state is None else msgspec.json.decode(answer.state, type=MapIndex)

    def stops(self) -> bool:
        return self.cancelled if self.leader is None else self.leader.cancelled
