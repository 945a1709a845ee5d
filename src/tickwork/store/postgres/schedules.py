"""The verbs of schedules on PostgreSQL (see `store.schedules`). The SQL is in sql/schedules.sql."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from tickwork.core.ids import JobId
from tickwork.core.recurrence.calendar import Calendar
from tickwork.core.recurrence.parse_rule import decode_calendar, encode_calendar
from tickwork.core.schedule.spec import ScheduleSpec, decode_spec, encode_spec
from tickwork.errors import check
from tickwork.store.postgres import params
from tickwork.store.postgres.connection.session import Session, utc, utc_or_none
from tickwork.store.postgres.limit_openings import LimitOpenings
from tickwork.store.postgres.run_transitions import PostgresRunTx
from tickwork.store.postgres.transactions import PostgresTransactions
from tickwork.store.rows.jobs import decode_labels, read_task_definition, storable_text
from tickwork.store.rows.schedules import calendar_in_use, due_schedule, merge_declared, schedule_state, schedule_view
from tickwork.store.runs.graph_cache import GraphCache
from tickwork.store.schedules import DueSchedule, DueSchedules, Fired, FireView, ScheduleMove, ScheduleView


@dataclass(eq=False)
class PostgresSchedules:
    """Schedules, the recorded outcomes of their occurrences, and calendars."""

    transactions: PostgresTransactions
    openings: LimitOpenings
    graphs: GraphCache

    # -- callers

    def put_schedules(self, specs: Sequence[ScheduleSpec]) -> None:
        given = params.document(_spec(spec, None) for spec in _once(specs))
        self.transactions.run("put_schedules", schedules=given)

    def declare_schedules(self, specs: Sequence[ScheduleSpec]) -> None:
        """Lock the stored schedules, merge each with its declaration, and store the result."""
        declared = _once(specs)
        names = params.document(spec.name for spec in declared)

        def declare(session: Session) -> None:
            stored = {name: known for name, *known in session.run("stored_specs", names=names)}
            merged = [(merge_declared(spec, *stored.get(spec.name, (None, None))), spec) for spec in declared]
            given = params.document(_spec(spec, encode_spec(said)) for spec, said in merged)
            session.run("put_schedules", schedules=given)

        self.transactions.perform(declare, single=False)

    def get_schedules(self, names: Sequence[str]) -> dict[str, ScheduleView]:
        return {
            view.name: view
            for view in schedule_views(self.transactions, "schedules_of_these", names=params.document(names))
        }

    def list_schedules(self, limit: int, after: str = "") -> list[ScheduleView]:
        return schedule_views(self.transactions, "schedules_after", after=after, limit=str(limit))

    def waking_schedules(self, limit: int) -> list[ScheduleView]:
        return schedule_views(self.transactions, "schedules_waking", limit=str(limit))

    def paused_schedules(self, limit: int) -> list[ScheduleView]:
        return schedule_views(self.transactions, "schedules_paused", limit=str(limit))

    def delete_schedules(self, names: Sequence[str]) -> list[str]:
        given = params.document(names)

        def delete(session: Session) -> set[str]:
            # Waits for concurrent moves, so that the next statement sees all of them.
            session.run("stored_specs", names=given)
            return {name for (name,) in session.run("delete_schedules", names=given)}

        deleted = self.transactions.perform(delete, single=False)
        return [name for name in dict.fromkeys(names) if name in deleted]

    def replace_schedule(self, spec: ScheduleSpec, old: ScheduleSpec | None) -> bool:
        """Store a schedule under its lock if the stored spec still equals `old`; return whether it was stored."""
        given, names = params.document([_spec(spec, None)]), params.document([spec.name])

        def replace(session: Session) -> bool:
            stored = session.find("stored_specs", names=names)
            if stored is None:
                return old is None and bool(session.run("new_schedules", schedules=given))
            _, text, _ = stored
            if decode_spec(text) != old:
                return False
            session.run("put_schedules", schedules=given)
            return True

        return self.transactions.perform(replace, single=False)

    def pause_schedules(
        self, names: Sequence[str], by: str | None = None, why: str | None = None, until: datetime | None = None
    ) -> list[str]:
        return self._changed("pause_schedules", names, by=by, why=storable_text(why), until=until)

    def resume_schedules(self, names: Sequence[str]) -> list[str]:
        return self._changed("resume_schedules", names)

    def _changed(self, statement: str, names: Sequence[str], **values: Any) -> list[str]:
        """Run a statement that changes schedules; return the names of those that it changed, in the given order."""
        given = params.document(names)
        changed = {name for (name,) in self.transactions.run(statement, names=given, **values)}
        return [name for name in dict.fromkeys(names) if name in changed]

    def fires(self, name: str, limit: int, before: datetime | None = None) -> list[FireView]:
        values = {"name": name, "limit": limit, "before": before}
        rows = self.transactions.run("fires", **values)
        return [
            FireView(utc(due), action, None if job_id is None else JobId(job_id), utc(fired), is_catchup, reason)
            for due, action, job_id, fired, is_catchup, reason in rows
        ]

    def put_calendar(self, name: str, calendar: Calendar) -> None:
        value = encode_calendar(calendar).decode()
        self.transactions.run("put_calendar", name=name, value=value)

    def delete_calendar(self, name: str) -> bool:
        def delete(session: Session) -> bool:
            for (schedule,) in session.run("heeds_calendar", name=name):
                raise calendar_in_use(name, schedule)
            return bool(session.run("delete_calendar", name=name))

        return self.transactions.perform(delete, single=False)

    def calendars(self) -> dict[str, Calendar]:
        rows = self.transactions.run("calendars")
        return {name: decode_calendar(value.encode()) for name, value in rows}

    # -- services

    def look_at_schedules(self, limit: int) -> DueSchedules:
        """Return the due schedules, with the calendars and task definitions that a decision needs."""

        def look(session: Session) -> DueSchedules:
            rows = session.run("look_at_schedules", limit=limit)
            now, wake_s = next((utc(now), wake_s) for now, wake_s, *_ in rows)
            due = [DueRow(name, *rest) for _, _, name, *rest in rows if name is not None]
            if not due:
                return DueSchedules(now, [], wake_s)
            heeded = sorted({name for row in due for name in decode_labels(row.calendars)})
            calendars = session.run("calendars_of", names=params.document(heeded)) if heeded else []
            targets = params.document(sorted({row.target for row in due}))
            found = map(read_task_definition, session.run("definitions_of", names=targets))
            definitions = {definition.name: definition for definition in found}
            return DueSchedules(now, [_due_schedule(row) for row in due], wake_s, dict(calendars), definitions)

        return self.transactions.perform(look)

    def end_pauses(self) -> list[str]:
        return [name for (name,) in self.transactions.run("end_pauses")]

    def move_schedules(self, moves: Sequence[ScheduleMove]) -> set[str]:
        """Store decisions about schedules; return the names of the schedules that were moved.

        One statement moves them, records fires and inserts jobs; older runs are cancelled in the same transaction.
        """
        values = {
            "moves": params.document(_standing(move) for move in moves),
            "ended": params.document(
                {"schedule": move.name, "job_id": job_id} for move in moves for job_id in move.ended
            ),
            "fires": params.document(_fire(move.name, fire) for move in moves for fire in move.fires),
            "jobs": params.document(
                {"schedule": move.name, "awaited": move.awaits_end, **params.replacement(job)}
                for move in moves
                for job in move.jobs
            ),
        }

        def carry_out(session: Session) -> list[ScheduleMove]:
            rows = session.run("move_schedules", **values)
            recorded_of = dict(rows)  # The count of all recorded fires, for each moved schedule.
            moved = [move for move in moves if move.name in recorded_of]
            recorded = max(recorded_of.values(), default=0)
            judged = sum(len(move.fires) for move in moved)
            check(recorded == judged, f"{judged - recorded} occurrences were about to be judged a second time.")
            run_tx = PostgresRunTx(session.run_together, self.transactions.sql, self.graphs, session.now)
            run_tx.cancel([job_id for move in moved for job_id in move.cancels])
            run_tx.together()
            freed[:] = run_tx.freed
            return moved

        freed: list[str] = []
        moved = self.transactions.perform(carry_out, single=False)
        if freed:
            self.openings.open_freed(freed)
        if any(move.jobs or move.cancels for move in moved):
            self.transactions.notifier.call()
        return {move.name for move in moved}


def _once(specs: Sequence[ScheduleSpec]) -> list[ScheduleSpec]:
    """Return of each name the last spec, because one statement changes a row only once."""
    return list({spec.name: spec for spec in specs}.values())


def _spec(spec: ScheduleSpec, declared: str | None) -> dict[str, Any]:
    """Return a schedule as a row for JSON. `declared` is the spec that code declares, if it does."""
    return {
        "name": spec.name,
        "kind": spec.kind,
        "target": spec.target,
        "spec": encode_spec(spec),
        "timing": spec.timing.decode(),
        "calendars": params.document(spec.calendar_names),
        "declared": declared,
        "start": spec.policies.start,
        "paused": spec.paused,
    }


def schedule_views(transactions: PostgresTransactions, which: str, **values: str) -> list[ScheduleView]:
    """Return the schedules that the SQL condition `which` selects."""
    sql = f"{transactions.sql['schedule_columns']} {transactions.sql[which]}"
    rows = transactions.perform(lambda session: session.connection.run_named(sql, values))
    return [schedule_view(row, utc) for row in rows]


class DueRow(NamedTuple):
    """The row of a due schedule in the statement `look_at_schedules`.

    The lists have one item for each run of the schedule.
    """

    name: str
    version: int
    spec: str
    target: str
    calendars: str
    handled_at: datetime
    active_since: datetime
    run_count: int
    last_ended_at: datetime | None
    waiting: str
    is_paused: bool
    paused_until: datetime | None
    job_ids: list[str] | None
    ended: list[bool] | None
    ends: list[datetime | None] | None
    failed: list[bool] | None
    started: list[datetime] | None


def _due_schedule(row: DueRow) -> DueSchedule:
    """Build a due schedule with its runs from its row."""
    standing = schedule_state(
        utc(row.handled_at),
        utc(row.active_since),
        row.run_count,
        utc_or_none(row.last_ended_at),
        row.waiting,
        paused=row.is_paused,
    )
    if row.started:
        standing = msgspec.structs.replace(standing, started=tuple(map(utc, row.started)))
    ends = map(utc_or_none, row.ends or ())
    runs = list(zip(row.job_ids or (), row.ended or (), ends, row.failed or (), strict=True))
    return due_schedule(row.name, row.version, row.spec, standing, runs, utc_or_none(row.paused_until))


def _standing(move: ScheduleMove) -> dict[str, Any]:
    """Return the new state of a schedule as a row for JSON."""
    standing = move.standing
    return {
        "name": move.name,
        "version": move.version,
        "handled_at": standing.handled_at,
        "run_count": standing.run_count,
        "last_ended_at": standing.last_ended_at,
        "waiting": params.document(msgspec.to_builtins(one) for one in standing.waiting),
        "wake_at": move.wake_at,
        "awaited": move.awaits_end,
    }


def _fire(schedule: str, fire: Fired) -> dict[str, Any]:
    """Return the outcome of an occurrence as a row for JSON."""
    return {
        "schedule": schedule,
        "due_at": fire.due_at,
        "action": fire.action,
        "job_id": fire.job_id,
        "is_catchup": fire.is_catchup,
        "reason": fire.reason,
    }
