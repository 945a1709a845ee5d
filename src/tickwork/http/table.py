"""The whole table of routes."""

from __future__ import annotations

from tickwork.http.resources import bulk, dead, flow, health, job_trail, jobs, metrics, queues, stats, workers
from tickwork.http.route import Route

ROUTES: tuple[Route, ...] = (
    *health.probes.all,
    *health.about.all,
    *metrics.routes.all,
    *jobs.routes.all,
    *job_trail.routes.all,
    *bulk.routes.all,
    *dead.routes.all,
    *queues.routes.all,
    *workers.routes.all,
    *flow.limits.all,
    *flow.gates.all,
    *flow.tenants.all,
    *stats.routes.all,
)
