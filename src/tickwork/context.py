"""What a handler knows of its own job, and may say of it while it runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from datetime import datetime, timedelta
from typing import Any, Protocol

from tickwork.core.arguments import payload
from tickwork.core.ids import ClaimId, JobId
from tickwork.core.job import AskingAttempt, MapIndex
from tickwork.core.limits.lanes import Broadcast
from tickwork.core.occurrence import Occurrence
from tickwork.errors import InvalidInput, NoCurrentJob

NOTE_LIMIT = 500  # characters of a progress note


class WorkerLink(Protocol):
    """How a running attempt reaches its worker, and what it was given."""

    @property
    def job_id(self) -> str: ...

    @property
    def number(self) -> int: ...

    @property
    def claim(self) -> ClaimId: ...

    @property
    def task_name(self) -> str: ...

    @property
    def queue(self) -> str: ...

    @property
    def run_id(self) -> str | None: ...

    @property
    def step(self) -> str | None: ...

    @property
    def broadcast(self) -> Broadcast | None: ...

    @property
    def timeout(self) -> timedelta | None: ...

    def tick(self) -> Occurrence | None: ...

    def scheduled_for(self) -> datetime: ...

    def late_by(self) -> timedelta: ...

    def progress(self, fraction: float, note: str | None) -> None:
        """Keep so much of the note as NOTE_LIMIT allows, once secrets in it are hidden."""

    def save(self, state: bytes) -> None:
        """Return when the state is stored; LeaseLost when this attempt was superseded."""

    def saved(self) -> bytes | None: ...

    def map_place(self) -> MapIndex | None: ...

    def secret(self, name: str) -> str: ...

    def stops(self) -> bool: ...


class LazyTransaction:
    """What a transactional handler holds: a connection whose transaction begins with the first use of it.

    `begin` is called at most once and returns the store's own connection. Everything else is that connection's.
    """

    def __init__(self, begin: Callable[[], Any]) -> None:
        self._begin = begin
        self._connection: Any = None

    def begun(self) -> Any:
        """The connection, inside its transaction."""
        if self._connection is None:
            self._connection = self._begin()
        return self._connection

    def execute(self, sql: str, values: Any = ()) -> Any:
        """Run a statement in the transaction that ends with this job, and not before."""
        word, _, rest = sql.strip().upper().partition(" ")
        if word.rstrip(";") in {"BEGIN", "COMMIT", "END"} or (
            word.rstrip(";") == "ROLLBACK" and "TO" not in rest.split()
        ):
            raise InvalidInput(
                f"a transactional handler cannot {word.rstrip(';')}: its transaction commits when it returns, and "
                f"rolls back when it raises. Use SAVEPOINT for parts of it."
            )
        return self.begun().execute(sql, values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.begun(), name)


class CurrentJob:
    """The job that this handler is running for, and this attempt of it. `batch`: those that the same call runs for."""

    __slots__ = ("_link", "batch", "transaction")

    def __init__(self, link: WorkerLink, transaction: LazyTransaction | None = None) -> None:
        self._link = link
        self.transaction = transaction
        self.batch: Sequence[CurrentJob] = ()

    @property
    def id(self) -> JobId:
        return JobId(self._link.job_id)

    @property
    def attempt(self) -> int:
        return self._link.number

    @property
    def asking(self) -> AskingAttempt:
        """How the store is told which attempt asks."""
        return AskingAttempt(self.id, self.attempt, self._link.claim)

    @property
    def task(self) -> str:
        return self._link.task_name

    @property
    def queue(self) -> str:
        return self._link.queue

    @property
    def run_id(self) -> str | None:
        """The id of the run of a dag that this job is a step of; None elsewhere."""
        return self._link.run_id

    @property
    def step(self) -> str | None:
        """The name of the step that this job is; None outside of a run."""
        return self._link.step

    @property
    def broadcast(self) -> Broadcast | None:
        """Which of how many workers this is, `index` of `total`, where the job came by `app.broadcast`."""
        return self._link.broadcast

    @property
    def timeout(self) -> timedelta | None:
        """How long this attempt may take; None: there is no limit."""
        return self._link.timeout

    @property
    def map_index(self) -> int | None:
        """Which instance of a mapped step it is, from 0 on; None elsewhere. The worker asks the store each time."""
        place = self._link.map_place()
        return None if place is None else place.index

    @property
    def map_count(self) -> int | None:
        """How many instances the mapped step has; None elsewhere. The worker asks the store each time."""
        place = self._link.map_place()
        return None if place is None else place.count

    @property
    def scheduled_for(self) -> datetime:
        """When this attempt was due; of a schedule's job, the occurrence that it stands for, at every attempt.

        Steps have the occurrence of their run, and so they have what follows.
        """
        return self._link.scheduled_for()

    @property
    def late_by(self) -> timedelta:
        """How much later than that its handler was called."""
        return self._link.late_by()

    @property
    def schedule(self) -> str | None:
        """The name of the schedule that made this job or its run, if one did."""
        tick = self._link.tick()
        return None if tick is None else tick.schedule

    @property
    def is_catchup(self) -> bool:
        """Whether it runs for an occurrence that was missed."""
        tick = self._link.tick()
        return tick is not None and tick.is_catchup

    @property
    def interval(self) -> tuple[datetime, datetime] | None:
        """The period that its occurrence stands for: from the one before it to it. None for the first of all."""
        tick = self._link.tick()
        return None if tick is None else tick.interval

    @property
    def logger(self) -> logging.Logger:
        """A logger whose lines are kept with the attempt, from INFO on."""
        return logging.getLogger(f"tickwork.task.{self.task}")

    @property
    def token(self) -> str:
        """Names this try: hand it to outside systems so that they can tell a superseded try. `id` names the effect."""
        return f"{self.id}:{self.attempt}"

    def secret(self, name: str) -> str:
        """The value of a secret of the store, which the worker opens, or else of a variable that `secret_env` allows.

        From then on it is masked in everything that is stored of this attempt: output, result, error, progress, saved
        state. Raises InvalidArguments when there is none of that name, SecretError when this job may not use it.
        """
        return self._link.secret(name)

    @property
    def cancelled(self) -> bool:
        """Whether this handler should stop: the job was cancelled, or the worker is losing its lease."""
        return self._link.stops()

    def progress(self, fraction: float, note: str | None = None) -> None:
        """Say how far the work is, from 0 to 1. Shown while it runs; cheap enough to call in a loop."""
        if not 0 <= fraction <= 1:
            raise InvalidInput(f"progress goes from 0 to 1, not {fraction!r}.")
        self._link.progress(float(fraction), None if note is None else payload.storable(str(note)))

    def save(self, state: Any) -> None:
        """Store where the work stands; a later attempt finds it in `saved`. Returns when it is on disk.

        Raises LeaseLost when this attempt was superseded, so that it stops before it does more harm.
        """
        if self.transaction is not None:
            raise InvalidInput(
                f"job {self.id} is transactional: nothing of it stays unless all of it does. There is nothing to save."
            )
        what = f"the state saved by job {self.id}"
        self._link.save(payload.encode(state, what=what, limit_bytes=payload.RESULT_LIMIT))

    @property
    def saved(self) -> Any:
        """What an earlier attempt saved, or None."""
        stored = self._link.saved()
        return None if stored is None else payload.decode(stored)


_current: ContextVar[CurrentJob | None] = ContextVar("tickwork_current_job", default=None)


def current_job() -> CurrentJob:
    """The job that the calling handler runs for. Raises NoCurrentJob elsewhere, and in a batch handler."""
    job = _current.get()
    if job is None:
        raise NoCurrentJob("current_job() works inside a handler that a worker runs; this code was called directly.")
    if job.batch:
        raise NoCurrentJob(
            f"task {job.task!r} runs for {len(job.batch)} jobs in one call; current_batch() lists them in the order of "
            f"their arguments."
        )
    return job


def current_batch() -> list[CurrentJob]:
    """The jobs that the calling batch handler runs for, one for each argument. Raises NoCurrentJob elsewhere.

    Each has its own `id`, `attempt`, `token`, `progress`, `save` and so on. `cancelled` is true of all when the whole
    call should stop, which it should when every one of them was cancelled.
    """
    job = _current.get()
    if job is None or not job.batch:
        raise NoCurrentJob("current_batch() works inside a handler with batch=, when a worker runs it.")
    return list(job.batch)


def current_or_none() -> CurrentJob | None:
    """The current job, or None outside of a handler. Of a batch it is the first one: what speaks for the whole call."""
    return _current.get()


def set_current(job: CurrentJob | None) -> None:
    """Make a job the current one of this thread or coroutine. For executors."""
    _current.set(job)


def set_current_batch(jobs: Sequence[CurrentJob]) -> None:
    """Make jobs the current ones of this thread or coroutine. For executors."""
    jobs[0].batch = jobs
    _current.set(jobs[0])
