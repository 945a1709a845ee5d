"""Map an exception of a handler to the end of its attempt: failed, fatal, snoozed or cancelled."""

from __future__ import annotations

import traceback
from datetime import timedelta

from tickwork import errors
from tickwork.core.arguments.payload import storable
from tickwork.core.duration import parse_duration
from tickwork.core.job_options import matches
from tickwork.core.outcome import clip
from tickwork.worker.ipc.protocol import AttemptEnd
from tickwork.worker.run.attempt import Attempt


def failures(attempt: Attempt, error: BaseException) -> list[AttemptEnd]:
    """Return the ends of all attempts of a call that raised an exception."""
    return attempt.each(lambda one: failure(one, error))


def failure(attempt: Attempt, error: BaseException) -> AttemptEnd:
    """Return the end of an attempt whose handler, or the preparation of its call, raised an exception."""
    try:
        return _meaning(attempt, error)
    except Exception as wrong:  # for example Snooze("5 parsecs"), or an exception whose str() raises
        return attempt.end("failed", error=_told(attempt, wrong), fatal=True)


def _meaning(attempt: Attempt, error: BaseException) -> AttemptEnd:
    """Return the end of an attempt by the type of its exception and the task's retry options."""
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
    """Return the traceback without the worker's own frames at its start, with secrets masked, cut to its limit."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith("tickwork.worker."):
        trace = trace.tb_next
    text = "".join(traceback.format_exception(type(error), error, trace)).rstrip()
    return clip(storable(attempt.sink.masked(text)))  # mask before clipping: a cut secret would not be found
