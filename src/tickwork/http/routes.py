"""The table of all routes."""

from __future__ import annotations

from tickwork.http.framework.route import Route
from tickwork.http.resources.admin import accounts, audit, login, notifications, secrets, settings, workers
from tickwork.http.resources.dags import dags, run_grid, run_steps, runs
from tickwork.http.resources.hooks import hooks
from tickwork.http.resources.jobs import bulk, dead_letters, job_history, jobs, leases, queues, rerun
from tickwork.http.resources.limits import limits
from tickwork.http.resources.schedules import calendars, occurrences, schedules
from tickwork.http.resources.stats import change_stream, health, overview, search, stats

ROUTES: tuple[Route, ...] = (
    *health.probes.all,
    *health.about.all,
    *health.scrapes.all,
    *login.routes.all,
    *accounts.session_routes.all,
    *jobs.routes.all,
    *job_history.routes.all,
    *rerun.routes.all,
    *bulk.routes.all,
    *dead_letters.routes.all,
    *queues.routes.all,
    *workers.routes.all,
    *limits.limits.all,
    *limits.gates.all,
    *limits.tenants.all,
    *stats.routes.all,
    *search.routes.all,
    *change_stream.routes.all,
    *overview.routes.all,
    *leases.routes.all,
    *workers.task_routes.all,
    *occurrences.routes.all,
    *schedules.routes.all,
    *calendars.routes.all,
    *dags.routes.all,
    *run_grid.routes.all,
    *runs.routes.all,
    *run_steps.routes.all,
    *hooks.routes.all,
    *hooks.delivery_routes.all,
    *notifications.routes.all,
    *accounts.key_routes.all,
    *accounts.user_routes.all,
    *secrets.routes.all,
    *audit.routes.all,
    *settings.routes.all,
)
