"""Read large arguments from blobs before a handler is called, and write large results to blobs."""

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
    """Return whether an argument of a call must be read from a blob."""
    return any(MARK in one.args for one in attempt.everyone())


def fetch(attempt: Attempt, results: LargeResults) -> None:
    """Read the blobs of a call's arguments in advance, off the event loop. Read errors are raised at decoding."""
    for one in attempt.everyone():
        with suppress(TickworkError):
            one.args = results.whole(one.args)


def is_large(ends: Sequence[AttemptEnd]) -> bool:
    """Return whether a result of these ends must be written to a blob."""
    return any(end.result is not None and len(end.result) > RESULT_LIMIT for end in ends)


def kept(attempt: Attempt, ends: Sequence[AttemptEnd], results: LargeResults) -> list[AttemptEnd]:
    """Write large results to blobs and return the ends with references to them; a write error fails its attempt."""
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
    """Write a large result to a blob and return its reference; return a small one unchanged.

    Raises InvalidPayload and BlobError.
    """
    return results.keep(result, attempt.job_id, attempt.number, f"the result of task {attempt.task_name!r}")
