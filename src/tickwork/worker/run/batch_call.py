"""One call of a batch handler: the arguments of many jobs in, an outcome for each of them out."""

from __future__ import annotations

from typing import Any

from tickwork.blobs import LargeResults
from tickwork.context import CurrentJob, set_current_batch
from tickwork.errors import InvalidPayload
from tickwork.task import Task
from tickwork.worker.ipc.protocol import AttemptEnd
from tickwork.worker.run.attempt import Attempt
from tickwork.worker.run.exception_outcome import failure


class BatchCall:
    """What a handler is called with, and for whom. A job whose argument cannot be read fails, and is left out."""

    def __init__(self, attempt: Attempt, task: Task[Any, Any], results: LargeResults) -> None:
        self._attempt = attempt
        self._task = task
        self._ends: dict[str, AttemptEnd] = {}
        self._called: list[Attempt] = []
        self.arguments: list[Any] = []
        for one in attempt.everyone():
            try:
                self.arguments.append(task.signature.decode_one(results.whole(one.args)))
                self._called.append(one)
            except Exception as error:  # users' classes are made here, which can fail in any way
                self._ends[one.job_id] = failure(one, error)
        if self._called:
            set_current_batch([CurrentJob(one) for one in self._called])

    def ends(self, returned: Any) -> list[AttemptEnd]:
        """How each attempt ended, by what the handler returned. Raises InvalidPayload for what is no list of results.

        An exception among the results is the failure of its job, as if the job's own handler had raised it.
        """
        results = [None] * len(self._called) if returned is None else returned
        if not isinstance(results, list | tuple) or len(results) != len(self._called):
            found = f"{len(results)} results" if isinstance(results, list | tuple) else f"a {type(results).__name__}"
            raise InvalidPayload(
                f"task {self._task.name!r} was called for {len(self._called)} jobs and returned {found}. A batch "
                f"handler returns None, or a list with a result for each of its jobs."
            )
        for one, result in zip(self._called, results, strict=True):
            self._ends[one.job_id] = self._end(one, result)
        return self._attempt.each(lambda one: self._ends[one.job_id])

    def _end(self, attempt: Attempt, result: Any) -> AttemptEnd:
        if isinstance(result, BaseException):
            return failure(attempt, result)
        try:
            encoded = self._task.signature.encode_result(result, self._task.name)
            return attempt.end("succeeded", result=attempt.sink.masked_json(encoded))
        except Exception as error:
            return failure(attempt, error)
