"""The history of a job over REST: its attempts, logs, events and result."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from io import SEEK_END, BytesIO
from typing import Annotated, Any, BinaryIO

import msgspec
from msgspec import Meta
from sse_starlette import ServerSentEvent
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from tickwork.api.client import Job
from tickwork.blobs import READ_LIMIT, TooMuch
from tickwork.core.blob_ref import MARK
from tickwork.core.ids import JobId
from tickwork.core.job import AttemptState, AttemptView, JobState, JobView, LogChunk
from tickwork.http.auth.access import CHECK_S
from tickwork.http.framework.params import Limit, Span, duration
from tickwork.http.framework.problems import Problem
from tickwork.http.framework.route import HandlerResult, ListBody, Routes, Scope, Struct
from tickwork.http.live.stream import EventStream
from tickwork.http.live.wait_jobs import stops
from tickwork.http.request import Call
from tickwork.http.resources.jobs.jobs import found

routes = Routes("jobs")
FOLLOW_S = 0.3  # seconds between two polls of a followed log
CROWD = 50  # followed logs; with more, each is polled less often, so that their total rate stays the same
LONGEST_WAIT_S = 60.0
_CHUNK = 256 * 1024
_FIRST = (0, -1)


class AttemptBody(Struct):
    """One attempt of a job."""

    number: int
    state: AttemptState
    worker: str | None
    started_at: datetime
    ended_at: datetime | None
    error: str | None
    progress: float | None
    progress_note: str | None


class AttemptQuery(Struct):
    limit: Limit = 100
    cursor: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0


class AttemptList(Struct):
    """Attempts of a job, oldest first."""

    items: list[AttemptBody]
    next_cursor: int | None


class LogBody(Struct):
    """Lines that an attempt wrote. `seq` increases within an attempt, with gaps.

    `shared`: they came from a process in which other attempts ran, too, and may be output of those.
    """

    attempt: int
    seq: int
    at: datetime
    text: str
    shared: bool


class LogQuery(Struct):
    """With `follow`, the log is sent as server-sent events until the job has ended.

    `cursor`: ATTEMPT:SEQ, a `next_cursor`.
    """

    limit: Limit = 100
    cursor: str | None = None
    follow: bool = False


class LogList(ListBody[LogBody]):
    """The log of a job, in order."""


class EventBody(Struct):
    """An event of a job. `at` is null if its time was not stored."""

    at: datetime | None
    event: str
    attempt: int | None = None
    detail: str | None = None


class EventList(ListBody[EventBody]):
    """The events of a job, in order."""


class ResultQuery(Struct):
    """`wait`: how long to wait for the end of the job, up to a minute, such as "30s", or a number of seconds."""

    wait: Span = 0.0


class PendingBody(Struct):
    """The job has not ended yet."""

    id: str
    state: JobState


@routes.get("/jobs/{id}/attempts", Scope.READ)
def list_attempts(call: Call, id: str, query: AttemptQuery) -> AttemptList:
    """List the attempts of a job, oldest first."""
    tried = [one for one in found(call, id).attempts() if one.number > query.cursor]
    page = tried[: query.limit]
    return AttemptList([_attempt(one) for one in page], page[-1].number if len(tried) > len(page) else None)


def _attempt(one: AttemptView) -> AttemptBody:
    how_far = one.progress, one.progress_note
    return AttemptBody(one.number, one.state, one.worker, one.started_at, one.ended_at, one.error, *how_far)


@routes.get("/jobs/{id}/logs", Scope.READ, returns=LogList, streams="text/event-stream")
async def job_logs(call: Call, id: str, query: LogQuery) -> Any:
    """Return the log of a job. With `follow=true`, or `Accept: text/event-stream`, stream it as it is written.

    Each event `log` has an id to resume from (`Last-Event-ID`), and `end` has the final state of the job.
    """
    follows = query.follow or "text/event-stream" in call.request.headers.get("accept", "")
    after = _place(query.cursor or (call.request.headers.get("last-event-id") if follows else None))
    job = await run_in_threadpool(found, call, id)
    if follows:
        if not call.parts.followers.take():
            raise call.parts.followers.refusal()
        return EventStream(_tail(call, job, after), call.parts.followers)
    chunks = await run_in_threadpool(job.logs, after, query.limit)
    last = chunks[-1] if len(chunks) == query.limit else None
    return LogList([_log(chunk) for chunk in chunks], None if last is None else f"{last.attempt}:{last.seq}")


async def _tail(call: Call, job: Job, after: tuple[int, int]) -> AsyncIterator[ServerSentEvent]:
    """Yield pieces of the log until the job ends, the caller loses access, or the server stops."""
    permit = call.parts.credential_watch.of(call.request, Scope.READ)
    while await permit.holds():
        state = await run_in_threadpool(lambda: job.state)  # read first: all output from before the end is then there
        while chunks := await run_in_threadpool(job.logs, after):
            for chunk in chunks:
                after = (chunk.attempt, chunk.seq)
                yield ServerSentEvent(_text(chunk), event="log", id=f"{chunk.attempt}:{chunk.seq}")
                if not await permit.holds():
                    return
        if JobState(state).ended:
            yield ServerSentEvent(state, event="end")
            return
        if await stops(call.parts.stopping, FOLLOW_S * max(1.0, call.parts.followers.held / CROWD)):
            return


def _log(chunk: LogChunk) -> LogBody:
    return LogBody(chunk.attempt, chunk.seq, chunk.at, chunk.text, chunk.shared)


def _text(chunk: LogChunk) -> str:
    return msgspec.json.encode(_log(chunk)).decode()


def _place(cursor: str | None) -> tuple[int, int]:
    """Return the attempt and the sequence number of a cursor. Raises Problem."""
    if cursor is None:
        return _FIRST
    attempt, _, seq = cursor.partition(":")
    if not (attempt.isdecimal() and seq.isdecimal() and cursor.isascii() and len(attempt) < 10 and len(seq) < 16):
        raise Problem(422, "invalid", f"{cursor!r} is not a place in a log; pass the next_cursor of the page before.")
    return int(attempt), int(seq)


@routes.get("/jobs/{id}/events", Scope.READ)
def job_events(call: Call, id: str) -> EventList:
    """List the events of a job: created, due, the start and end of each attempt, cancel requested, and its end."""
    job = found(call, id)
    return EventList(list(_events(job.view, job.attempts())), None)


def _events(view: JobView, attempts: list[AttemptView]) -> Iterator[EventBody]:
    """Yield the events of a job, as far as they can be derived from its row and its attempts."""
    yield EventBody(view.created_at, "created")
    for one in attempts:
        yield EventBody(one.started_at, "attempt_started", one.number, one.worker)
        if one.ended_at is not None:
            yield EventBody(one.ended_at, f"attempt_{one.state.value}", one.number, one.error)
    if view.cancel_requested:
        yield EventBody(None, "cancel_requested")
    if view.state is JobState.QUEUED:
        yield EventBody(view.run_at, "due")
    if view.ended_at is not None:
        yield EventBody(view.ended_at, view.state.value, detail=view.error)
    if view.discarded:
        yield EventBody(None, "discarded")


@routes.get("/jobs/{id}/result", Scope.READ, returns=None, also={202: PendingBody}, streams="application/json")
async def job_result(call: Call, id: str, query: ResultQuery) -> Any:
    """Return the result of a job as JSON, optionally after waiting for its end. 202 if it has not ended.

    If it ended without a result: 409 with the error, and a code such as `job-failed` or `job-cancelled`.
    """
    wait_s = min(duration("wait", query.wait).total_seconds(), LONGEST_WAIT_S)
    job = await run_in_threadpool(found, call, id)
    if wait_s and not job.seen.state.ended:
        await _wait(call, JobId(id), wait_s)
    view = await run_in_threadpool(lambda: job.view)
    if not view.state.ended:
        return HandlerResult(PendingBody(view.id, view.state), 202)
    if view.state is not JobState.SUCCEEDED or view.result is None:
        said = f"job {view.id} ({view.task}) has {view.state.value}: {view.error or 'nothing was said'}"
        raise Problem(409, f"job-{view.state.value}", said)
    if MARK not in view.result:
        return Response(view.result, media_type="application/json")
    file, size = await run_in_threadpool(_large, call, view.result)
    return StreamingResponse(_pieces(file), media_type="application/json", headers={"Content-Length": str(size)})


async def _wait(call: Call, id: JobId, wait_s: float) -> None:
    """Wait for the end of a job. Raises Problem as soon as the caller may no longer read the job."""
    parts, clock = call.parts, call.parts.clock
    permit, ends_at = parts.credential_watch.of(call.request, Scope.READ), clock.monotonic() + wait_s
    has_ended = False
    while not has_ended and not parts.stopping.is_set() and (left_s := ends_at - clock.monotonic()) > 0:
        has_ended = await parts.watch.ended(call.app.store, id, min(left_s, CHECK_S), parts.stopping)
        await permit.holds()
        permit.check()


def _large(call: Call, result: bytes) -> tuple[BinaryIO, int]:
    """Return a large result as a file, and its size.

    Raises Problem if it cannot be read into memory or opened as a file.

    Up to READ_LIMIT bytes are read into memory; larger results are opened as a file on disk.
    """
    try:
        whole = call.app.large_results.whole(result, READ_LIMIT)
        return BytesIO(whole), len(whole)
    except TooMuch as error:
        file = call.app.large_results.opened(result)
        if file is None:
            said = f"the result has {error} or more in several blobs, or in a place that gives no files; this server "
            said += f"puts together {READ_LIMIT:,} bytes. Read it in Python: app.job(id).result()."
            raise Problem(409, "result-too-large", said) from None
        return file, file.seek(0, SEEK_END)


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    with file:
        file.seek(0)
        while piece := file.read(_CHUNK):
            yield piece
