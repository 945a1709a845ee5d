"""Arguments and results that are too large for the store, on their way to a handler and back."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import msgspec

from tickwork.blobs import LargeResults
from tickwork.core.arguments.payload import RESULT_LIMIT
from tickwork.core.blob_ref import MARK
from tickwork.errors import TickworkError
from tickwork.worker.ipc.protocol import AttemptEnd
from tickwork.worker.run.attempt import Attempt
from tickwork.worker.run.exception_outcome import failure


def has_blobs(attempt: Attempt) -> bool:
    """Whether something that a call is made with has to be read from blobs."""
    return any(MARK in one.args for one in attempt.everyone())


def fetch(attempt: Attempt, results: LargeResults) -> None:
    """Read it ahead, away from the event loop. What cannot be read now is told of when it is needed."""
    for one in attempt.everyone():
        with suppress(TickworkError):
            one.args = results.whole(one.args)


def is_large(ends: Sequence[AttemptEnd]) -> bool:
    """Whether a result among these must go into a blob."""
    return any(end.result is not None and len(end.result) > RESULT_LIMIT for end in ends)


def kept(attempt: Attempt, ends: Sequence[AttemptEnd], results: LargeResults) -> list[AttemptEnd]:
    """Ends as the store takes them: large results are in blobs before anybody hears of them, or have failed."""
    by_job = {one.job_id: one for one in attempt.everyone()}
    return [_kept(by_job[end.job_id], end, results) for end in ends]


def _kept(attempt: Attempt, end: AttemptEnd, results: LargeResults) -> AttemptEnd:
    if end.result is None:
        return end
    try:
        return msgspec.structs.replace(end, result=keep(attempt, end.result, results))
    except Exception as error:
        return failure(attempt, error)


def keep(attempt: Attempt, result: bytes, results: LargeResults) -> bytes:
    """What to store for a result. Raises InvalidPayload and BlobError."""
    return results.keep(result, attempt.job_id, attempt.number, f"the result of task {attempt.task_name!r}")
