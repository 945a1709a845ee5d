"""Liveness and readiness probes, the API document, and metrics in the Prometheus text format."""

from __future__ import annotations

from starlette.responses import HTMLResponse, Response

from tickwork.http.framework.problems import Problem
from tickwork.http.framework.route import NO_CREDENTIALS, Routes, Scope, Struct
from tickwork.http.request import Call
from tickwork.http.server_context import READY_S
from tickwork.observe.counters import exposition
from tickwork.observe.metrics_table import CONNECTIONS, CONNECTIONS_REFUSED
from tickwork.version import VERSION

probes = Routes("health", prefix="")
about = Routes("about")
TYPE = "text/plain; version=0.0.4; charset=utf-8"


class HealthBody(Struct):
    """The process runs."""

    status: str
    version: str


class ReadyBody(Struct):
    """The database is available; `database_age_s` is the time since its last answer."""

    status: str
    database_age_s: float


@probes.get("/healthz", NO_CREDENTIALS)
async def healthz(call: Call) -> HealthBody:
    """Return that this process runs, without a query to the database."""
    return HealthBody(status="ok", version=VERSION)


@probes.get("/readyz", NO_CREDENTIALS)
async def readyz(call: Call) -> ReadyBody:
    """Return whether the database answered within the last 10 seconds; 503 if it did not."""
    age = call.parts.pulse.age_s
    if age is None or age > READY_S:
        said = "has not answered yet" if age is None else f"last answered {age:.0f} s ago"
        raise Problem(503, "not-ready", f"the database {said}.", headers={"Retry-After": "2"})
    return ReadyBody(status="ok", database_age_s=round(age, 3))


@about.get("/openapi.json", NO_CREDENTIALS, streams="application/json")
async def openapi(call: Call) -> Response:
    """Return this document."""
    return Response(call.request.app.state.document(), media_type="application/json")


@about.get("/docs", NO_CREDENTIALS, streams="text/html")
async def docs(call: Call) -> Response:
    """Return this document as an HTML page."""
    from tickwork.http.framework.openapi import POLICY

    return HTMLResponse(
        call.request.app.state.docs_page(call.request.scope.get("root_path", "")),
        headers={"Content-Security-Policy": POLICY},
    )


scrapes = Routes("metrics", prefix="")


@scrapes.get("/metrics", Scope.METRICS, streams="text/plain")
def metrics(call: Call) -> Response:
    """Return the metrics of the store and of this server, in the Prometheus text format."""
    call.parts.store_counts.look()
    counts = call.app.store.connections()
    call.parts.tally.set(CONNECTIONS, {(): counts.open})
    call.parts.tally.set(CONNECTIONS_REFUSED, {(): counts.refused})
    return Response(exposition(call.parts.store_counts.tally, call.parts.tally), media_type=TYPE)
