"""The whole table of routes."""

from __future__ import annotations

from tickwork.http.resources import (
    audit,
    calendars,
    dags,
    deliveries,
    health,
    hooks,
    jobs,
    keys,
    leases,
    metrics,
    notifications,
    run_actions,
    runs,
    schedules,
    secrets,
    session,
    tasks,
    users,
)
from tickwork.http.route import Route

ROUTES: tuple[Route, ...] = (
    *health.probes.all,
    *health.about.all,
    *metrics.routes.all,
    *session.routes.all,
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
    *keys.routes.all,
    *users.routes.all,
    *secrets.routes.all,
    *audit.routes.all,
)
