"""Call the handler of an attempt, plain or async, and return the ends of all attempts of the call.

Arguments that are too large for the store are read from blobs before the call, and results that are too large are
written to blobs after it. An exception of the handler decides the end: failed, fatal, snoozed or cancelled.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from datetime import timedelta
from typing import Any

import msgspec

from tickwork import errors
from tickwork.blobs import LargeResults
from tickwork.context import CurrentJob, LazyTransaction, set_current, set_current_batch
from tickwork.core.arguments.payload import RESULT_LIMIT, storable
from tickwork.core.blob_ref import MARK
from tickwork.core.ids import JobId
from tickwork.core.job_options import matches
from tickwork.core.outcome import JobCounts, Succeeded, clip, decide
from tickwork.core.text.duration import parse_duration
from tickwork.store.attempt_types import Finish
from tickwork.store.base import Store
from tickwork.task import Task
from tickwork.worker.ipc.protocol import AttemptEnd
from tickwork.worker.run.attempt import Attempt


class HandlerCalls:
    """Calls handlers. `limit_transaction` is called with an attempt whose transaction begins."""

    def __init__(
        self,
        store: Callable[[], Store],
        large_results: LargeResults,
        limit_transaction: Callable[[Attempt, Store], None],
    ) -> None:
        self._store = store
        self._large_results = large_results
        self._limit_transaction = limit_transaction

    def plain(self, attempt: Attempt) -> list[AttemptEnd]:
        """Call the plain handler of an attempt and return the ends of all attempts of the call."""
        try:
            task = _task_of(attempt)
            if task.batch is not None:
                call = BatchCall(attempt, task, self._arguments)
                ends = call.ends(task.function(call.arguments) if call.arguments else [])
            elif task.transactional:
                ends = [self._in_transaction(attempt, task)]
            else:
                args, kwargs = task.signature.decode(self._arguments(attempt))
                ends = [attempt.end("succeeded", result=_encoded(attempt, task, task.function(*args, **kwargs)))]
            return self._kept(attempt, ends) if _is_large(ends) else ends
        except errors.Interrupted:
            return attempt.interrupted()
        except BaseException as error:  # SystemExit, too, ends the handler and not the worker
            return _failures(attempt, error)

    async def on_loop(self, attempt: Attempt) -> list[AttemptEnd]:
        """Call the async handler of an attempt and return the ends of all attempts of the call."""
        try:
            task = _task_of(attempt)
            if any(MARK in one.args for one in attempt.everyone()):
                await asyncio.to_thread(self._fetch, attempt)
            if task.batch is not None:
                call = BatchCall(attempt, task, self._arguments)
                ends = call.ends(await task.function(call.arguments) if call.arguments else [])
            else:
                args, kwargs = task.signature.decode(self._arguments(attempt))
                ends = [attempt.end("succeeded", result=_encoded(attempt, task, await task.function(*args, **kwargs)))]
            return await asyncio.to_thread(self._kept, attempt, ends) if _is_large(ends) else ends
        except asyncio.CancelledError:
            return attempt.interrupted()
        except BaseException as error:  # SystemExit, too, ends the handler and not the worker
            return _failures(attempt, error)

    def _in_transaction(self, attempt: Attempt, task: Task[Any, Any]) -> AttemptEnd:
        """Call a transactional handler, whose writes commit together with the end of its job, or not at all."""
        args, kwargs = task.signature.decode(self._arguments(attempt))
        store = self._store()
        with ExitStack() as stack:
            transaction = LazyTransaction(lambda: self._begin_transaction(attempt, store, stack))
            set_current(CurrentJob(attempt, transaction))
            result = _encoded(attempt, task, task.function(transaction, *args, **kwargs))
            result = self._keep(attempt, result)
            outcome = decide(JobCounts(), Succeeded(result), _NO_CHANCE)
            given, waited_us = attempt.given, round(attempt.waited_s() * 1e6)
            about = (waited_us, given.run, given.step, given.produce, attempt.reported)
            finish = Finish(JobId(attempt.job_id), attempt.number, attempt.claim, outcome, *about)
            attempt.sink.flush(final=True)
            if not store.finish_attempts([finish], attempt.written, transaction.begun()):
                raise errors.LeaseLost("this attempt was superseded; what its transaction wrote was rolled back.")
        return attempt.end("succeeded", result=result, settled=True)

    def _begin_transaction(self, attempt: Attempt, store: Store, stack: ExitStack) -> Any:
        self._limit_transaction(attempt, store)
        return stack.enter_context(store.connection())

    # -- large arguments and results

    def _arguments(self, attempt: Attempt) -> bytes:
        """Return the encoded arguments of an attempt, with references replaced by the contents of blobs."""
        return self._large_results.whole(attempt.args) if MARK in attempt.args else attempt.args

    def _fetch(self, attempt: Attempt) -> None:
        """Read the blobs of a call's arguments in advance, off the event loop. Decoding raises read errors."""
        for one in attempt.everyone():
            with suppress(errors.TickworkError):
                one.args = self._arguments(one)

    def _kept(self, attempt: Attempt, ends: Sequence[AttemptEnd]) -> list[AttemptEnd]:
        """Write large results to blobs and return the ends with references; a write error fails its attempt."""
        by_job = {one.job_id: one for one in attempt.everyone()}
        return [self._kept_end(by_job[end.job_id], end) for end in ends]

    def _kept_end(self, attempt: Attempt, end: AttemptEnd) -> AttemptEnd:
        if end.result is None or end.settled:
            return end
        try:
            return msgspec.structs.replace(end, result=self._keep(attempt, end.result))
        except Exception as error:
            return _failure(attempt, error)

    def _keep(self, attempt: Attempt, result: bytes) -> bytes:
        """Write a large result to a blob and return its reference; return a small one unchanged.

        Raises InvalidPayload and BlobError.
        """
        return self._large_results.keep(
            result, attempt.job_id, attempt.number, f"the result of task {attempt.task_name!r}"
        )


