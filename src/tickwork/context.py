"""The current job: the facts and operations available to a handler while it runs, and the creator of new jobs.

The creator is stored with each new job, so that an operator can find the jobs that a user or component started. It is
a text of a kind and a name: `user:ada`, `key:deploy` and `nobody` (over REST, as in the audit log), `cli:ada@host`,
`schedule:nightly`, `hook:github`, `notification:ops` and `job:<id>` (a handler of that job enqueued it). Jobs that a
program enqueues through the library have no creator: the library does not know who runs the program.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta
from typing import Any, Protocol

from tickwork.core.arguments import payload
from tickwork.core.ids import ClaimId, JobId
from tickwork.core.job import AskingAttempt, MapIndex
from tickwork.core.limits.job_limits import Broadcast
from tickwork.core.occurrence import Occurrence
from tickwork.errors import InvalidInput, NoCurrentJob

NOTE_LIMIT = 500  # characters of a progress note


class WorkerLink(Protocol):
    """The connection of a running attempt to its worker."""

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

    def occurrence(self) -> Occurrence | None: ...

    def scheduled_for(self) -> datetime: ...

    def late_by(self) -> timedelta: ...

    def progress(self, fraction: float, note: str | None) -> None:
        """Report progress. Secrets in the note are masked, and then it is cut to NOTE_LIMIT characters."""

    def save(self, state: bytes) -> None:
        """Store the state of the handler's work; return when it is stored.

        Raises LeaseLost if this attempt was superseded.
        """

    def saved(self) -> bytes | None: ...

    def map_place(self) -> MapIndex | None: ...

    def secret(self, name: str) -> str: ...

    def stops(self) -> bool: ...


class LazyTransaction:
    """The connection of a transactional handler. Its transaction begins on first use.

    `begin` is called at most once and returns the store's own connection. All other attributes are those of that
    connection.
    """

    def __init__(self, begin: Callable[[], Any]) -> None:
        self._begin = begin
        self._connection: Any = None

    def begun(self) -> Any:
        """Return the connection, inside its transaction."""
        if self._connection is None:
            self._connection = self._begin()
        return self._connection

    def execute(self, sql: str, values: Any = ()) -> Any:
        """Run a statement in the transaction, which commits only when the job ends."""
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
    """The job and the attempt that this handler runs. `batch` holds all jobs of the same call."""

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
        """The identity of this attempt, which the store checks in calls made on its behalf."""
        return AskingAttempt(self.id, self.attempt, self._link.claim)

    @property
    def task(self) -> str:
        return self._link.task_name

    @property
    def queue(self) -> str:
        return self._link.queue

    @property
    def run_id(self) -> str | None:
        """The id of the dag run to which this step belongs; None for a job that is not a step."""
        return self._link.run_id

    @property
    def step(self) -> str | None:
        """The name of the step that this job executes; None for a job that is not a step."""
        return self._link.step

    @property
    def broadcast(self) -> Broadcast | None:
        """The place of this worker in a broadcast, `index` of `total`; None if the job is not part of a broadcast."""
        return self._link.broadcast

    @property
    def timeout(self) -> timedelta | None:
        """How long this attempt may take; None if there is no limit."""
        return self._link.timeout

    @property
    def map_index(self) -> int | None:
        """The number of this instance of a mapped step, counted from 0; None for other jobs.

        Each access reads the store.
        """
        place = self._link.map_place()
        return None if place is None else place.index

    @property
    def map_count(self) -> int | None:
        """The number of instances of the mapped step; None for other jobs. Each access reads the store."""
        place = self._link.map_place()
        return None if place is None else place.count

    @property
    def scheduled_for(self) -> datetime:
        """When this attempt was due. For a job of a schedule: its occurrence, which is the same for every attempt.

        A step has the occurrence of its run, also for the attributes `late_by`, `schedule`, `is_catchup` and
        `interval`.
        """
        return self._link.scheduled_for()

    @property
    def late_by(self) -> timedelta:
        """The delay between `scheduled_for` and the call of the handler."""
        return self._link.late_by()

    @property
    def schedule(self) -> str | None:
        """The name of the schedule that made this job or its run; None if no schedule did."""
        occurrence = self._link.occurrence()
        return None if occurrence is None else occurrence.schedule

    @property
    def is_catchup(self) -> bool:
        """Whether this job runs for an occurrence that was missed."""
        occurrence = self._link.occurrence()
        return occurrence is not None and occurrence.is_catchup

    @property
    def interval(self) -> tuple[datetime, datetime] | None:
        """The period from the previous occurrence to the occurrence of this job. None for the first occurrence."""
        occurrence = self._link.occurrence()
        return None if occurrence is None else occurrence.interval

    @property
    def logger(self) -> logging.Logger:
        """A logger whose lines of level INFO and above are stored with the attempt."""
        return logging.getLogger(f"tickwork.task.{self.task}")

    @property
    def token(self) -> str:
        """The identity of this attempt. Pass it to external systems so that they can reject a superseded attempt.

        The attribute `id` is the same for all attempts of the job.
        """
        return f"{self.id}:{self.attempt}"

    def secret(self, name: str) -> str:
        """Return the value of a secret of the store, or else of an environment variable that `secret_env` allows.

        The worker decrypts the secret and masks it in everything that is stored of this attempt from then on: output,
        result, error, progress, saved state. Raises InvalidArguments if there is no secret of that name, and
        SecretError if this job may not use it.
        """
        return self._link.secret(name)

    @property
    def cancelled(self) -> bool:
        """Whether this handler should stop: the job was cancelled, or the worker is losing its lease."""
        return self._link.stops()

    def progress(self, fraction: float, note: str | None = None) -> None:
        """Report progress from 0 to 1. It is shown while the job runs. The call is cheap enough for a loop."""
        if not 0 <= fraction <= 1:
            raise InvalidInput(f"progress goes from 0 to 1, not {fraction!r}.")
        self._link.progress(float(fraction), None if note is None else payload.storable(str(note)))

    def save(self, state: Any) -> None:
        """Store the state of the work, which a later attempt reads as `saved`. Returns when the state is durable.

        Raises LeaseLost if this attempt was superseded, so that the handler stops.
        """
        if self.transaction is not None:
            raise InvalidInput(
                f"job {self.id} is transactional: nothing of it stays unless all of it does. There is nothing to save."
            )
        what = f"the state saved by job {self.id}"
        self._link.save(payload.encode(state, what=what, limit_bytes=payload.RESULT_LIMIT))

    @property
    def saved(self) -> Any:
        """The state that an earlier attempt saved; None if no attempt saved any."""
        stored = self._link.saved()
        return None if stored is None else payload.decode(stored)


_current: ContextVar[CurrentJob | None] = ContextVar("tickwork_current_job", default=None)


def current_job() -> CurrentJob:
    """Return the job that the calling handler runs.

    Raises NoCurrentJob outside of a handler, and in a batch handler.
    """
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
    """Return the jobs of the calling batch handler, one for each argument.

    Raises NoCurrentJob outside of a batch handler.

    Each has its own `id`, `attempt`, `token`, `progress`, `save` and so on. `cancelled` is true for all of them when
    the whole call should stop, for example because every job was cancelled.
    """
    job = _current.get()
    if job is None or not job.batch:
        raise NoCurrentJob("current_batch() works inside a handler with batch=, when a worker runs it.")
    return list(job.batch)


def current_or_none() -> CurrentJob | None:
    """Return the current job, or None outside of a handler. In a batch handler: the first job of the batch."""
    return _current.get()


def set_current(job: CurrentJob | None) -> None:
    """Make a job the current job of this thread or coroutine. Executors call it."""
    _current.set(job)


def set_current_batch(jobs: Sequence[CurrentJob]) -> None:
    """Make jobs the current batch of this thread or coroutine. Executors call it."""
    jobs[0].batch = jobs
    _current.set(jobs[0])


_creator: ContextVar[str | None] = ContextVar("tickwork_creator", default=None)


@contextmanager
def creating_as(creator: str) -> Iterator[None]:
    """Set the creator of the jobs that this thread or coroutine makes inside the block."""
    before = _creator.set(creator)
    try:
        yield
    finally:
        _creator.reset(before)


def current_creator() -> str | None:
    """Return the creator to store with a job made now. Inside a handler it is the job of the handler.

    Returns None in a batch handler, which runs many jobs in one call: the job on whose behalf it makes another is not
    known.
    """
    asking = current_or_none()
    if asking is None:
        return _creator.get()
    return None if asking.batch else f"job:{asking.id}"
