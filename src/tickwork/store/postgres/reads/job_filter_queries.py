"""Build and run the statements that read jobs by a filter, along an index (see `store.reads.query_plan`).

The statements are put together from conditions, in which `{name}` is a value, and from the sections of
sql/job_search.sql and sql/read_jobs.sql.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tickwork.core.ids import JobId, is_id
from tickwork.core.job import JobFilter, JobView
from tickwork.store.postgres.connection.session import utc
from tickwork.store.postgres.params import id_document
from tickwork.store.postgres.transactions import PostgresTransactions
from tickwork.store.reads import job_search
from tickwork.store.reads.job_search import like, walk_of
from tickwork.store.reads.query_plan import IdRange, ReadPath, bounds
from tickwork.store.rows.jobs import encode_label, job_view

AMONG = "j.id = ANY (ARRAY(SELECT value::uuid FROM json_array_elements_text({ids}::json)))"
# The first condition is fast, and also true for a label that is part of another one.
_LABELLED = (
    "strpos(j.labels, {quoted}) > 0 "
    "AND EXISTS (SELECT FROM json_array_elements_text(j.labels::json) AS l (name) WHERE l.name = {label})"
)
_OF_TENANT = "strpos(j.job_limits, {quoted_tenant}) > 0 AND j.job_limits::json ->> 'tenant' = {tenant}"
_IDS = frozenset({"below", "floor", "run"})
END = "ffffffff-ffff-ffff-ffff-ffffffffffff"  # After every id.


@dataclass(eq=False)
class JobFilterQueries:
    """Reads rows of jobs by filters and read paths."""

    transactions: PostgresTransactions

    def walked(self, word: str, which: JobFilter, way: ReadPath, floor: JobId | None) -> tuple[str, dict[str, Any]]:
        """Return the SQL and the values of a SELECT of `word`, an expression, for each matching job of a bounded walk.

        The index finds the rows of the walk first. If every row of the walk is a match, no other table is read.
        """
        found, order, values = _conditions(way, bounds(which, None, floor))
        walked = f"{self.transactions.sql[way.walks]} WHERE {_all_of(found, values)} ORDER BY {order} LIMIT"
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
        return (
            f"SELECT {word} AS word {self.transactions.sql['from_jobs']} WHERE {among} LIMIT %(most)s::bigint",
            values,
        )

    def page(
        self,
        which: JobFilter,
        way: ReadPath,
        *,
        limit: int,
        before: JobId | None,
        floor: JobId | None = None,
        among: Sequence[JobId] | None = None,
        columns: str = "light_job_columns",
    ) -> list[JobView]:
        """Return the jobs of a page; the light columns leave out their arguments and results."""
        found = self.rows(columns, which, way, limit=limit, before=before, floor=floor, among=among)
        return [job_view(row, utc) for row in found]

    def rows(
        self,
        columns: str,
        which: JobFilter,
        way: ReadPath,
        *,
        limit: int,
        before: JobId | None,
        floor: JobId | None = None,
        among: Sequence[JobId] | None = None,
    ) -> list[dict[str, Any]]:
        """Return these columns of up to `limit` matching jobs of a page, along a read path, down to the id `floor`."""
        if which.run is not None and not is_id(which.run):
            return []
        sql = self.transactions.sql
        lies, ids = bounds(which, before, floor), which.ids if among is None else among
        where, order, values = self._where(which, way, lies, ids, walks=floor is not None)
        statement = f"{sql[columns]} {sql[way.begins]} WHERE {where} ORDER BY {order} LIMIT %(page)s::bigint"
        return self._run_named(statement, {**values, "page": limit})

    def _run_named(self, statement: str, values: dict[str, Any]) -> list[dict[str, Any]]:
        """Run a statement and return its rows as dicts by column name."""
        return self.transactions.perform(
            lambda session: session.connection.run_named(statement, {**values, "now": session.now})
        )

    def _where(
        self, which: JobFilter, way: ReadPath, lies: IdRange, ids: Sequence[JobId] | None, *, walks: bool
    ) -> tuple[str, str, dict[str, Any]]:
        """Return the conditions, the order and the values of a filter on a read path, within a range of ids."""
        if way.column is None or not walks:
            found, order, values = _conditions(way, lies)
        else:
            found, order, values = _walked(way, self.transactions.sql["walk_names"], lies)
        further, looked_up = self._further(which, ids)
        values |= looked_up
        return _all_of([*found, *way.conditions, *further], values), order, values

    def _further(self, which: JobFilter, ids: Sequence[JobId] | None) -> tuple[list[str], dict[str, Any]]:
        """Return the conditions of a filter that no index answers (ids, label, tenant, error), and their values."""
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
            found.append(self.transactions.sql["has_error"])
            values["error"] = like(which.error)
        return found, values

    def views(
        self, where: str, values: dict[str, Any], *, columns: str = "job_columns", begins: str = "from_jobs"
    ) -> list[JobView]:
        """Return the jobs that an SQL condition selects."""
        rows = self._run_named(
            f"{self.transactions.sql[columns]} {self.transactions.sql[begins]} WHERE {where}", values
        )
        return [job_view(row, utc) for row in rows]

    def floor(self, way: ReadPath, lies: IdRange) -> JobId | None:
        """Return the id at which the walk of a page ends; None if there are fewer jobs than a walk may read."""
        found, order, values = _conditions(way, lies)
        where = f"WHERE {_all_of(found, values)} ORDER BY {order} LIMIT 1 OFFSET %(walk)s::bigint"
        sql = f"SELECT {way.id}::text {self.transactions.sql[way.walks]} {where}"
        rows = self.transactions.perform(lambda session: session.run_sql(sql, {**values, "walk": walk_of(way)}))
        return next((JobId(job_id) for (job_id,) in rows), None)


def _conditions(way: ReadPath, lies: IdRange) -> tuple[list[str], str, dict[str, Any]]:
    """Return the conditions that the index of a path answers, the order and the values, within a range of ids."""
    values = {**way.values, "below": lies.below, "floor": lies.floor}
    bottom = [f"{way.id} >= {{floor}}"] if lies.floor else []
    if way.column is None:
        top = [f"{way.id} < {{below}}"] if lies.below else []
        return [*way.by, *top, *bottom], f"{way.id} DESC", values
    order = f"j.{way.column} DESC, j.id DESC"
    return [*_named(way.column, "j"), *bottom], order, {**values, "below": lies.below or END}


def _walked(way: ReadPath, table: str, lies: IdRange) -> tuple[list[str], str, dict[str, Any]]:
    """Return the conditions, the order and the values of a walk by the index of a column.

    They are written so that the planner uses no other index.
    """
    found, _, values = _conditions(way, lies)
    order = f"ORDER BY w.{way.column} DESC, w.id DESC LIMIT %(walk)s::bigint"
    walked = f"SELECT w.id {table} WHERE {' AND '.join(_named(way.column or '', 'w'))} {order}"
    return [f"j.id = ANY (ARRAY({walked}))", *found[-1:]], "j.id DESC", {**values, "walk": job_search.WALK + 1}


def _named(column: str, table: str) -> list[str]:
    """Return the conditions for jobs with this value of a column below an id. Some of the indexes only contain other
    than NULL.

    Value and id are compared as a pair: otherwise the planner may expect to find the jobs sooner by reading all jobs in
    the order of their ids.
    """
    both, name = f"({table}.{column}, {table}.id)", f"{{{column}}}"
    return [f"{both} < ({name}, {{below}})", f"{table}.{column} >= {name}", f"{table}.{column} IS NOT NULL"]


def _all_of(conditions: Sequence[str], values: dict[str, Any]) -> str:
    """Join conditions with AND, and replace their placeholders by those of psycopg."""
    places = {name: f"%({name})s{'::uuid' if name in _IDS else ''}" for name in values}
    places["now"] = "coalesce(%(now)s::timestamptz, clock_timestamp())"
    return (" AND ".join(conditions) or "true").format_map(places)
