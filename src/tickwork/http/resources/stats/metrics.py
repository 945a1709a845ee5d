"""Metrics in the Prometheus text format."""

from __future__ import annotations

from starlette.responses import Response

from tickwork.http.framework.route import Routes, Scope
from tickwork.http.request import Call
from tickwork.observe.counters import exposition
from tickwork.observe.metrics_table import CONNECTIONS, CONNECTIONS_REFUSED

routes = Routes("metrics", prefix="")
TYPE = "text/plain; version=0.0.4; charset=utf-8"


@routes.get("/metrics", Scope.METRICS, streams="text/plain")
def metrics(call: Call) -> Response:
    """Return the metrics of the store and of this server, in the Prometheus text format."""
    call.parts.store_counts.look()
    counts = call.app.store.connections()
    call.parts.tally.set(CONNECTIONS, {(): counts.open})
    call.parts.tally.set(CONNECTIONS_REFUSED, {(): counts.refused})
    return Response(exposition(call.parts.store_counts.tally, call.parts.tally), media_type=TYPE)
