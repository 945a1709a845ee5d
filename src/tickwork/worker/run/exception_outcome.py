"""What an exception of a handler means for its attempt."""

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
    """What an exception means for all attempts of its call."""
    return attempt.each(lambda one: failure(one, error))


def failure(attempt: Attempt, error: BaseException) -> AttemptEnd:
    """What an exception of a handler, or on the way to it, means for the attempt."""
    try:
        return _meaning(attempt, error)
    except Exception as wrong:  # Snooze("5 parsecs"), or an exception that cannot even be shown
        return attempt.end("failed", error=_told(attempt, wrong), fatal=True)


def _meaning(attempt: Attempt, error: BaseException) -> AttemptEnd:
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
    """The traceback, from the user's own frame on: what a worker does on the way there explains nothing."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith("tickwork.worker."):
        trace = trace.tb_next
    text = "".join(traceback.format_exception(type(error), error, trace)).rstrip()
    return clip(storable(attempt.sink.masked(text)))  # in this order: a secret that was cut would not be known
