"""OpenTelemetry tracing, from an enqueue through the attempts of its job.

OpenTelemetry is used only if the user's own code has imported it; otherwise there is no cost and no dependency. A job
keeps the W3C `traceparent` of the code that enqueued it; the steps of a run have the `traceparent` of their run. An
attempt that begins within a minute continues that trace; a later attempt begins a new trace, since a trace of several
days is not useful. Both are linked to the span of the enqueue.
"""

from __future__ import annotations

import re
import sys
from datetime import datetime, timedelta
from typing import Any

from tickwork.core.ids import created_at, is_id
from tickwork.version import VERSION

SAME_TRACE = timedelta(minutes=1)
_API = "opentelemetry.trace"
_TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


def is_traced() -> bool:
    """Return whether this process has loaded OpenTelemetry."""
    return _API in sys.modules


def sent(task: str, queue: str, count: int) -> str | None:
    """Record a span for an enqueue; return the `traceparent` for its jobs, or None if there is no trace."""
    if not is_traced():
        return None
    api: Any = sys.modules[_API]
    about = {**_about(task, queue, "send"), "messaging.batch.message_count": count}
    span = api.get_tracer("tickwork", VERSION).start_span(f"send {queue}", kind=api.SpanKind.PRODUCER, attributes=about)
    span.end()
    context = span.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}" if context.is_valid else None


class AttemptSpan:
    """The span of one attempt; it is the current span while the attempt runs."""

    def __init__(self, task: str, queue: str, job_id: str, attempt: int, trace: str | None, now: datetime) -> None:
        from opentelemetry import context

        api: Any = sys.modules[_API]
        origin, parent = _origin(api, trace), None
        if origin is not None and is_id(job_id) and now - created_at(job_id) < SAME_TRACE:
            parent = api.set_span_in_context(api.NonRecordingSpan(origin))
        about = {**_about(task, queue, "process"), "messaging.message.id": job_id, "tickwork.attempt": attempt}
        self._api = api
        self._span = api.get_tracer("tickwork", VERSION).start_span(
            f"process {queue}",
            context=parent,
            kind=api.SpanKind.CONSUMER,
            attributes=about,
            links=[] if origin is None else [api.Link(origin)],
        )
        self._detach = context.detach
        self._token = context.attach(api.set_span_in_context(self._span))

    def failed(self, kind: str, error: str | None) -> None:
        """Mark the span as failed."""
        self._span.set_attribute("error.type", kind)
        self._span.set_status(self._api.StatusCode.ERROR, (error or kind).strip().rpartition("\n")[2][:200])

    def end(self) -> None:
        self._detach(self._token)
        self._span.end()


def _about(task: str, queue: str, operation: str) -> dict[str, Any]:
    return {
        "messaging.system": "tickwork",
        "messaging.destination.name": queue,
        "messaging.operation.type": operation,
        "messaging.operation.name": operation,
        "tickwork.task": task,
    }


def _origin(api: Any, trace: str | None) -> Any:
    """Return the span context of a `traceparent`; None if the `traceparent` is missing or malformed."""
    found = None if trace is None else _TRACEPARENT.fullmatch(trace)
    if found is None:
        return None
    context = api.SpanContext(int(found[1], 16), int(found[2], 16), True, api.TraceFlags(int(found[3], 16)))
    return context if context.is_valid else None
