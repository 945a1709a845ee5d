"""The whole table of routes."""

from __future__ import annotations

from tickwork.http.resources import health, jobs, metrics
from tickwork.http.route import Route

ROUTES: tuple[Route, ...] = (*health.probes.all, *health.about.all, *metrics.routes.all, *jobs.routes.all)
