"""Search and list jobs on one SQLite file (see `store.reads.job_search`). The SQL is in sql/job_search.sql."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime
from typing import Any

from tickwork.core.ids import JobId, is_id
from tickwork.core.job import COUNTED, JobFilter, JobPage, JobState, JobView, QueueView
from tickwork.core.stats.error_groups import FailedEnd, FailedJob, FailurePage
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
from tickwork.store.rows.instants import from_us, to_us
from tickwork.store.rows.jobs import checked_id, encode_label, failed_end, job_view
from tickwork.store.sqlite.transitions import SQL, Transaction, as_json

# The first condition is fast, and also true for a label that is part of another one.
_LABELLED = "instr(j.labels, {quoted}) AND EXISTS (SELECT 1 FROM json_each(j.labels) WHERE value = {label})"
_OF_TENANT = "instr(j.job_limits, {quoted_tenant}) AND json_extract(j.job_limits, '$.tenant') = {tenant}"
_ERRED = (
    "coalesce(f.error, (SELECT a.error FROM tickwork_attempts a WHERE a.job_id = q.job_id AND a.attempt = q.attempt)) "
    "LIKE {error} ESCAPE '\\'"
)
_AMONG = "j.id IN (SELECT value FROM json_each({ids}))"
LIGHT = SQL["job_columns"].replace("j.args,", "'null' AS args,").replace("f.result,", "NULL AS result,")


class SqliteJobSearch:
    """A part of SqliteStore. It needs from the rest the transactions."""

    def _read(self) -> AbstractContextManager[Transaction]:
        raise NotImplementedError

    def list_jobs(self, which: JobFilter, limit: int, before: JobId | None = None) -> list[JobView]:
        with self._read() as transaction:
            return _page(transaction, SQL["job_columns"], which, ways(which)[0], limit, before)

    def find_jobs(self, which: JobFilter, limit: int, before: JobId | None = None) -> JobPage:
        """Return a page. For the waiting jobs of a short queue, the queue is read first and its jobs looked up."""
        with self._read() as transaction:
            if which.ids is None and which.queue is not None and state_of(which) is JobState.QUEUED:
                waiting = _waiting_in(transaction, which.queue)
                if waiting is not None:
                    way = ways(which)[0]
                    return page_of(
                        _page(transaction, LIGHT, which, way, limit, before, among=waiting), limit, which, None
                    )
            walk = choose(which, lambda way: _floor(transaction, way, bounds(which, before)))
            return page_of(
                _page(transaction, LIGHT, which, walk.way, limit, before, walk.floor), limit, which, walk.floor
            )

    def count_jobs(self, which: JobFilter, most: int) -> list[StateCount]:
        with self._read() as transaction:
            return [one for state, part in by_state(which) for one in _counted(transaction, state, part, most)]

    def find_failures(self, which: JobFilter, limit: int, before: JobId | None = None) -> FailurePage:
        dead = replace(which, dead=True)
        with self._read() as transaction:
            walk = choose(dead, lambda way: _floor(transaction, way, bounds(dead, before)))
            rows = _rows(transaction, SQL["failure_columns"], dead, walk.way, limit, before, walk.floor)
        found = [
            FailedJob(row["id"], row["task"], row["error"], from_us(row["ended_at"]), row["queue"]) for row in rows
        ]
        return failures_of(found, limit, dead, walk.floor)

    def failed_lately(self, since: datetime, limit: int) -> list[FailedEnd]:
        return self._troubles("failed_lately", since, limit)

    def retried_lately(self, since: datetime, limit: int) -> list[FailedEnd]:
        return self._troubles("retried_lately", since, limit)

    def _troubles(self, statement: str, since: datetime, limit: int) -> list[FailedEnd]:
        with self._read() as transaction:
            rows = transaction.run(statement, {"since": to_us(since), "limit": limit})
        return [failed_end(row, from_us) for row in rows]

    def ended_among(self, ids: Sequence[JobId]) -> set[JobId]:
        with self._read() as transaction:
            return {JobId(job_id) for (job_id,) in transaction.run("ended_among", (as_json(list(ids)),))}

    def search_jobs(self, text: str, limit: int, before: JobId | None = None) -> SearchHits:
        low, high = prefix_range(text)
        below = _END if before is None else checked_id(before)
        values = {"low": low, "high": high, "before": below, "limit": limit, "keys": job_search.KEYS + 1}
        with self._read() as transaction:
            names = [name for (name,) in transaction.run("tasks_from", {**values, "names": job_search.NAMES + 1})]
            found = [
                _ids(transaction.run("newest_of_task", {**values, "task": name})) for name in names[: job_search.NAMES]
            ]
            keyed = _ids(transaction.run("jobs_with_key", values))
            floors = transaction.run("failed_floor", {"before": below, "walk": job_search.ERRORS})
            floor = JobId(floors[0][0]) if floors else None
            errors = {**values, "floor": floor or "", "like": like(text)}
            found += [keyed, _ids(transaction.run("failed_with", errors))]
        if is_id(text) and text < below:
            found.append([text])
        is_partial = len(names) > job_search.NAMES or len(keyed) > job_search.KEYS
        return hits_of(found, limit, floor, is_partial=is_partial)

    def queue_names(self) -> list[str]:
        with self._read() as transaction:
            return _ids(transaction.run("queue_names"))

    def queues(self) -> list[QueueView]:
        """Return queue counts from the lanes, the held jobs and the running jobs."""
        with self._read() as transaction:
            found = QueueCounts()
            most = {"now": transaction.now, "most": COUNTED}
            for (name,) in transaction.run("queue_names"):
                low, high = lanes_of(name)
                found.count(name, *transaction.run("in_lanes", {**most, "queue": name, "low": low, "high": high})[0])
            for lane, due, later, oldest in transaction.run("held", most):
                found.hold(lane, due, later, oldest)
            for lane, count in transaction.run("running_in"):
                found.run(lane, count)
        return found.views(from_us)


_END = "g"  # Sorts after every id.


def _ids(rows: Sequence[Any]) -> list[str]:
    return [row[0] for row in rows]


def _page(transaction: Transaction, columns: str, *asked: Any, among: Sequence[str] | None = None) -> list[JobView]:
    return [job_view(row, from_us) for row in _rows(transaction, columns, *asked, among=among)]


def _rows(
    transaction: Transaction,
    columns: str,
    which: JobFilter,
    way: ReadPath,
    limit: int,
    before: JobId | None,
    floor: JobId | None = None,
    *,
    among: Sequence[str] | None = None,
) -> list[dict[str, Any]]:
    """Return the rows of a page on a read path."""
    where, values = _where(transaction, which, way, bounds(which, before, floor), which.ids if among is None else among)
    sql = f"{columns} {SQL[way.begins]} WHERE {where} ORDER BY {way.id} DESC LIMIT :page"
    return transaction.connection.rows(sql, {**values, "page": limit})


def _counted(transaction: Transaction, state: JobState, which: JobFilter, most: int) -> list[StateCount]:
    """Count the jobs of a filter in one state, on a bounded walk."""
    walk = choose(which, lambda way: _floor(transaction, way, bounds(which, None)))
    where, values = _where(transaction, which, walk.way, bounds(which, None, walk.floor), which.ids)
    word = SQL["how_it_waits"] if state is JobState.QUEUED else f"'{state.value}'"
    # If every walked row counts, no other table is read.
    counts_each = walk.way.finds_all and walk.way.begins != "from_jobs"
    table = SQL[walk.way.walks if counts_each else walk.way.begins]
    one = f"SELECT {word} AS word {table} WHERE {where} ORDER BY {walk.way.id} DESC LIMIT :most"
    sql = SQL["counted_by_word"].replace("{rows}", one)
    counts = transaction.connection.run(sql, {**values, "now": transaction.now, "most": most})
    return counts_of(which, dict(counts), most, walk.floor)


def _where(
    transaction: Transaction, which: JobFilter, way: ReadPath, lies: IdRange, ids: Sequence[str] | None
) -> tuple[str, dict[str, Any]]:
    """Return the conditions and values of a filter on a read path between bounds."""
    found, values = _conditions(way, lies)
    found += way.conditions
    values["now"] = transaction.now
    if ids is not None:
        found.append(_AMONG)
        values["ids"] = as_json(list(ids))
    if which.label is not None:
        found.append(_LABELLED)
        values |= {"label": which.label, "quoted": encode_label(which.label)}
    if which.tenant is not None:
        found.append(_OF_TENANT)
        values |= {"tenant": which.tenant, "quoted_tenant": encode_label(which.tenant)}
    if which.error is not None:
        found.append(_ERRED)
        values["error"] = like(which.error)
    return _all_of(found, values), values


def _floor(transaction: Transaction, way: ReadPath, lies: IdRange) -> JobId | None:
    """Return the job to which a page may walk; None: there are fewer jobs."""
    found, values = _conditions(way, lies)
    where = f"WHERE {_all_of(found, values)} ORDER BY {way.id} DESC LIMIT 1 OFFSET :walk"
    sql = f"SELECT {way.id} {SQL[way.walks]} {where}"
    rows = transaction.connection.run(sql, {**values, "walk": walk_of(way)})
    return JobId(rows[0][0]) if rows else None


def _conditions(way: ReadPath, lies: IdRange) -> tuple[list[str], dict[str, Any]]:
    """Return the conditions that the index of a path answers between bounds."""
    found = [*way.by] if way.column is None else [f"j.{way.column} = {{{way.column}}}"]
    values = dict(way.values)
    for name, sign, value in (("below", "<", lies.below), ("floor", ">=", lies.floor)):
        if value is not None:
            found.append(f"{way.id} {sign} {{{name}}}")
            values[name] = value
    return found, values


def _all_of(conditions: Sequence[str], values: dict[str, Any]) -> str:
    return (" AND ".join(conditions) or "true").format_map({name: f":{name}" for name in values})


def _waiting_in(transaction: Transaction, queue: str) -> list[str] | None:
    """Return the jobs that wait in a queue, and the held jobs of all queues; None when there are too many."""
    low, high = lanes_of(queue)
    values = {"queue": queue, "low": low, "high": high, "walk": job_search.WALK + 1}
    ids = _ids(transaction.run("waiting_in", values))
    return ids if len(ids) <= job_search.WALK else None