def _is_large(ends: Sequence[AttemptEnd]) -> bool:
    """Return whether a result of these ends must be written to a blob."""
    return any(end.result is not None and len(end.result) > RESULT_LIMIT for end in ends)


def _task_of(attempt: Attempt) -> Task[Any, Any]:
    if attempt.task is None:
        raise errors.UnknownTask(f"this worker has no task named {attempt.given.task!r}.")
    return attempt.task


def _encoded(attempt: Attempt, task: Task[Any, Any], result: Any) -> bytes:
    """Return a handler's result in its stored encoding, with the attempt's secrets masked."""
    return attempt.sink.masked_json(task.signature.encode_result(result, task.name))


class _FixedRandom:
    """A substitute for the random generator that `decide` requires but never uses for a success."""

    def random(self) -> float:
        raise errors.InvariantBroken("a success was about to be retried.")


_NO_CHANCE: Any = _FixedRandom()


class BatchCall:
    """The arguments of a batch call and its attempts. A job whose arguments cannot be decoded fails and is left out."""

    def __init__(self, attempt: Attempt, task: Task[Any, Any], arguments: Callable[[Attempt], bytes]) -> None:
        self._attempt = attempt
        self._task = task
        self._ends: dict[str, AttemptEnd] = {}
        self._called: list[Attempt] = []
        self.arguments: list[Any] = []
        for one in attempt.everyone():
            try:
                self.arguments.append(task.signature.decode_one(arguments(one)))
                self._called.append(one)
            except Exception as error:  # decoding constructs user classes, which may raise anything
                self._ends[one.job_id] = _failure(one, error)
        if self._called:
            set_current_batch([CurrentJob(one) for one in self._called])

    def ends(self, returned: Any) -> list[AttemptEnd]:
        """Return the end of each attempt for the list of results that the handler returned.

        An exception in the list fails its job, as if the handler had raised it for this job alone. Raises
        InvalidPayload if `returned` is not a list of one result per job.
        """
        results = [None] * len(self._called) if returned is None else returned
        if not isinstance(results, list | tuple) or len(results) != len(self._called):
            found = f"{len(results)} results" if isinstance(results, list | tuple) else f"a {type(results).__name__}"
            raise errors.InvalidPayload(
                f"task {self._task.name!r} was called for {len(self._called)} jobs and returned {found}. A batch "
                f"handler returns None, or a list with a result for each of its jobs."
            )
        for one, result in zip(self._called, results, strict=True):
            self._ends[one.job_id] = self._end(one, result)
        return self._attempt.each(lambda one: self._ends[one.job_id])

    def _end(self, attempt: Attempt, result: Any) -> AttemptEnd:
        if isinstance(result, BaseException):
            return _failure(attempt, result)
        try:
            return attempt.end("succeeded", result=_encoded(attempt, self._task, result))
        except Exception as error:
            return _failure(attempt, error)


def _failures(attempt: Attempt, error: BaseException) -> list[AttemptEnd]:
    """Return the ends of all attempts of a call that raised an exception."""
    return attempt.each(lambda one: _failure(one, error))


def _failure(attempt: Attempt, error: BaseException) -> AttemptEnd:
    """Return the end of an attempt whose handler, or the preparation of its call, raised an exception."""
    try:
        return _meaning(attempt, error)
    except Exception as wrong:  # for example Snooze("5 parsecs"), or an exception whose str() raises
        return attempt.end("failed", error=_told(attempt, wrong), fatal=True)


def _meaning(attempt: Attempt, error: BaseException) -> AttemptEnd:
    """Return the end of an attempt, decided by the type of its exception and the task's retry options."""
    given = attempt.given
    match error:
        case errors.Snooze(after=after):
            return attempt.end("snoozed", after_s=_seconds(after))
        case errors.Cancel():
            return attempt.end("cancelled", error=storable(str(error)) or "the handler cancelled its own job")
        case errors.Retry(after=after):
            return attempt.end(
                "failed", error=_told(attempt, error), after_s=None if after is None else _seconds(after)
            )
        case errors.Fatal() | errors.InvalidInput():
            return attempt.end("failed", error=_told(attempt, error), fatal=True)
    gives_up = matches(error, given.give_up_on) or bool(given.retry_on and not matches(error, given.retry_on))
    return attempt.end("failed", error=_told(attempt, error), fatal=gives_up)


def _seconds(after: str | timedelta) -> float:
    return parse_duration(after, what="after").total_seconds()


def _told(attempt: Attempt, error: BaseException) -> str:
    """Return the traceback of an error, without the worker's first frames, with secrets masked, cut to its limit."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith("tickwork.worker."):
        trace = trace.tb_next
    text = "".join(traceback.format_exception(type(error), error, trace)).rstrip()
    return clip(storable(attempt.sink.masked(text)))  # mask before clipping: a cut secret would not be found
