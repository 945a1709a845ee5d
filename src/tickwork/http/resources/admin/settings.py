"""The settings of a server, and the health of the server and its database, for administrators."""

from __future__ import annotations

import platform
from datetime import datetime, timedelta

from tickwork.config import effective_settings, sqlite_path
from tickwork.core.recurrence.zones import EPOCH
from tickwork.http.framework.route import ListBody, Routes, Scope, Struct
from tickwork.http.request import Call
from tickwork.version import VERSION

routes = Routes("settings")


class SettingBody(Struct):
    """A setting in force. `source` is "default", "argument", the name of a variable, or a file.

    Passwords are masked. `variable` is the environment variable that sets it.
    """

    name: str
    value: str | None
    source: str
    variable: str
    description: str


class ConfigBody(ListBody[SettingBody]):
    """The settings of this server, by name."""


class ServiceBody(Struct):
    """A service of this server: the seconds since its last tick, its last error, and the seconds since that error."""

    name: str
    ticked_s: float
    error: str | None
    failed_s: float | None


class HealthReport(Struct):
    """The health of this server and its database. `facts` are the texts that `tickwork doctor` prints.

    `clock_ahead_s` is by how much the clock of the store is ahead of this host's clock. `scheduler_late_s` is how
    long the most overdue schedule has waited for a scheduler.
    """

    version: str
    python: str
    uptime_s: float
    store: str
    schema_version: int
    now: datetime
    clock_ahead_s: float
    scheduler_late_s: float
    facts: dict[str, str]
    warnings: list[str]
    services: list[ServiceBody]


@routes.get("/config", Scope.ADMIN)
def get_config(call: Call) -> ConfigBody:
    """List the settings that this server runs with, and where each was set."""
    found = effective_settings(call.app.settings, call.app.settings_from)
    return ConfigBody(
        [SettingBody(one.name, value, source, one.variable, one.description) for one, value, source in found], None
    )


@routes.get("/health", Scope.READ)
def get_health(call: Call) -> HealthReport:
    """Return the health of this server and its database: versions, sizes, clocks, delays, and warnings with advice."""
    store, clock = call.app.store, call.parts.clock
    here = clock.wall_us()
    now = store.now()
    ahead = now - EPOCH - timedelta(microseconds=(here + clock.wall_us()) // 2)
    health, schema = store.health(), store.schema_status()
    return HealthReport(
        version=VERSION,
        python=platform.python_version(),
        uptime_s=round(clock.monotonic() - call.parts.began, 3),
        store="sqlite" if sqlite_path(call.app.url) is not None else "postgresql",
        schema_version=schema.applied[-1].number,
        now=now,
        clock_ahead_s=round(ahead.total_seconds(), 6),
        scheduler_late_s=round(store.reads.schedules_late().total_seconds(), 3),
        facts=health.facts,
        warnings=health.warnings,
        services=_services(call, clock.monotonic()),
    )


def _services(call: Call, now: float) -> list[ServiceBody]:
    return [
        ServiceBody(
            name,
            round(now - one.at, 3),
            one.error,
            None if one.failed_at is None else round(now - one.failed_at, 3),
        )
        for name, one in sorted(call.parts.ticks.last().items())
    ]
