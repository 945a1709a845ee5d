"""Is it alive, is it ready, and what can it do: the routes for probes and for tools that read documents."""

from __future__ import annotations

from starlette.responses import HTMLResponse, Response

from tickwork.http.framework.problems import Problem
from tickwork.http.framework.route import NO_CREDENTIALS, Routes, Struct
from tickwork.http.request import Call
from tickwork.http.server_context import READY_S
from tickwork.version import VERSION

probes = Routes("health", prefix="")
about = Routes("about")


class HealthBody(Struct):
    """This process runs."""

    status: str
    version: str


class ReadyBody(Struct):
    """The database answered so long ago."""

    status: str
    database_age_s: float


@probes.get("/healthz", NO_CREDENTIALS)
async def healthz(call: Call) -> HealthBody:
    """Say that this process runs. It asks nothing of the database."""
    return HealthBody(status="ok", version=VERSION)


@probes.get("/readyz", NO_CREDENTIALS)
async def readyz(call: Call) -> ReadyBody:
    """Say whether the database answered lately: of its last good answer, not of hope."""
    age = call.parts.pulse.age_s
    if age is None or age > READY_S:
        said = "has not answered yet" if age is None else f"last answered {age:.0f} s ago"
        raise Problem(503, "not-ready", f"the database {said}.", headers={"Retry-After": "2"})
    return ReadyBody(status="ok", database_age_s=round(age, 3))


@about.get("/openapi.json", NO_CREDENTIALS, streams="application/json")
async def openapi(call: Call) -> Response:
    """This document."""
    return Response(call.request.app.state.document(), media_type="application/json")


@about.get("/docs", NO_CREDENTIALS, streams="text/html")
async def docs(call: Call) -> Response:
    """This document as a page for people."""
    from tickwork.http.framework.docs_page import POLICY

    return HTMLResponse(
        call.request.app.state.docs_page(call.request.scope.get("root_path", "")),
        headers={"Content-Security-Policy": POLICY},
    )
