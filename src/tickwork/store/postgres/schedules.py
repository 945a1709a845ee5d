"""The verbs of schedules on PostgreSQL (see `store.schedules`). The SQL is in sql/schedules.sql."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from tickwork.core.ids import JobId
from tickwork.core.recurrence.calendar import Calendar
from tickwork.core.recurrence.read_rule import decode_calendar, encode_calendar
from tickwork.core.schedule.spec import ScheduleSpec, decode_spec, encode_spec
from tickwork.errors import check
from tickwork.store.postgres import params
from tickwork.store.postgres.connection.session import Session
from tickwork.store.postgres.connection.verb_pool import VerbPool
from tickwork.store.postgres.connection.wake_notify import WakeNotifier
from tickwork.store.postgres.rows import instant, utc
from tickwork.store.postgres.runs import PostgresRuns
from tickwork.store.rows.jobs import decode_labels, read_task_definition, storable_text
from tickwork.store.rows.schedules import calendar_in_use, due_schedule, merge_declared, schedule_state, schedule_view
from tickwork.store.runs.graph_cache import GraphCache
from tickwork.store.schedules import DueSchedule, DueSchedules, Fired, FireView, ScheduleMove, ScheduleView

T = TypeVar("T")


class PostgresSchedules:
    """A part of PostgresStore. It needs from the rest the transactions, and a way to wake workers."""

    _sql: dict[str, str]
    _notifier: WakeNotifier
    _graphs: GraphCache

    def _open_freed(self, names: Sequence[str]) -> bool:
        raise NotImplementedError

    def _perform(self, work: Callable[[Session], T], *, pool: VerbPool | None = None, single: bool = True) -> T:
        raise NotImplementedError

    # -- callers

    def put_schedules(self, specs: Sequence[ScheduleSpec]) -> None:
        given = params.document(_spec(spec, None) for spec in _once(specs))
        self._perform(lambda session: session.run("put_schedules", schedules=given))

    def declare_schedules(self, specs: Sequence[ScheduleSpec]) -> None:
        """Lock the stored schedules, merge each with its declaration, and store the result."""
        declared = _once(specs)
        names = params.document(spec.name for spec in declared)

        def declare(session: Session) -> None:
            stored = {name: known for name, *known in session.run("stored_specs", names=names)}
            merged = [(merge_declared(spec, *stored.get(spec.name, (None, None))), spec) for spec in declared]
            given = params.document(_spec(spec, encode_spec(said)) for spec, said in merged)
            session.run("put_schedules", schedules=given)

        self._perform(declare, single=False)

    def get_schedules(self, names: Sequence[str]) -> dict[str, ScheduleView]:
        return {view.name: view for view in self._schedule_views("schedules_of_these", names=params.document(names))}

    def list_schedules(self, limit: int, after: str = "") -> list[ScheduleView]:
        return self._schedule_views("schedules_after", after=after, limit=str(limit))

    def waking_schedules(self, limit: int) -> list[ScheduleView]:
        return self._schedule_views("schedules_waking", limit=str(limit))

    def paused_schedules(self, limit: int) -> list[ScheduleView]:
        return self._schedule_views("schedules_paused", limit=str(limit))

    def _schedule_views(self, which: str, **values: str) -> list[ScheduleView]:
        sql = f"{self._sql['schedule_columns']} {self._sql[which]}"
        rows = self._perform(lambda session: session.connection.run_named(sql, values))
        return [schedule_view(row, utc) for row in rows]

    def delete_schedules(self, names: Sequence[str]) -> list[str]:
        given = params.document(names)

        def delete(session: Session) -> set[str]:
            # Waits for concurrent moves, so that the next statement sees all of them.
            session.run("stored_specs", names=given)
            return {name for (name,) in session.run("delete_schedules", names=given)}

        deleted = self._perform(delete, single=False)
        return [name for name in dict.fromkeys(names) if name in deleted]

    def replace_schedule(self, spec: ScheduleSpec, old: ScheduleSpec | None) -> bool:
        """Store a schedule under its lock, if its stored spec is still `old`."""
        given, names = params.document([_spec(spec, None)]), params.document([spec.name])

        def replace(session: Session) -> bool:
            stored = session.run("stored_specs", names=names)
            if not stored:
                return old is None and bool(session.run("new_schedules", schedules=given))
            if decode_spec(stored[0][1]) != old:
                return False
            session.run("put_schedules", schedules=given)
            return True

        return self._perform(replace, single=False)

    def pause_schedules(
        self, names: Sequence[str], by: str | None = None, why: str | None = None, until: datetime | None = None
    ) -> list[str]:
        return self._changed("pause_schedules", names, by=by, why=storable_text(why), until=until)

    def resume_schedules(self, names: Sequence[str]) -> list[str]:
        return self._changed("resume_schedules", names)

    def _changed(self, statement: str, names: Sequence[str], **values: Any) -> list[str]:
        """Change schedules; return those that were changed, in the given order."""
        given = params.document(names)
        changed = {name for (name,) in self._perform(lambda session: session.run(statement, names=given, **values))}
        return [name for name in dict.fromkeys(names) if name in changed]

    def fires(self, name: str, limit: int, before: datetime | None = None) -> list[FireView]:
        values = {"name": name, "limit": limit, "before": before}
        rows = self._perform(lambda session: session.run("fires", **values))
        return [
            FireView(utc(due), action, None if job_id is None else JobId(job_id), utc(fired), is_catchup, reason)
            for due, action, job_id, fired, is_catchup, reason in rows
        ]

    def put_calendar(self, name: str, calendar: Calendar) -> None:
        value = encode_calendar(calendar).decode()
        self._perform(lambda session: session.run("put_calendar", name=name, value=value))

    def delete_calendar(self, name: str) -> bool:
        def delete(session: Session) -> bool:
            heeding = session.run("heeds_calendar", name=name)
            if heeding:
                raise calendar_in_use(name, heeding[0][0])
            return bool(session.run("delete_calendar", name=name))

        return self._perform(delete, single=False)

    def calendars(self) -> dict[str, Calendar]:
        rows = self._perform(lambda session: session.run("calendars"))
        return {name: decode_calendar(value.encode()) for name, value in rows}

    # -- services

    def look_at_schedules(self, limit: int) -> DueSchedules:
        def look(session: Session) -> DueSchedules:
            rows = session.run("look_at_schedules", limit=limit)
            now, wake_s = utc(rows[0][0]), rows[0][1]
            due = [row[2:] for row in rows if row[2] is not None]
            if not due:
                return DueSchedules(now, [], wake_s)
            heeded = sorted({name for row in due for name in decode_labels(row[4])})
            calendars = session.run("calendars_of", names=params.document(heeded)) if heeded else []
            targets = params.document(sorted({row[3] for row in due}))
            definitions = {row[0]: read_task_definition(row) for row in session.run("definitions_of", names=targets)}
            return DueSchedules(now, [_seen(row) for row in due], wake_s, dict(calendars), definitions)

        return self._perform(look)

    def end_pauses(self) -> list[str]:
        return [name for (name,) in self._perform(lambda session: session.run("end_pauses"))]

    def move_schedules(self, moves: Sequence[ScheduleMove]) -> set[str]:
        """Move schedules, record fires and insert jobs in one statement; cancel older runs in the same transaction."""
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
            names = {name for name, _ in rows}
            moved = [move for move in moves if move.name in names]
            recorded = rows[0][1] if rows else 0
            judged = sum(len(move.fires) for move in moved)
            check(recorded == judged, f"{judged - recorded} occurrences were about to be judged a second time.")
            run_tx = PostgresRuns(session.run_together, self._sql, self._graphs, session.now)
            run_tx.cancel([job_id for move in moved for job_id in move.cancels])
            run_tx.together()
            freed[:] = run_tx.freed
            return moved

        freed: list[str] = []
        moved = self._perform(carry_out, single=False)
        if freed:
            self._open_freed(freed)
        if any(move.jobs or move.cancels for move in moved):
            self._notifier.call()
        return {move.name for move in moved}


def _once(specs: Sequence[ScheduleSpec]) -> list[ScheduleSpec]:
    """Return the last spec of each name, because one statement changes a row only once."""
    return list({spec.name: spec for spec in specs}.values())


def _spec(spec: ScheduleSpec, declared: str | None) -> dict[str, Any]:
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


def _seen(row: Any) -> DueSchedule:
    name, version, spec, _, _, handled_at, since, run_count, last_ended_at, waiting, paused, until, *runs_of = row
    job_ids, ended, ends, failed, started = runs_of
    stood = schedule_state(utc(handled_at), utc(since), run_count, instant(last_ended_at), waiting, paused=paused)
    if started:
        stood = msgspec.structs.replace(stood, started=tuple(map(utc, started)))
    runs = zip(job_ids or (), ended or (), map(instant, ends or ()), failed or (), strict=True)
    return due_schedule(name, version, spec, stood, list(runs), instant(until))


def _standing(move: ScheduleMove) -> dict[str, Any]:
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
    return {
        "schedule": schedule,
        "due_at": fire.due_at,
        "action": fire.action,
        "job_id": fire.job_id,
        "is_catchup": fire.is_catchup,
        "reason": fire.reason,
    }
