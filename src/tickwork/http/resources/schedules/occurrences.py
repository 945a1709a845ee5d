"""Past occurrences of schedules over REST, one by one and by day, and the number of occurrences per minute of a day."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Annotated

from msgspec import Meta

from tickwork.core.recurrence.zones import day_start, local_date, zone_name
from tickwork.core.schedule.density import Counter
from tickwork.errors import InvalidOption
from tickwork.http.framework.params import PageQuery, bad_cursor
from tickwork.http.framework.route import ListBody, Routes, Scope, Struct
from tickwork.http.request import Call
from tickwork.http.resources.schedules.schedules import found_schedule

routes = Routes("schedules")
COUNTED = 20_000  # the latest fires that are grouped by day
SCHEDULES = 10_000  # schedules that are read for the density of a day
_PAGE = 1_000


class FireBody(Struct):
    """The outcome of an occurrence."""

    due_at: datetime
    action: str
    job_id: str | None
    fired_at: datetime
    is_catchup: bool
    reason: str | None


class FirePage(ListBody[FireBody]):
    """The outcomes of some occurrences, latest first."""


class DaysQuery(Struct):
    """The number of weeks up to today."""

    weeks: Annotated[int, Meta(ge=1, le=53)] = 26


class DayBody(Struct):
    """The outcomes of a day's occurrences: `late` ones were caught up later, `failed` ones did not succeed.

    `live` ones have not ended. `pruned` ones were started, but their jobs were deleted, so their outcome is not
    known.
    """

    day: date
    ok: int = 0
    late: int = 0
    skipped: int = 0
    failed: int = 0
    live: int = 0
    pruned: int = 0


class DaysBody(Struct):
    """Days with occurrences, oldest first, in the time zone of the schedule.

    `is_partial`: there are more occurrences than were counted; the first day is incomplete, and earlier ones are
    missing.
    """

    zone: str
    since: date
    until: date
    items: list[DayBody]
    is_partial: bool


class DensityQuery(Struct):
    """The day and its time zone; by default, the 24 hours that begin now."""

    day: date | None = None
    tz: str = "UTC"


class DensityBody(Struct):
    """The number of occurrences of all schedules in each of the 1,440 minutes from `start` on.

    `schedules` is how many schedules were counted. `is_partial`: there are more.
    """

    start: datetime
    minutes: list[int]
    schedules: int
    is_partial: bool


@routes.get("/schedules/{name}/fires", Scope.READ)
def list_fires(call: Call, name: str, query: PageQuery) -> FirePage:
    """List the outcomes of a schedule's occurrences, latest first."""
    fires = found_schedule(call, name).fires(query.limit, None if query.cursor is None else _instant(query.cursor))
    items = [FireBody(one.due_at, one.action, one.job_id, one.fired_at, one.is_catchup, one.reason) for one in fires]
    return FirePage(items, fires[-1].due_at.isoformat() if len(fires) == query.limit else None)


@routes.get("/schedules/{name}/days", Scope.READ)
def list_days(call: Call, name: str, query: DaysQuery) -> DaysBody:
    """Count the outcomes of a schedule's occurrences on each day of the last weeks."""
    zone = found_schedule(call, name).spec.rule.zone
    today = local_date(zone, call.app.store.now())
    since = today - timedelta(days=7 * query.weeks - 1)
    counts = call.app.store.reads.fire_counts(name, day_start(zone, since), COUNTED)
    days: dict[date, DayBody] = {}
    for one in counts:
        day = local_date(zone, one.at)
        found = days.setdefault(day, DayBody(day))
        setattr(found, one.outcome, getattr(found, one.outcome) + one.fires)
    is_partial = sum(one.fires for one in counts) >= COUNTED
    return DaysBody(zone, since, today, list(days.values()), is_partial)


@routes.get("/density", Scope.READ)
def schedule_density(call: Call, query: DensityQuery) -> DensityBody:
    """Count the occurrences of all schedules that are not paused, in each minute of a day."""
    store = call.app.store
    now = store.now()
    start = now.replace(second=0, microsecond=0)
    if query.day is not None:
        if not 1970 < query.day.year < 8000:
            raise InvalidOption(f"day is {query.day}; it must be in the years 1971 to 7999.")
        start = day_start(zone_name(query.tz), query.day)
    counter = Counter(start, now, store.schedules.calendars())
    looked_at = 0
    after = ""
    while looked_at < SCHEDULES and not counter.is_partial and (page := store.schedules.list_schedules(_PAGE, after)):
        for view in page:
            counter.add(view.spec, view.standing)
        looked_at, after = looked_at + len(page), page[-1].name
    return DensityBody(start, counter.counts, counter.schedules, counter.is_partial or looked_at >= SCHEDULES)


def _instant(cursor: str) -> datetime:
    """Return the instant of a cursor. Raises Problem."""
    try:
        found = datetime.fromisoformat(cursor)
    except ValueError:
        raise bad_cursor() from None
    if found.tzinfo is None or not 1970 <= found.year < 9000:
        raise bad_cursor()
    return found
