"""The whole table of routes."""

from __future__ import annotations

from tickwork.http.resources import audit, health, jobs, keys, metrics, secrets, session, users
from tickwork.http.route import Route

ROUTES: tuple[Route, ...] = (
    *health.probes.all,
    *health.about.all,
    *metrics.routes.all,
    *session.routes.all,
    *jobs.routes.all,
    *keys.routes.all,
    *users.routes.all,
    *secrets.routes.all,
    *audit.routes.all,
)
