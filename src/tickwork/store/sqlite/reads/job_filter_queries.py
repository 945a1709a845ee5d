"""Build and run the statements that read jobs by a filter, along an index (see `store.reads.query_plan`).

The statements are put together from conditions, in which `{name}` is a value, and from the sections of
sql/job_search.sql and sql/read_jobs.sql.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tickwork.core.ids import JobId
from tickwork.core.job import JobFilter, JobState, JobView
from tickwork.store.reads import job_search
from tickwork.store.reads.job_search import (
    StateCount,
    choose,
    counts_of,
    like,
    walk_of,
)
from tickwork.store.reads.query_plan import IdRange, ReadPath, bounds
from tickwork.store.reads.queue_counts import lanes_of
from tickwork.store.rows.instants import from_us
from tickwork.store.rows.jobs import encode_label, job_view
from tickwork.store.sqlite.transactions import SQL, Transaction, as_json

# The first condition is fast, and also true for a label that is part of another one.
_LABELLED = "instr(j.labels, {quoted}) AND EXISTS (SELECT 1 FROM json_each(j.labels) WHERE value = {label})"
_OF_TENANT = "instr(j.job_limits, {quoted_tenant}) AND json_extract(j.job_limits, '$.tenant') = {tenant}"
_ERRED = (
    "coalesce(f.error, (SELECT a.error FROM tickwork_attempts a WHERE a.job_id = q.job_id AND a.attempt = q.attempt)) "
    "LIKE {error} ESCAPE '\\'"
)
_AMONG = "j.id IN (SELECT value FROM json_each({ids}))"
LIGHT = SQL["job_columns"].replace("j.args,", "'null' AS args,").replace("f.result,", "NULL AS result,")


def page(transaction: Transaction, columns: str, which: JobFilter, way: ReadPath, **part: Any) -> list[JobView]:
    """Return the jobs of a page along a read path."""
    return [job_view(row, from_us) for row in rows_of(transaction, columns, which, way, **part)]


def rows_of(
    transaction: Transaction,
    columns: str,
    which: JobFilter,
    way: ReadPath,
    *,
    limit: int,
    before: JobId | None,
    floor: JobId | None = None,
    among: Sequence[str] | None = None,
) -> list[dict[str, Any]]:
    """Return these columns of up to `limit` matching jobs of a page, along a read path, down to the id `floor`."""
    where, values = _where(transaction, which, way, bounds(which, before, floor), which.ids if among is None else among)
    sql = f"{columns} {SQL[way.begins]} WHERE {where} ORDER BY {way.id} DESC LIMIT :page"
    return transaction.connection.rows(sql, {**values, "page": limit})


def counted(transaction: Transaction, state: JobState, which: JobFilter, most: int) -> list[StateCount]:
    """Count the matching jobs in one state, on a bounded walk."""
    walk = choose(which, lambda way: floor(transaction, way, bounds(which, None)))
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
    """Return the conditions and the values of a filter on a read path, within a range of ids."""
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


def floor(transaction: Transaction, way: ReadPath, lies: IdRange) -> JobId | None:
    """Return the id at which the walk of a page ends; None if there are fewer jobs than a walk may read."""
    found, values = _conditions(way, lies)
    where = f"WHERE {_all_of(found, values)} ORDER BY {way.id} DESC LIMIT 1 OFFSET :walk"
    sql = f"SELECT {way.id} {SQL[way.walks]} {where}"
    rows = transaction.connection.run(sql, {**values, "walk": walk_of(way)})
    return next((JobId(job_id) for (job_id,) in rows), None)


def _conditions(way: ReadPath, lies: IdRange) -> tuple[list[str], dict[str, Any]]:
    """Return the conditions that the index of a path answers, and the values, within a range of ids."""
    found = [*way.by] if way.column is None else [f"j.{way.column} = {{{way.column}}}"]
    values = dict(way.values)
    for name, sign, value in (("below", "<", lies.below), ("floor", ">=", lies.floor)):
        if value is not None:
            found.append(f"{way.id} {sign} {{{name}}}")
            values[name] = value
    return found, values


def _all_of(conditions: Sequence[str], values: dict[str, Any]) -> str:
    return (" AND ".join(conditions) or "true").format_map({name: f":{name}" for name in values})


def waiting_in(transaction: Transaction, queue: str) -> list[str] | None:
    """Return the ids of the jobs that wait in a queue, and of the held jobs of all queues.

    None if there are too many.
    """
    low, high = lanes_of(queue)
    values = {"queue": queue, "low": low, "high": high, "walk": job_search.WALK + 1}
    ids = transaction.column("waiting_in", values)
    return ids if len(ids) <= job_search.WALK else None
