"""A copy of the store's tables, maintained independently of the store by SQLite's pre-update hook.

SQLite reports the old and the new version of every changed row, whichever statement changed it. The copy is kept in
memory, and shows which jobs each store call moved, from which table to which. At the end of a run the copy is compared
with the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import apsw

from sim.trace import hold


class JobRow(NamedTuple):
    id: str
    task: str
    queue: str
    priority: int
    args: str
    policy: str
    key: str | None
    created_at: int
    due_at: int
    expires_at: int | None


class QueueRow(NamedTuple):
    queue: str
    priority: int
    run_at: int
    job_id: str
    task: str
    attempt: int
    failures: int
    crashes: int
    alone: int
    keyed: int
    expires_at: int | None
    losses: int


class RunningRow(NamedTuple):
    job_id: str
    attempt: int
    worker: str
    queue: str
    priority: int
    task: str
    run_at: int
    claimed_at: int
    failures: int
    crashes: int
    alone: int
    keyed: int
    expires_at: int | None
    cancel_at: int | None
    progress: float | None
    claim: int
    losses: int
    begun: int


class FinishedRow(NamedTuple):
    job_id: str
    state: str
    ended_at: int
    attempt: int
    attempt_state: str | None
    worker: str | None
    started_at: int | None
    failures: int
    crashes: int
    result: str | None
    error: str | None
    discarded_at: int | None
    losses: int


class AttemptRow(NamedTuple):
    job_id: str
    attempt: int
    state: str
    worker: str | None
    started_at: int
    ended_at: int
    error: str | None


class KeyRow(NamedTuple):
    key: str
    job_id: str
    until: int | None


class LogRow(NamedTuple):
    job_id: str
    attempt: int
    seq: int
    text: str


class SavedRow(NamedTuple):
    job_id: str
    state: str


class WorkerRow(NamedTuple):
    id: str
    state: str
    lease_until: int


class ClockRow(NamedTuple):
    one: int
    wall: int
    steady: int
    boot: str


class FireRow(NamedTuple):
    schedule: str
    due_at: int
    action: str
    job_id: str | None
    fired_at: int


class LedgerRow(NamedTuple):
    """A row that transactional handlers write, in a user table of the same file."""

    job_id: str
    attempt: int


Row = Any  # one of the above
Standing = QueueRow | RunningRow | FinishedRow
LEDGER = "CREATE TABLE sim_ledger (job_id TEXT NOT NULL, attempt INTEGER NOT NULL) STRICT"


class Change(NamedTuple):
    """A changed row: inserted (new only), deleted (old only), or updated (both)."""

    table: str
    old: Row | None
    new: Row | None

    @property
    def row(self) -> Row:
        return self.old if self.new is None else self.new

    def brief(self) -> str:
        """Return a short text for messages."""
        sign = "~" if self.old and self.new else "+" if self.new else "-"
        told = " ".join(f"{name}={value}" for name, value in self.row._asdict().items() if name in _TOLD and value)
        return f"{sign}{self.table.partition('_')[2]}({told})"


class Move(NamedTuple):
    """The row of a job's state before and after a call. None: the job did not exist, or does not exist any more."""

    job_id: str
    before: Standing | None
    after: Standing | None


_KINDS: dict[str, tuple[type[Any], Callable[[Any], Any]]] = {
    "tickwork_jobs": (JobRow, attrgetter("id")),
    "tickwork_queue": (QueueRow, attrgetter("job_id")),
    "tickwork_running": (RunningRow, attrgetter("job_id")),
    "tickwork_finished": (FinishedRow, attrgetter("job_id")),
    "tickwork_attempts": (AttemptRow, attrgetter("job_id", "attempt")),
    "tickwork_keys": (KeyRow, attrgetter("key")),
    "tickwork_logs": (LogRow, attrgetter("job_id", "attempt", "seq")),
    "tickwork_saved": (SavedRow, attrgetter("job_id")),
    "tickwork_workers": (WorkerRow, attrgetter("id")),
    "tickwork_clock": (ClockRow, attrgetter("one")),
    "tickwork_fires": (FireRow, attrgetter("schedule", "due_at")),
    "sim_ledger": (LedgerRow, attrgetter("job_id", "attempt")),
}
_TOLD = frozenset(
    ["job_id", "attempt", "worker", "state", "key", "priority", "cancel_at", "lease_until", "until", "seq"]
)
_PLACES = frozenset(["tickwork_queue", "tickwork_running", "tickwork_finished"])


