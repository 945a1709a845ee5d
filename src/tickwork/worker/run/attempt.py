"""One attempt in an executor: its state, its output, and the functions behind `current_job()` in its handler."""

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
from tickwork.core.limits.job_limits import Broadcast
from tickwork.core.occurrence import Occurrence, decode_occurrence
from tickwork.observe.json_log import about_job
from tickwork.otel import AttemptSpan
from tickwork.store.attempt_types import NewLog, Progress
from tickwork.store.rows.instants import from_us
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
from tickwork.worker.run.delayed_calls import TimedCall
from tickwork.worker.run.mask import SecretMask
from tickwork.worker.run.secrets import value_of

EndKind = Literal["timed_out", "cancelled", "released"]


class AttemptHost(Protocol):
    """The part of the executor that an attempt uses."""

    clock: Clock
    emit: Callable[[FromExecutor], None]
    mask: SecretMask | None
    secret_env: str | None  # the setting that lists the environment variables that jobs may read as secrets

    def stir(self, sink: OutputSink) -> None:
        """Register a sink that has unsent output."""

    def ask(self, attempt: Attempt, state: bytes | None, what: Asked = "state") -> AskReply:
        """Send a request to the worker and wait for the reply (see `Ask`): a state, the map index, or a secret."""


class Attempt:
    """An attempt that an executor holds, and its state. `current_job()` of its handler reads it."""

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
        self.company: list[Attempt] = []  # for a leader: the other attempts of its batch call
        self.leader: Attempt | None = None  # for these other attempts: the leader
        self.lock = threading.Lock()
        self.began = 0.0
        self.thread: int | None = None
        self.future: asyncio.Task[None] | None = None
        self.cancelled = False
        self.reminders: list[TimedCall] = []
        self.ending: tuple[EndKind, str] | None = None  # set when it is interrupted: the kind of end and the error
        self.span: AttemptSpan | None = None
        self.sealed = False  # it has ended or was abandoned, and no further end is reported
        self.sink = OutputSink(self._pass_on, executor.stir, mask=executor.mask, about=self.about, secrets=self)
        self.reported: Progress | None = None
        self.written: list[NewLog] = []  # the output of a transactional handler, to be stored in its transaction

    @property
    def key(self) -> tuple[str, int]:
        return self.job_id, self.claim

    def end(
        self,
        kind: Any,
        *,
        result: bytes | None = None,
        error: str | None = None,
        after_s: float | None = None,
        fatal: bool = False,
        settled: bool = False,
    ) -> AttemptEnd:
        """Return the end of this attempt, with secrets masked in the error."""
        error = None if error is None else self.sink.masked(error)
        if self.span is not None and kind != "succeeded":
            self.span.failed(kind, error)
        took = self.executor.clock.monotonic() - self.began
        return AttemptEnd(self.job_id, self.claim, kind, self.began, result, error, after_s, fatal, settled, took)

    def everyone(self) -> list[Attempt]:
        """Return all attempts of the call that this attempt leads, in the order of their arguments."""
        if self.given.company and not self.company:
            self.company = [self._beside(given) for given in self.given.company]
        return [self, *self.company]

    def _beside(self, given: Assignment) -> Attempt:
        attempt = Attempt(self.executor, given, self.task)
        attempt.began, attempt.leader = self.began, self
        return attempt

    def each(self, end: Callable[[Attempt], AttemptEnd]) -> list[AttemptEnd]:
        """Return the ends of all attempts of the call. The leader's end is last, so that it completes the call."""
        return [end(one) for one in reversed(self.everyone())]

    def interrupted(self) -> list[AttemptEnd]:
        """Return the ends of all attempts of a call that was interrupted."""
        kind, error = self.ending or ("failed", "the handler raised Interrupted by itself")
        return self.each(lambda one: one.end(kind, error=error))

    def _pass_on(self, seq: int, text: str) -> None:
        """Send a chunk of output to the worker, and keep it if it is stored in the handler's transaction."""
        if self.task is not None and self.task.transactional:
            self.written.append(NewLog(JobId(self.job_id), self.claim, seq, text))
        self.executor.emit(Wrote(self.job_id, self.claim, seq, text))

    def about(self) -> dict[str, Any]:
        """Return the fields that describe this job in JSON log lines."""
        return about_job(CurrentJob(self))

    # -- the interface for handlers

    def stored_secret(self, name: str) -> str | None:
        """Return the value of a secret of the store, or None if it has none of this name.

        Raises SecretError and LeaseLost.
        """
        answer = self.executor.ask(self, name.encode(), "secret")
        if answer.accepted:
            return None if answer.state is None else answer.state.decode("utf-8", "surrogatepass")
        if answer.state is not None:
            raise errors.SecretError(answer.state.decode())
        raise errors.LeaseLost("this attempt was superseded; no secret is opened for it any more.")

    def hide(self, value: str) -> None:
        """Mask a value in everything that is stored of the attempts of this call."""
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

    def occurrence(self) -> Occurrence | None:
        return None if self.given.occurrence is None else decode_occurrence(self.given.occurrence)

    def scheduled_for(self) -> datetime:
        occurrence = self.occurrence()
        return from_us(self.given.run_at_us) if occurrence is None else occurrence.scheduled_for

    def waited_s(self) -> float:
        """Return the seconds from the claim to the start of the handler."""
        return max(0.0, self.began - self.given.claimed_mono)

    def late_by(self) -> timedelta:
        late = from_us(self.given.claimed_at_us) + timedelta(seconds=self.waited_s()) - self.scheduled_for()
        return max(late, timedelta(0))

    def progress(self, fraction: float, note: str | None) -> None:
        shown = None if note is None else self.sink.masked(note)[:NOTE_LIMIT]  # mask first: a cut secret is not found
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
