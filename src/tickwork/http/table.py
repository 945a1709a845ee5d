"""The whole table of routes."""

from __future__ import annotations

from tickwork.http.resources import (
    calendars,
    dags,
    deliveries,
    health,
    hooks,
    jobs,
    leases,
    metrics,
    notifications,
    run_actions,
    runs,
    schedules,
    tasks,
)
from tickwork.http.route import Route

ROUTES: tuple[Route, ...] = (
    *health.probes.all,
    *health.about.all,
    *metrics.routes.all,
    *jobs.routes.all,
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
