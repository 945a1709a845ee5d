"""Search and list jobs on PostgreSQL (see `store.reads.job_search`). The SQL is in sql/job_search.sql."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from tickwork.core.ids import JobId, is_id
from tickwork.core.job import COUNTED, JobFilter, JobPage, JobState, JobView, QueueView
from tickwork.core.stats.error_groups import FailedEnd, FailedJob, FailurePage
from tickwork.store.postgres import params
from tickwork.store.postgres.connection.session import Session
from tickwork.store.postgres.connection.verb_pool import VerbPool
from tickwork.store.postgres.rows import id_document, utc
from tickwork.store.reads import job_search
from tickwork.store.reads.job_search import (
    SearchHits,
    StateCount,
    by_state,
    choose,
    counts_of,
    failures_of,
    hits_of,
    like,
    page_of,
    walk_of,
)
from tickwork.store.reads.query_plan import IdRange, ReadPath, bounds, prefix_range, state_of, ways
from tickwork.store.reads.queue_counts import QueueCounts, lanes_of
from tickwork.store.rows.jobs import checked_id, encode_label, failed_end, job_view

T = TypeVar("T")

AMONG = "j.id = ANY (ARRAY(SELECT value::uuid FROM json_array_elements_text({ids}::json)))"
# The first condition is fast, and also true for a label that is part of another one.
_LABELLED = (
    "strpos(j.labels, {quoted}) > 0 "
    "AND EXISTS (SELECT FROM json_array_elements_text(j.labels::json) AS l (name) WHERE l.name = {label})"
)
_OF_TENANT = "strpos(j.job_limits, {quoted_tenant}) > 0 AND j.job_limits::json ->> 'tenant' = {tenant}"
_IDS = frozenset({"below", "floor", "run"})
_START, _END = "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"


class PostgresJobSearch:
    """A part of PostgresStore. It needs from the rest the transactions."""

    _sql: dict[str, str]

    def _perform(self, work: Callable[[Session], T], *, pool: VerbPool | None = None, single: bool = True) -> T:
        raise NotImplementedError

    def list_jobs(self, which: JobFilter, limit: int, before: JobId | None = None) -> list[JobView]:
        return self._page(which, ways(which)[0], limit, before)

    def find_jobs(self, which: JobFilter, limit: int, before: JobId | None = None) -> JobPage:
        """Return a page. For the waiting jobs of a short queue, the queue is read first and its jobs looked up."""
        if which.ids is None and which.queue is not None and state_of(which) is JobState.QUEUED:
            waiting = self._waiting_in(which.queue)
            if waiting is not None:
                return page_of(
                    self._page(which, ways(which)[0], limit, before, among=waiting, is_light=True), limit, which, None
                )
        walk = choose(which, lambda way: self._floor(way, bounds(which, before)))
        views = self._page(which, walk.way, limit, before, walk.floor, is_light=True)
        return page_of(views, limit, which, walk.floor)

    def count_jobs(self, which: JobFilter, most: int) -> list[StateCount]:
        if which.run is not None and not is_id(which.run):
            which = replace(which, run=None, ids=())
        return [one for state, part in by_state(which) for one in self._counted(state, part, most)]

    def _counted(self, state: JobState, which: JobFilter, most: int) -> list[StateCount]:
        walk = choose(which, lambda way: self._floor(way, bounds(which, None)))
        word = self._sql["how_it_waits"] if state is JobState.QUEUED else f"'{state.value}'"
        rows, values = self._walked_rows(word, which, walk.way, walk.floor)
        sql = self._sql["counted_by_word"].replace("{rows}", rows)
        counts = self._perform(lambda session: session.run_sql(sql, {**values, "now": session.now, "most": most}))
        return counts_of(which, dict(counts), most, walk.floor)

    def _walked_rows(
        self, word: str, which: JobFilter, way: ReadPath, floor: JobId | None
    ) -> tuple[str, dict[str, Any]]:
        """Return a SELECT of `word` for each matching job on a walk. The walked jobs are found first, by their index.

        If every walked row counts, no other table is read.
        """
        found, order, values = _conditions(way, bounds(which, None, floor))
        walked = f"{self._sql[way.walks]} WHERE {_all_of(found, values)} ORDER BY {order} LIMIT"
        if way.finds_all and way.begins != "from_jobs":
            return f"SELECT {word} AS word {walked} %(most)s::bigint", values
        further, looked_up = self._further(which, which.ids)
        values |= looked_up
        if way.finds_all:
            among = _all_of([*found, *way.conditions, *further], values)
        else:
            ids = f"SELECT {way.id} {walked} %(walk)s::bigint"
            among = f"j.id = ANY (ARRAY({ids})) AND {_all_of([*way.conditions, *further], values)}"
            values["walk"] = walk_of(way) + 1
        return f"SELECT {word} AS word {self._sql['from_jobs']} WHERE {among} LIMIT %(most)s::bigint", values

    def find_failures(self, which: JobFilter, limit: int, before: JobId | None = None) -> FailurePage:
        dead = replace(which, dead=True)
        walk = choose(dead, lambda way: self._floor(way, bounds(dead, before)))
        rows = self._rows(self._sql["failure_columns"], dead, walk.way, limit, before, walk.floor)
        found = [
            FailedJob(JobId(row["id"]), row["task"], row["error"], utc(row["ended_at"]), row["queue"]) for row in rows
        ]
        return failures_of(found, limit, dead, walk.floor)

    def _page(self, *asked: Any, among: Sequence[JobId] | None = None, is_light: bool = False) -> list[JobView]:
        columns = self._sql["light_job_columns" if is_light else "job_columns"]
        return [job_view(row, utc) for row in self._rows(columns, *asked, among=among)]

    def _rows(
        self,
        columns: str,
        which: JobFilter,
        way: ReadPath,
        limit: int,
        before: JobId | None,
        floor: JobId | None = None,
        *,
        among: Sequence[JobId] | None = None,
    ) -> list[dict[str, Any]]:
        if which.run is not None and not is_id(which.run):
            return []
        ids = which.ids if among is None else among
        where, order, values = self._where(which, way, bounds(which, before, floor), floor, ids)
        sql = f"{columns} {self._sql[way.begins]} WHERE {where} ORDER BY {order} LIMIT %(page)s::bigint"
        return self._perform(
            lambda session: session.connection.run_named(sql, {**values, "now": session.now, "page": limit})
        )

    def _where(
        self, which: JobFilter, way: ReadPath, lies: IdRange, floor: JobId | None, ids: Sequence[JobId] | None
    ) -> tuple[str, str, dict[str, Any]]:
        """Return the conditions, the order and the values of a filter on a read path between bounds."""
        if way.column is None or floor is None:
            found, order, values = _conditions(way, lies)
        else:
            found, order, values = _walked(way, self._sql["walk_names"], lies)
        further, looked_up = self._further(which, ids)
        values |= looked_up
        return _all_of([*found, *way.conditions, *further], values), order, values

    def _further(self, which: JobFilter, ids: Sequence[JobId] | None) -> tuple[list[str], dict[str, Any]]:
        """Return the conditions that need the contents of jobs, and their values."""
        found: list[str] = []
        values: dict[str, Any] = {}
        if ids is not None:
            found.append(AMONG)
            values["ids"] = id_document(ids)
        if which.label is not None:
            found.append(_LABELLED)
            values |= {"label": which.label, "quoted": encode_label(which.label)}
        if which.tenant is not None:
            found.append(_OF_TENANT)
            values |= {"tenant": which.tenant, "quoted_tenant": encode_label(which.tenant)}
        if which.error is not None:
            found.append(self._sql["has_error"])
            values["error"] = like(which.error)
        return found, values

    def _views(self, where: str, values: dict[str, Any], begins: str = "from_jobs") -> list[JobView]:
        sql = f"{self._sql['job_columns']} {self._sql[begins]} WHERE {where}"
        rows = self._perform(lambda session: session.connection.run_named(sql, values))
        return [job_view(row, utc) for row in rows]

    def _light_views(self, where: str, values: dict[str, Any], begins: str) -> list[JobView]:
        sql = f"{self._sql['light_job_columns']} {self._sql[begins]} WHERE {where}"
        rows = self._perform(lambda session: session.connection.run_named(sql, values))
        return [job_view(row, utc) for row in rows]

    def _floor(self, way: ReadPath, lies: IdRange) -> JobId | None:
        """Return the job to which a page may walk; None: there are fewer jobs."""
        found, order, values = _conditions(way, lies)
        where = f"WHERE {_all_of(found, values)} ORDER BY {order} LIMIT 1 OFFSET %(walk)s::bigint"
        sql = f"SELECT {way.id}::text {self._sql[way.walks]} {where}"
        rows = self._perform(lambda session: session.run_sql(sql, {**values, "walk": walk_of(way)}))
        return JobId(rows[0][0]) if rows else None

    def _waiting_in(self, queue: str) -> list[JobId] | None:
        """Return the jobs that wait in a queue, and the held jobs of all queues; None when there are too many."""
        low, high = lanes_of(queue)
        values = {"queue": queue, "low": low, "high": high, "walk": job_search.WALK + 1}
        rows = self._perform(lambda session: session.run("waiting_in", **values))
        return [JobId(job_id) for (job_id,) in rows] if len(rows) <= job_search.WALK else None

    def failed_lately(self, since: datetime, limit: int) -> list[FailedEnd]:
        return self._troubles("failed_lately", since, limit)

    def retried_lately(self, since: datetime, limit: int) -> list[FailedEnd]:
        return self._troubles("retried_lately", since, limit)

    def _troubles(self, statement: str, since: datetime, limit: int) -> list[FailedEnd]:
        rows = self._perform(lambda session: session.run(statement, since=since, limit=limit))
        return [failed_end(row, utc) for row in rows]

    def ended_among(self, ids: Sequence[JobId]) -> set[JobId]:
        rows = self._perform(lambda session: session.run("ended_among", ids=id_document(ids)))
        return {JobId(job_id) for (job_id,) in rows}

    def search_jobs(self, text: str, limit: int, before: JobId | None = None) -> SearchHits:
        """Search by task, key, error and id, and merge the results by id."""
        low, high = prefix_range(text)
        below = _END if before is None else checked_id(before)
        values = {"low": low, "high": high, "before": below, "limit": limit, "keys": job_search.KEYS + 1}

        def look(session: Session) -> tuple[list[str], list[str], list[str], JobId | None, list[str]]:
            names = _firsts(session.run("tasks_from", **values, names=job_search.NAMES + 1))
            tasks = params.document(names[: job_search.NAMES])
            newest = _firsts(session.run("newest_of_tasks", **values, tasks=tasks))
            keyed = _firsts(session.run("jobs_with_key", **values))
            floors = _firsts(session.run("failed_floor", before=below, walk=job_search.ERRORS))
            floor = JobId(floors[0]) if floors else None
            errors = {"before": below, "limit": limit, "floor": floor or _START, "like": like(text)}
            return names, newest, keyed, floor, _firsts(session.run("failed_with", **errors))

        names, newest, keyed, floor, failed = self._perform(look, single=False)
        found = [newest, keyed, failed, [text] if is_id(text) and text < below else []]
        is_partial = len(names) > job_search.NAMES or len(keyed) > job_search.KEYS
        return hits_of(found, limit, floor, is_partial=is_partial)

    def queue_names(self) -> list[str]:
        return _firsts(self._perform(lambda session: session.run("queue_names")))

    def queues(self) -> list[QueueView]:
        """Return queue counts from the lanes, the held jobs and the running jobs, in one transaction."""

        def look(session: Session) -> QueueCounts:
            found = QueueCounts()
            names = _firsts(session.run("queue_names"))
            ranges = [(name, *lanes_of(name)) for name in names]
            asked = params.document({"queue": name, "low": low, "high": high} for name, low, high in ranges)
            for row in session.run("in_lanes", queues=asked, most=COUNTED):
                found.count(*row)
            for row in session.run("held", most=COUNTED):
                found.hold(*row)
            for row in session.run("running_in"):
                found.run(*row)
            return found

        return self._perform(look, single=False).views(utc)


def _firsts(rows: Sequence[Any]) -> list[str]:
    return [row[0] for row in rows]


def _conditions(way: ReadPath, lies: IdRange) -> tuple[list[str], str, dict[str, Any]]:
    """Return the conditions that the index of a path answers between bounds, the order, and the values."""
    values = {**way.values, "below": lies.below, "floor": lies.floor}
    bottom = [f"{way.id} >= {{floor}}"] if lies.floor else []
    if way.column is None:
        top = [f"{way.id} < {{below}}"] if lies.below else []
        return [*way.by, *top, *bottom], f"{way.id} DESC", values
    order = f"j.{way.column} DESC, j.id DESC"
    return [*_named(way.column, "j"), *bottom], order, {**values, "below": lies.below or _END}


def _walked(way: ReadPath, table: str, lies: IdRange) -> tuple[list[str], str, dict[str, Any]]:
    """Return the same for jobs that a page walks by the index of a column, written so that no other index is used."""
    found, _, values = _conditions(way, lies)
    order = f"ORDER BY w.{way.column} DESC, w.id DESC LIMIT %(walk)s::bigint"
    walked = f"SELECT w.id {table} WHERE {' AND '.join(_named(way.column or '', 'w'))} {order}"
    return [f"j.id = ANY (ARRAY({walked}))", *found[-1:]], "j.id DESC", {**values, "walk": job_search.WALK + 1}


def _named(column: str, table: str) -> list[str]:
    """Return the conditions for jobs of a name below an id. Some of the indexes only contain non-null names.

    Name and id are compared as a pair: for a name in the order of ids, the planner may expect to find it sooner by
    walking all jobs than by the index.
    """
    both, name = f"({table}.{column}, {table}.id)", f"{{{column}}}"
    return [f"{both} < ({name}, {{below}})", f"{table}.{column} >= {name}", f"{table}.{column} IS NOT NULL"]


def _all_of(conditions: Sequence[str], values: dict[str, Any]) -> str:
    """Join conditions with AND and replace their placeholders by psycopg's."""
    places = {name: f"%({name})s{'::uuid' if name in _IDS else ''}" for name in values}
    places["now"] = "coalesce(%(now)s::timestamptz, clock_timestamp())"
    return (" AND ".join(conditions) or "true").format_map(places)
