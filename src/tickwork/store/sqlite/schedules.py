"""The verbs of schedules on one SQLite file (see `store.schedules`). The SQL is in sql/schedules.sql."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from tickwork.core.recurrence.calendar import Calendar
from tickwork.core.recurrence.parse_rule import decode_calendar, encode_calendar
from tickwork.core.schedule.spec import ScheduleSpec, decode_spec, encode_spec
from tickwork.errors import check
from tickwork.store.rows.instants import from_us, from_us_or_none, to_us, to_us_or_none
from tickwork.store.rows.jobs import decode_labels, read_task_definition, storable_text
from tickwork.store.rows.schedules import calendar_in_use, due_schedule, merge_declared, schedule_state, schedule_view
from tickwork.store.runs.graph_cache import GraphCache
from tickwork.store.schedules import DueSchedule, DueSchedules, Fired, FireView, ScheduleMove, ScheduleView
from tickwork.store.sqlite import insert_jobs
from tickwork.store.sqlite.run_transitions import cancel
from tickwork.store.sqlite.transactions import SQL, SqliteTransactions, Transaction, as_json

_END_OF_TIME = 1 << 62


class SqliteSchedules:
    """Schedules, the recorded outcomes of their occurrences, and calendars."""

    def __init__(self, transactions: SqliteTransactions, graphs: GraphCache) -> None:
        self._transactions = transactions
        self._graphs = graphs

    # -- callers

    def put_schedules(self, specs: Sequence[ScheduleSpec]) -> None:
        with self._transactions.write() as transaction:
            for spec in specs:
                _put(transaction, spec, None)

    def declare_schedules(self, specs: Sequence[ScheduleSpec]) -> None:
        with self._transactions.write() as transaction:
            names = as_json([spec.name for spec in specs])
            stored = {name: known for name, *known in transaction.run("stored_specs", (names,))}
            for spec in specs:
                _put(transaction, merge_declared(spec, *stored.get(spec.name, (None, None))), encode_spec(spec))

    def get_schedules(self, names: Sequence[str]) -> dict[str, ScheduleView]:
        return {view.name: view for view in self._views("schedules_of_these", (as_json(list(names)),))}

    def list_schedules(self, limit: int, after: str = "") -> list[ScheduleView]:
        return self._views("schedules_after", {"after": after, "limit": limit})

    def waking_schedules(self, limit: int) -> list[ScheduleView]:
        return self._views("schedules_waking", {"limit": limit})

    def paused_schedules(self, limit: int) -> list[ScheduleView]:
        return self._views("schedules_paused", {"limit": limit})

    def _views(self, which: str, values: Any) -> list[ScheduleView]:
        with self._transactions.read() as transaction:
            rows = transaction.connection.rows(SQL["schedule_columns"] + SQL[which], values)
        return [schedule_view(row, from_us) for row in rows]

    def delete_schedules(self, names: Sequence[str]) -> list[str]:
        with self._transactions.write() as transaction:
            deleted = [name for name in dict.fromkeys(names) if transaction.run("delete_schedule", (name,))]
            for name in deleted:
                transaction.run("delete_fires", (name,))
                transaction.run("forget_jobs", (name,))
        return deleted

    def replace_schedule(self, spec: ScheduleSpec, old: ScheduleSpec | None) -> bool:
        with self._transactions.write() as transaction:
            stored = [known for _, known, _ in transaction.run("stored_specs", (as_json([spec.name]),))]
            if next(map(decode_spec, stored), None) != old:
                return False
            _put(transaction, spec, None)
        return True

    def pause_schedules(
        self, names: Sequence[str], by: str | None = None, why: str | None = None, until: datetime | None = None
    ) -> list[str]:
        with self._transactions.write() as transaction:
            ends = to_us_or_none(until)
            values = {"now": transaction.now, "by": by, "why": storable_text(why), "until": ends}
            return [name for name in names if transaction.run("pause_schedule", {**values, "name": name})]

    def resume_schedules(self, names: Sequence[str]) -> list[str]:
        with self._transactions.write() as transaction:
            now = transaction.now
            return [name for name in names if transaction.run("resume_schedule", {"now": now, "name": name})]

    def fires(self, name: str, limit: int, before: datetime | None = None) -> list[FireView]:
        values = {"name": name, "limit": limit, "before": _END_OF_TIME if before is None else to_us(before)}
        with self._transactions.read() as transaction:
            rows = transaction.run("fires", values)
        return [
            FireView(from_us(due), action, job_id, from_us(fired), bool(is_catchup), reason)
            for due, action, job_id, fired, is_catchup, reason in rows
        ]

    def put_calendar(self, name: str, calendar: Calendar) -> None:
        with self._transactions.write() as transaction:
            values = {"name": name, "now": transaction.now}
            known = bool(transaction.run("calendars_of", (as_json([name]),)))
            if transaction.run("put_calendar", {**values, "value": encode_calendar(calendar).decode()}):
                transaction.run("heed_calendar", {**values, "known": known})

    def delete_calendar(self, name: str) -> bool:
        with self._transactions.write() as transaction:
            schedule = transaction.value("heeds_calendar", (name,))
            if schedule is not None:
                raise calendar_in_use(name, schedule)
            return bool(transaction.run("delete_calendar", (name,)))

    def calendars(self) -> dict[str, Calendar]:
        with self._transactions.read() as transaction:
            return {name: decode_calendar(value.encode()) for name, value in transaction.run("calendars")}

    # -- services

    def look_at_schedules(self, limit: int) -> DueSchedules:
        """Return the due schedules with their runs, calendars and task definitions, read in one transaction."""
        with self._transactions.read() as transaction:
            now = transaction.now
            names = transaction.column("to_look_at", {"now": now, "limit": limit})
            wake_at = transaction.value("next_wake", (now,))
            wake_s = None if wake_at is None else (wake_at - now) / 1e6
            if not names:
                return DueSchedules(from_us(now), [], wake_s)
            rows = [_ScheduleRow(*row) for row in transaction.run("look_at", (as_json(names),))]
            runs: dict[str, list[Any]] = {}
            for name, *run in transaction.run("runs_of", (as_json(names),)):
                runs.setdefault(name, []).append(run)
            heeded = as_json(sorted({one for row in rows for one in decode_labels(row.calendars)}))
            calendars = dict(transaction.run("calendars_of", (heeded,)))
            targets = as_json(sorted({row.target for row in rows}))
            definitions = [read_task_definition(row) for row in transaction.run("definitions_of", (targets,))]
        return DueSchedules(
            from_us(now),
            [_due_schedule(row, runs.get(row.name, ())) for row in rows],
            wake_s,
            calendars,
            {definition.name: definition for definition in definitions},
        )

    def end_pauses(self) -> list[str]:
        with self._transactions.write() as transaction:
            now = transaction.now
            names = transaction.column("overdue_pauses", {"now": now})
            return [name for name in names if transaction.run("resume_schedule", {"now": now, "name": name})]

    def move_schedules(self, moves: Sequence[ScheduleMove]) -> set[str]:
        with self._transactions.write() as transaction:
            moved = [move for move in moves if transaction.run("move_schedule", _moved_values(move))]
            _carry_out(transaction, self._graphs, moved)
        if any(move.jobs or move.cancels for move in moved):
            self._transactions.wake()
        return {move.name for move in moved}


def _put(transaction: Transaction, spec: ScheduleSpec, declared: str | None) -> None:
    start = spec.policies.start
    values = {
        "name": spec.name,
        "kind": spec.kind,
        "target": spec.target,
        "spec": encode_spec(spec),
        "timing": spec.timing.decode(),
        "calendars": as_json(spec.calendar_names),
        "declared": declared,
        "start": to_us_or_none(start),
        "paused": int(spec.paused),
        "now": transaction.now,
    }
    transaction.run("put_schedule", values)


class _ScheduleRow(NamedTuple):
    """A row of the statement `look_at`."""

    name: str
    version: int
    spec: str
    target: str
    calendars: str
    handled_at: int
    active_since: int
    run_count: int
    last_ended_at: int | None
    waiting: str
    paused: int
    paused_until: int | None


def _due_schedule(row: _ScheduleRow, runs: Sequence[Any]) -> DueSchedule:
    """Build a due schedule from its row and its runs."""
    state = schedule_state(
        from_us(row.handled_at),
        from_us(row.active_since),
        row.run_count,
        from_us_or_none(row.last_ended_at),
        row.waiting,
        paused=bool(row.paused),
    )
    ends = [(job_id, bool(ended), from_us_or_none(at), bool(failed)) for job_id, ended, at, failed in runs]
    return due_schedule(row.name, row.version, row.spec, state, ends, from_us_or_none(row.paused_until))


def _moved_values(move: ScheduleMove) -> dict[str, Any]:
    standing = move.standing
    return {
        "name": move.name,
        "version": move.version,
        "handled_at": to_us(standing.handled_at),
        "run_count": standing.run_count,
        "last_ended_at": to_us_or_none(standing.last_ended_at),
        "waiting": as_json(standing.waiting),
        "wake_at": to_us_or_none(move.wake_at),
    }


def _carry_out(transaction: Transaction, graphs: GraphCache, moved: Sequence[ScheduleMove]) -> None:
    """Write the fires, jobs and cancellations of the decisions whose schedules were moved."""
    for move in moved:
        for fire in move.fires:
            recorded = transaction.run("record_fire", _fire(move.name, fire, transaction.now))
            check(bool(recorded), f"Schedule {move.name!r} was about to judge {fire.due_at.isoformat()} a second time.")
        transaction.run("await_jobs", {"name": move.name, "awaited": int(move.awaits_end)})
    transaction.run_many("forget_job", [(move.name, job_id) for move in moved for job_id in move.ended])
    remembered = [(move.name, job.id, int(move.awaits_end)) for move in moved for job in move.jobs]
    transaction.run_many("remember_job", remembered)
    insert_jobs.insert(transaction, [job for move in moved for job in move.jobs], known=False)
    cancel(transaction, graphs, [job_id for move in moved for job_id in move.cancels])


def _fire(schedule: str, fire: Fired, now: int) -> tuple[Any, ...]:
    return (schedule, to_us(fire.due_at), fire.action, fire.job_id, now, int(fire.is_catchup), fire.reason)
