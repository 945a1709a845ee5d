"""The table of all routes."""

from __future__ import annotations

from tickwork.http.framework.route import Route
from tickwork.http.resources.admin import (
    audit,
    keys,
    login,
    notifications,
    secrets,
    sessions,
    settings,
    tasks,
    users,
    workers,
)
from tickwork.http.resources.dags import approvals, dag_list, dags, run_actions, run_grid, run_steps, runs
from tickwork.http.resources.hooks import deliveries, hooks
from tickwork.http.resources.jobs import bulk, dead_letters, job_counts, job_history, jobs, leases, queues, rerun
from tickwork.http.resources.limits import limits
from tickwork.http.resources.schedules import calendars, occurrences, schedules
from tickwork.http.resources.stats import change_stream, health, metrics, overview, search, series, stats

ROUTES: tuple[Route, ...] = (
    *health.probes.all,
    *health.about.all,
    *metrics.routes.all,
    *login.routes.all,
    *sessions.routes.all,
    *job_counts.routes.all,
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
    *series.routes.all,
    *overview.routes.all,
    *leases.routes.all,
    *tasks.routes.all,
    *occurrences.routes.all,
    *schedules.routes.all,
    *calendars.routes.all,
    *dag_list.routes.all,
    *dags.routes.all,
    *run_grid.routes.all,
    *runs.routes.all,
    *run_steps.routes.all,
    *approvals.routes.all,
    *run_actions.routes.all,
    *hooks.routes.all,
    *deliveries.routes.all,
    *notifications.routes.all,
    *keys.routes.all,
    *users.routes.all,
    *secrets.routes.all,
    *audit.routes.all,
    *settings.routes.all,
)