class Tap:
    """Records every changed row of a connection until `take` is called."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._readers = {table: _reader(connection, table, kind) for table, (kind, _) in _KINDS.items()}
        self._heard: list[Change] = []
        connection.preupdate_hook(self._hear)

    def _hear(self, update: Any) -> None:
        read = self._readers.get(update.table_name)
        if read is not None:
            old = None if update.old is None else read(update.old)
            new = None if update.new is None else read(update.new)
            self._heard.append(Change(update.table_name, old, new))

    def take(self) -> list[Change]:
        """Return the changes since the last call, in order."""
        heard, self._heard = self._heard, []
        return heard


def _reader(connection: apsw.Connection, table: str, kind: Any) -> Callable[[tuple[Any, ...]], Any]:
    """Return a function that converts a row of SQLite to our row type, ignoring other columns of the table."""
    names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    pick = itemgetter(*(names.index(field) for field in kind._fields))
    return lambda row: kind._make(pick(row))


class Mirror:
    """The copy of the store's tables."""

    def __init__(self) -> None:
        self.jobs: dict[str, JobRow] = {}
        self.queue: dict[str, QueueRow] = {}
        self.running: dict[str, RunningRow] = {}
        self.finished: dict[str, FinishedRow] = {}
        self.attempts: dict[tuple[str, int], AttemptRow] = {}
        self.keys: dict[str, KeyRow] = {}
        self.logs: dict[tuple[str, int, int], LogRow] = {}
        self.saved: dict[str, SavedRow] = {}
        self.workers: dict[str, WorkerRow] = {}
        self.clock: dict[int, ClockRow] = {}
        self.fires: dict[tuple[str, int], FireRow] = {}
        self.ledger: dict[tuple[str, int], LedgerRow] = {}
        tables = vars(self)
        self.tables: dict[str, dict[Any, Any]] = {name: tables[name.partition("_")[2]] for name in _KINDS}

    def standing(self, job_id: str) -> Standing | None:
        """Return the row of a job's state, or None. Checks S1: the job is in at most one table."""
        places = [place[job_id] for place in (self.queue, self.running, self.finished) if job_id in place]
        hold(len(places) <= 1, "S1", f"job {job_id} is in {len(places)} places at once: {places}")
        return places[0] if places else None

    def apply(self, change: Change) -> None:
        """Apply a change to the copy."""
        table, key = self.tables[change.table], _KINDS[change.table][1]
        if change.old is not None:
            table.pop(key(change.old), None)
        if change.new is not None:
            table[key(change.new)] = change.new

    def live(self, job_id: str) -> bool:
        return job_id in self.queue or job_id in self.running

    def compare(self, connection: apsw.Connection) -> None:
        """Check that the copy equals the tables; a difference is an error of the simulator."""
        for table, (kind, key) in _KINDS.items():
            read = _reader(connection, table, kind)
            rows = {key(row): row for row in map(read, connection.execute(f"SELECT * FROM {table}"))}
            hold(rows == self.tables[table], "SIM", f"the account of {table} differs from the table")


def jobs_in(changes: Iterable[Change]) -> list[str]:
    """Return the ids of the jobs whose state changed, without duplicates."""
    return list(dict.fromkeys(change.row.job_id for change in changes if change.table in _PLACES))
