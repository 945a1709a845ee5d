"""The whole table of routes."""

from __future__ import annotations

from tickwork.http.resources import (
    bulk,
    calendars,
    dags,
    dead,
    deliveries,
    flow,
    health,
    hooks,
    job_trail,
    jobs,
    leases,
    metrics,
    notifications,
    queues,
    run_actions,
    runs,
    schedules,
    stats,
    tasks,
    workers,
)
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
    *leases.routes.all,
    *tasks.routes.all,
    *schedules.routes.all,
    *calendars.routes.all,
    *dags.routes.all,
    *runs.routes.all,
    *run_actions.routes.all,
    *hooks.routes.all,
    *deliveries.routes.all,
    *notifications.routes.all,
)
