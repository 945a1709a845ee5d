"""One trace from an enqueue through its attempt, what that enqueues, and the steps of a run."""

from datetime import UTC, datetime, timedelta

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.waiting import eventually
from tickwork import Tickwork
from tickwork.core.ids import first_id
from tickwork.otel import AttemptSpan

EXPORTER = InMemorySpanExporter()


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    if not isinstance(trace.get_tracer_provider(), TracerProvider):  # it can be set once in a process
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(EXPORTER))
        trace.set_tracer_provider(provider)
    EXPORTER.clear()
    return EXPORTER


def named(exporter: InMemorySpanExporter, name: str, task: str) -> ReadableSpan:
    def find() -> ReadableSpan | None:
        spans = exporter.get_finished_spans()
        return next(
            (one for one in spans if one.name == name and (one.attributes or {}).get("tickwork.task") == task), None
        )

    return eventually(find, what=f"{name} of {task}")


def trace_of(span: ReadableSpan) -> int:
    context = span.get_span_context()
    assert context is not None
    return context.trace_id


def test_an_attempt_goes_on_in_the_trace_of_its_enqueue(app: Tickwork, exporter: InMemorySpanExporter) -> None:
    @app.task
    def inner() -> None: ...

    @app.task
    def outer() -> None:
        inner.enqueue()

    with app.worker(), trace.get_tracer("test").start_as_current_span("request") as request:
        outer.enqueue().wait(10)
    sent, processed = named(exporter, "send default", "outer"), named(exporter, "process default", "outer")
    last = named(exporter, "process default", "inner")
    assert {trace_of(one) for one in (sent, processed, last)} == {request.get_span_context().trace_id}
    assert processed.parent is not None
    assert processed.parent.span_id == sent.get_span_context().span_id  # type: ignore[union-attr]


def test_a_failed_attempt_is_an_error_in_its_trace(app: Tickwork, exporter: InMemorySpanExporter) -> None:
    @app.task(retries=0)
    def bad() -> None:
        raise ValueError("no")

    with app.worker():
        bad.enqueue().wait(10)
    span = named(exporter, "process default", "bad")
    assert span.status.status_code is trace.StatusCode.ERROR
    assert "no" in (span.status.description or "")


def test_the_steps_of_a_run_are_in_the_trace_of_the_run(app: Tickwork, exporter: InMemorySpanExporter) -> None:
    @app.task
    def first() -> int:
        return 1

    @app.task
    def second(x: int) -> int:
        return x + 1

    @app.dag
    def pair() -> None:
        second(first())

    with app.worker(), trace.get_tracer("test").start_as_current_span("request") as request:
        pair.enqueue().wait(10)
    spans = [named(exporter, "process default", task) for task in ("first", "second")]
    assert {trace_of(one) for one in spans} == {request.get_span_context().trace_id}


def test_an_attempt_long_after_its_enqueue_begins_a_trace_of_its_own_and_links_to_the_old_one(
    exporter: InMemorySpanExporter,
) -> None:
    enqueued = datetime(2026, 11, 15, tzinfo=UTC)
    old = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    for later, task in ((timedelta(seconds=30), "soon"), (timedelta(days=2), "late")):
        AttemptSpan(task, "default", first_id(enqueued), 1, old, enqueued + later).end()
    soon, late = (named(exporter, "process default", task) for task in ("soon", "late"))
    assert trace_of(soon) == int(old[3:35], 16) != trace_of(late)
    assert [link.context.trace_id for link in late.links] == [int(old[3:35], 16)]


def test_what_is_no_traceparent_is_left_alone(exporter: InMemorySpanExporter) -> None:
    AttemptSpan("odd", "default", "no id", 1, "00-zz", datetime(2026, 11, 15, tzinfo=UTC)).end()
    assert named(exporter, "process default", "odd").links == ()
