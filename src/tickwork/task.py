"""Tasks with their options and limits, and the calls that enqueue their jobs."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from datetime import timedelta
from functools import cached_property, update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar, cast

import msgspec

from tickwork.api.async_twins import twin
from tickwork.api.client import Client, Job
from tickwork.api.runs import Run
from tickwork.clock import SystemClock
from tickwork.config import Settings
from tickwork.context import current_creator, current_or_none
from tickwork.core.arguments import payload
from tickwork.core.arguments.signature import Signature
from tickwork.core.ids import IdMaker, JobId
from tickwork.core.job import NewJob, TaskDefinition
from tickwork.core.job_options import DEFAULT_QUEUE, Options
from tickwork.core.job_stamper import JobStamper
from tickwork.core.limits.limits import AnyLimit
from tickwork.core.limits.task_limits import (
    TaskLimits,
    encode_task_limits,
)
from tickwork.core.workers.batch import Batch
from tickwork.core.workers.broadcast import EXPIRES, addressed, addressees
from tickwork.dag_builder.record_steps import current_trace
from tickwork.dag_builder.steps import NO_STEP, StepOptions, split_step, step_template
from tickwork.dag_builder.task_calls import ArgumentEncoder, TaskCallInfo, Traceable, add_call, again_every, refuse_call
from tickwork.errors import InvalidArguments, InvalidOption
from tickwork.otel import sent
from tickwork.store.base import Store

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Item = TypeVar("Item")
Rows = Iterable[Sequence[Any] | Mapping[str, Any]]  # arguments of jobs, by position or by name


class Enqueues(Traceable, Generic[Arguments, Result]):
    """A task with its options, which can be enqueued, or called inside of a dag."""

    def __init__(
        self,
        registry: TaskRegistry,
        name: str,
        signature: Callable[[], ArgumentEncoder],
        options: Options,
        task_limits: Callable[[], TaskLimits],
        *,
        step: StepOptions = NO_STEP,
        version: Callable[[], int | None] | None = None,
    ) -> None:
        self._registry = registry
        self.name = name
        self._signature = signature
        self.defaults = options
        self._task_limits = task_limits
        self.step = step
        self._version = version
        self._stamped: tuple[TaskLimits | None, JobStamper | None] = (None, None)
        self._called: tuple[TaskLimits | None, TaskCallInfo | None] = (None, None)

    @property
    def is_dag(self) -> bool:
        """Whether this is a dag, whose jobs are runs."""
        return self._version is not None

    def options(self, **options: Any) -> Enqueues[Arguments, Result]:
        """Return the task with other options: `send.options(delay="5m", key="x").enqueue(...)`.

        Inside of a dag they are the options of a step, which also has `name`, `run_if`, `max_parallel`, `produce` and
        `may_fail`, as in `tell.options(run_if="any_failed")("it failed")`.
        """
        step, rest = split_step(options)
        return self._with(
            self.defaults.updated(rest) if rest else self.defaults, self.step.updated(step) if step else self.step
        )

    def until(self, *, every: str | timedelta, timeout: str | timedelta | None = None) -> Enqueues[Arguments, Result]:
        """Inside of a dag: return the task as a sensor, which runs again every `every` while its result is false.

        A sensor holds no slot between its runs, and expires after `timeout`: `is_there.until(every="30s",
        timeout="1h")(path)`.
        """
        task = self._registry.tasks.get(self.name)
        if task is not None and task.transactional:
            raise InvalidOption(f"task {self.name!r} is transactional: it ends with its transaction, and not again.")
        wait, limit = again_every(every, timeout)
        defaults = self.defaults if limit is None else self.defaults.updated({"expires": limit})
        return self._with(defaults, replace(self.step, again_every=wait))

    def _with(self, options: Options, step: StepOptions) -> Enqueues[Arguments, Result]:
        about = (self._registry, self.name, self._signature)
        return Enqueues(*about, options, self._task_limits, step=step, version=self._version)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Inside of a dag: add a step that runs this task, and return a reference to its result."""
        trace = current_trace()
        if trace is None:
            raise refuse_call(self.name)
        return add_call(trace, self.called(), args, kwargs)

    def called(self) -> TaskCallInfo:
        """Return what a step needs to know of the task. Raises InvalidOption for options that a step cannot have."""
        task_limits, (known, called) = self._task_limits(), self._called
        if called is None or known is not task_limits:
            called = TaskCallInfo(
                self._signature(), step_template(self.name, self.defaults, task_limits, self.step), self.step
            )
            self._called = (task_limits, called)
        return called

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
        """Return the arguments of a call as JSON. Raises InvalidArguments and InvalidPayload."""
        return self._signature().encode(args, kwargs, self.name)

    def enqueue(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Job:
        """Store a job; return when it is durable, or, with `tx=`, when it is part of that transaction."""
        job = self.new_job(args, kwargs)
        return self._held(self._registry.client.enqueue([job], self.defaults.tx))[0]

    async def enqueue_async(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Job:
        """Store a job without blocking the event loop."""
        job = await asyncio.to_thread(self.new_job, args, kwargs) if self._version else self.new_job(args, kwargs)
        return self._held(await self._registry.client.enqueue_async([job], self.defaults.tx))[0]

    def enqueue_many(self, rows: Rows, options: Iterable[Mapping[str, Any]] | None = None) -> list[Job]:
        """Store many jobs in one transaction. A row is a tuple of positional or a dict of named arguments.

        `options` has one dict of options per row, which override the options common to all jobs:
        `send.enqueue_many([("ada",), ("bob",)], [{"key": "mail:ada"}, {"delay": "5m"}])`.
        """
        jobs = self._jobs(rows, options)
        return self._held(self._registry.client.enqueue(jobs, self.defaults.tx))

    async def enqueue_many_async(self, rows: Rows, options: Iterable[Mapping[str, Any]] | None = None) -> list[Job]:
        """Store many jobs in one transaction without blocking the event loop."""
        jobs = await asyncio.to_thread(self._jobs, rows, options) if self._version else self._jobs(rows, options)
        return self._held(await self._registry.client.enqueue_async(jobs, self.defaults.tx))

    def broadcast(self, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> list[Job]:
        """Store one job for each live worker that could run the task, which only that worker runs; return the jobs.

        The handler reads its place in `current_job().broadcast`. A job whose worker stops before the job starts
        expires after `expires=` (default: ten minutes).
        """
        return self._registry.client.enqueue(self._for_each_worker(args, kwargs), self.defaults.tx)

    broadcast_async = twin(broadcast)

    def _for_each_worker(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[NewJob]:
        """Return the jobs of a broadcast."""
        meant = self if self.defaults.expires is not None else self.options(expires=EXPIRES)
        workers = addressees(self._registry.store.reads.workers(), meant.new_job(args, kwargs))
        return [addressed(meant.new_job(args, kwargs), one, n, len(workers)) for n, one in enumerate(workers)]

    def new_job(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> NewJob:
        """Return the job that `enqueue` would store, checked and with an id of its own."""
        encoded = self.encode(args, kwargs)
        return self._new_jobs([encoded])[0]

    def job_named(self, arguments: Mapping[str, Any]) -> NewJob:
        """Return a new job for arguments given by name as JSON values."""
        return self._new_jobs([self._signature().encode_named(arguments, self.name)])[0]

    def job_with(self, encoded: bytes) -> NewJob:
        """Return a new job with the encoded arguments of another job of the task, without validating them again."""
        return self._new_jobs([encoded])[0]

    def _jobs(self, rows: Rows, options: Iterable[Mapping[str, Any]] | None) -> list[NewJob]:
        """Return one job per row of arguments, all with the options of this task.

        Raises InvalidOption if they would share a key.
        """
        if options is not None:
            return self._jobs_with(list(rows), list(options))
        if self.defaults.key is not None:
            raise InvalidOption(
                "many jobs cannot share one key: there is one live job per key. Enqueue them one by one."
            )
        signature = self._signature()
        return self._new_jobs([self._row(signature, row) for row in rows])

    def _jobs_with(
        self, rows: list[Sequence[Any] | Mapping[str, Any]], options: list[Mapping[str, Any]]
    ) -> list[NewJob]:
        """Return one job per row of arguments, each with its own options."""
        if len(rows) != len(options):
            raise InvalidOption(
                f"there are {len(rows)} rows and {len(options)} options: give one dict of options for each "
                f"row. Nothing was stored."
            )
        if any("tx" in one for one in options):
            raise InvalidOption(
                "tx is for all jobs of a batch: task.options(tx=tx).enqueue_many(...). Nothing was stored."
            )
        signature = self._signature()
        made = (self.options(**one) if one else self for one in options)
        return [with_own._new_jobs([self._row(signature, row)])[0] for with_own, row in zip(made, rows, strict=True)]

    def _new_jobs(self, encoded: Sequence[bytes]) -> list[NewJob]:
        """Return jobs for encoded arguments, with the limits, produced assets and dag version of the task."""
        jobs = self._registry.new_jobs(self.name, encoded, self.defaults, self._stamp())
        if self.step.produce:
            policy = msgspec.structs.replace(jobs[0].policy, produce=self.step.produce) if jobs else None
            jobs = [msgspec.structs.replace(job, policy=policy) for job in jobs]
        version = None if self._version is None else self._version()
        return jobs if version is None else [msgspec.structs.replace(job, version=version) for job in jobs]

    def _held(self, jobs: list[Job]) -> list[Job]:
        """Return jobs in the type that callers receive: `Run` if this is a dag, else `Job`."""
        return jobs if not self.is_dag else [Run(self._registry.client, job.id, is_new=job.is_new) for job in jobs]

    def _stamp(self) -> JobStamper | None:
        """Return the stamper that adds limits to jobs, rebuilt when the declarations of the app have changed."""
        task_limits = self._task_limits()
        if task_limits is not self._stamped[0]:
            if option := self.step.said:
                raise InvalidOption(
                    f"{option} is an option of a step of a dag, and a job of {self.name!r} is not a step. Leave it out."
                )
            self._stamped = (task_limits, self.defaults.stamp(self.name, task_limits))
        return self._stamped[1]

    def _row(self, signature: ArgumentEncoder, row: Sequence[Any] | Mapping[str, Any]) -> bytes:
        """Encode the arguments of one row. Raises InvalidArguments."""
        if isinstance(row, (tuple, list)):
            return signature.encode(tuple(row), {}, self.name)
        if isinstance(row, Mapping):
            return signature.encode((), row, self.name)
        raise InvalidArguments(
            f"each row for task {self.name!r} is a tuple of positional or a dict of named arguments, not {row!r}. "
            f"Nothing was stored."
        )


class Task(Enqueues[Arguments, Result]):
    """A function that jobs can run. Calling it calls the function; inside of a dag, calling it adds a step."""

    def __init__(
        self,
        registry: TaskRegistry,
        function: Callable[Arguments, Result],
        name: str,
        options: Options,
        declared: TaskLimits,
        *,
        pool: str,
        transactional: bool,
        batch: Batch | None = None,
        step: StepOptions = NO_STEP,
    ) -> None:
        super().__init__(registry, name, lambda: self.signature, options, lambda: self.task_limits, step=step)
        update_wrapper(self, function)
        self.function = function
        self.declared = declared
        self.pool = pool
        self.transactional = transactional
        self.batch = batch

    @cached_property
    def signature(self) -> Signature:
        """The parameters and the return type, read at first use, so that hints may name types defined later."""
        if self.batch is not None:
            return Signature.of_batch(self.function)
        return Signature.of(self.function, skip_first=self.transactional)

    @cached_property
    def task_limits(self) -> TaskLimits:
        """The limits to stamp on the jobs of this task."""
        return with_queue_limits(self.declared, self._registry.queue_limits, self.signature)

    def forget_limits(self) -> None:
        """Discard the cached `task_limits`, after queue limits were declared."""
        self.__dict__.pop("task_limits", None)

    def __call__(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        trace = current_trace()
        if trace is None:
            return self.function(*args, **kwargs)
        return cast("Result", add_call(trace, self.called(), args, kwargs))

    def definition(self) -> TaskDefinition:
        """Return the definition that a worker reports to the store."""
        wanted = replace(self.defaults, key=self.name)  # some options need a key, which jobs have themselves
        (job,) = wanted.new_jobs(self.name, [(JobId(""), b"")])
        task_limits = msgspec.structs.replace(
            self.task_limits, tenant=self.defaults.tenant, needs=self.defaults.needs or ""
        )
        schema = msgspec.json.encode(self.signature.schema())
        policy = msgspec.structs.replace(job.policy, produce=self.step.produce)
        return TaskDefinition(self.name, job.queue, job.priority, policy, schema, encode_task_limits(task_limits))


class BatchTask(Task[[Item], Result]):
    """A task whose jobs have one item each, and whose function takes a list of items."""

    def __call__(self, items: list[Item], /) -> Result:  # type: ignore[override]
        return super().__call__(items)  # type: ignore[arg-type]


_given_ids: ContextVar[IdMaker | None] = ContextVar("tickwork_given_ids", default=None)


@contextmanager
def ids_from(maker: IdMaker) -> Iterator[None]:
    """Take the ids of jobs that the block enqueues from `maker`, so that running the block again gives the same ids."""
    before = _given_ids.set(maker)
    try:
        yield
    finally:
        _given_ids.reset(before)


class TaskRegistry:
    """The tasks of an app by name, and what is needed to make their jobs. A subclass adds the store."""

    settings: Settings

    def __init__(self) -> None:
        self._ids = IdMaker(lambda: SystemClock().wall_us() // 1000, secrets.randbits)
        self.tasks: dict[str, Task[Any, Any]] = {}
        self.queue_limits: dict[str, tuple[AnyLimit, ...]] = {}

    @property
    def store(self) -> Store:
        """The store that holds the jobs of these tasks."""
        raise NotImplementedError

    @property
    def client(self) -> Client:
        """The job client of the store."""
        raise NotImplementedError

    def new_jobs(
        self, name: str, encoded: Sequence[bytes], options: Options, stamp: JobStamper | None = None
    ) -> list[NewJob]:
        """Return new jobs of one task, each with its own id; inside a handler they are children of its job.

        Jobs that a batch handler enqueues have no parent: it is not known for which of its jobs it enqueues them.
        """
        asking = current_or_none()
        if options.parent is None and asking is not None and not asking.batch:
            options = replace(options, parent=asking.id)
        if options.trace is None and (trace := sent(name, options.queue or DEFAULT_QUEUE, len(encoded))) is not None:
            options = replace(options, trace=trace)
        ids = (_given_ids.get() or self._ids).new_ids(len(encoded))
        return options.new_jobs(name, zip(map(JobId, ids), encoded, strict=True), stamp, current_creator())

    def decode_result(self, name: str, data: bytes) -> Any:
        """Decode a stored result by the type hints of its task; for an unknown task return plain JSON."""
        task = self.tasks.get(name)
        return task.signature.decode_result(data) if task else payload.decode(data)


def with_queue_limits(
    declared: TaskLimits, queues: dict[str, tuple[AnyLimit, ...]], signature: Signature
) -> TaskLimits:
    """Return the limits to stamp on jobs: declared limits, limits of queues, and the defaults that limit keys use."""
    task_limits = msgspec.structs.replace(declared, queues=queues)
    read = task_limits.parameters
    return msgspec.structs.replace(task_limits, defaults=signature.defaults(read)) if read else task_limits
