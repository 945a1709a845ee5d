"""Call a batch handler with the arguments of many jobs, and derive the end of each job from its results."""

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
    """The arguments of a batch call and its attempts. A job whose arguments cannot be decoded fails and is left out."""

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
            except Exception as error:  # decoding constructs user classes, which may raise anything
                self._ends[one.job_id] = failure(one, error)
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
