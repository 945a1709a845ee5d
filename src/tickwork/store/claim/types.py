"""Types of a limited claim: snapshot, candidates, limit states, plan, and the interface to a store (see limited.py).

A limited claim takes jobs that limits or gates may hold; a plain claim takes plain jobs only. A lane is a range of the
order of a queue (core/limits/lanes.py). A place is a lane and a priority: its jobs are ordered by (run_at, id), and its
head is the first of them. To park a job is to move it to a lane of the limit key that holds it. The other terms are in
docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import msgspec

from tickwork.core.ids import JobId, WorkerId
from tickwork.core.limits.admit import LimitSnapshot
from tickwork.core.limits.breaker import Breaker, BreakerState
from tickwork.core.limits.gates import Gate
from tickwork.core.limits.job_limits import JobLimits, LimitKey, LimitUse
from tickwork.core.limits.lanes import home_lane
from tickwork.core.limits.limits import Concurrency, OnRetry
from tickwork.core.placement import ClaimingWorker, free, needs_of
from tickwork.store.claim.picked_row import PickedRow
from tickwork.store.limits import LimitedCapacity, Rule
from tickwork.store.rows.jobs import decode_job_limits, decode_labels

OPEN_KEYS = 256  # Open limit keys that a round reads.
BULK_WALK = 1000  # Jobs that the store reads behind each bulk-parked job, for others of its kind.

Place = tuple[str, int]  # A lane and a priority.
Position = tuple[int, str]  # A (run_at, id) in a place.


class LaneHead(NamedTuple):
    """The first job of a place (lane and priority), and what is known about the jobs of that place.

    `rule` is the rule of the limit key that holds them; None in a lane of jobs that are not held. `grace_us`: for this
    time after their run_at, sticky jobs are left to the worker to which they stick.
    """

    lane: str
    priority: int
    run_at_us: int
    rule: Rule | None = None
    grace_us: int = 0

    @property
    def place(self) -> Place:
        """Return the lane and the priority."""
        return (self.lane, self.priority)

    @property
    def from_us(self) -> int:
        """Return the instant from which the claiming worker may take the job: its run_at plus the grace time."""
        return self.run_at_us + self.grace_us


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The data that a round reads first, without locks: gates in force, weights of tenants, and heads of places.

    `empty` are open limit keys that hold no job. `opens_at_us` is when the next closed limit key opens; None: no time
    is known.
    """

    now_us: int
    gates: Sequence[Gate]
    weights: Mapping[str, int]
    heads: Sequence[LaneHead]
    empty: Sequence[LimitKey]
    opens_at_us: int | None

    @property
    def is_guarded(self) -> bool:
        """Return whether limits or gates are in force.

        A plain claim then takes nothing, and a limited claim follows.
        """
        return bool(self.gates or self.empty or any(":" in head.lane for head in self.heads))


class PickRequest(NamedTuple):
    """A request to pick up to `most` due jobs of a place, and up to `of_group` from all places of its group.

    It covers only jobs with `after_us` < run_at <= now - `grace_us`.
    """

    group: int
    of_group: int
    lane: str
    priority: int
    most: int
    grace_us: int = 0
    after_us: int = 0

    @property
    def place(self) -> Place:
        """Return the lane and the priority."""
        return (self.lane, self.priority)

    def covers(self, run_at_us: int, now_us: int) -> bool:
        """Return whether the request covers a job of its place that is due at `run_at_us`."""
        return self.after_us < run_at_us <= now_us - self.grace_us


class Candidate(NamedTuple):
    """A queued job that a round has picked and may start.

    `row` has the columns that the store needs to move the job.
    """

    job_id: JobId
    lane: str
    priority: int
    run_at_us: int
    task: str
    queue: str
    collection: str | None
    labels: tuple[str, ...]
    job_limits: JobLimits | None
    row: PickedRow

    @classmethod
    def of(cls, row: PickedRow) -> Candidate:
        """Build the candidate of a picked row."""
        labels, job_limits = decode_labels(row.labels), decode_job_limits(row.job_limits)
        return cls(
            job_id=row.job_id,
            lane=row.lane,
            priority=row.priority,
            run_at_us=row.run_at_us,
            task=row.job_task,
            queue=row.queue,
            collection=row.collection,
            labels=labels,
            job_limits=job_limits,
            row=row,
        )

    @property
    def home(self) -> str:
        """Return the lane in which the job waits when no limit holds it."""
        return home_lane(self.queue, self.job_limits)

    @property
    def place(self) -> Place:
        """Return the lane and the priority where the job is now."""
        return (self.lane, self.priority)

    @property
    def kind(self) -> tuple[Any, ...]:
        """Return what determines which limit or gate holds the job: jobs with equal values are held alike."""
        return (self.lane, self.priority, self.task, self.queue, self.collection, self.labels, self.job_limits)


Start = tuple[Candidate, tuple[LimitUse, ...]]
"""A job to start, and the limits that it uses."""
Park = tuple[Candidate, str]
"""A job and the lane that it is parked in."""


class LaneScan(NamedTuple):
    """One step of a scan cursor: read rows of a place, and pick jobs of other kinds than those of `kinds`.

    It reads from the position `after` up to `until_us` (None: no end), and only jobs that have been due for `grace_us`.
    It reads up to `walk` rows and picks up to `most` of them.
    """

    lane: str
    priority: int
    kinds: tuple[Candidate, ...]
    after: Position
    until_us: int | None
    grace_us: int
    most: int
    walk: int

    @property
    def place(self) -> Place:
        """Return the lane and the priority."""
        return (self.lane, self.priority)

    def limit_us(self, now_us: int) -> int:
        """Return the latest run_at that the step reads."""
        due_us = now_us - self.grace_us
        return due_us if self.until_us is None else min(self.until_us, due_us)


LaneScanResult = tuple[list[Candidate], Position | None]
"""The picked jobs, and the position up to which the cursor has read; None: it has read everything."""


class LimitState(NamedTuple):
    """The state of a limit key, read under its lock. A key without a rule holds no job.

    Of `arrival_us`, `breaker` and `marker`, only the one that fits the rule is used; the marker is the first job of a
    sequence while something other than the sequence holds it. `waiting` counts the jobs that the key holds (up to one
    more than were picked), and `head` is the first of them by (run_at, id). `returned` are jobs of a sequence that have
    started, wait for another attempt and block later jobs meanwhile; they are counted in `live`.
    """

    rule: Rule | None
    live: int = 0
    arrival_us: int = 0
    breaker: BreakerState = BreakerState()
    marker: tuple[int, JobId] | None = None
    waiting: int = 0
    head: tuple[int, JobId] | None = None
    returned: tuple[tuple[int, JobId], ...] = ()

    @property
    def limit_snapshot(self) -> LimitSnapshot | None:
        """Return the state in the form that `admit` takes.

        None without a rule, and for a breaker, which counts no weight.
        """
        if self.rule is None or isinstance(self.rule, Breaker):
            return None
        if not isinstance(self.rule, Concurrency) or not self.rule.in_order:
            return LimitSnapshot(self.rule, self.live, self.arrival_us)
        first = min((one for one in (self.marker, self.head) if one is not None), default=None)
        running = self.live - len(self.returned)
        return LimitSnapshot(self.rule, running, first=first, head=min(self.returned)[1] if self.returned else None)

    @property
    def is_in_order(self) -> bool:
        """Return whether the limit is a sequence."""
        return isinstance(self.rule, Concurrency) and self.rule.in_order

    @property
    def on_retry(self) -> OnRetry | None:
        """Return how a started job of a sequence keeps its position while it waits for a retry.

        None: it does not keep it.
        """
        return self.rule.on_retry if isinstance(self.rule, Concurrency) and self.rule.in_order else None

    def with_returned(self, kept: Iterable[tuple[int, JobId]], now_us: int) -> LimitState:
        """Return this state with `returned` set to the started jobs that wait for another attempt and block other jobs
        now.

        With `on_retry` "pass", a job blocks others only once its retry is due.
        """
        passable = self.on_retry == "pass"
        returned = tuple(one for one in kept if not passable or one[0] <= now_us)
        return self._replace(returned=returned, live=self.live + len(returned))


@dataclass(slots=True)
class ClaimPlan:
    """The changes that a round writes.

    `starts` are jobs to start, `probes` those of them that a half-open breaker admits. `drops` are jobs that the caller
    ends after the round. `parks` are jobs to move to lanes of the limits that hold them. For each of `bulk_parks`, a
    part of `parks`, the store also parks the jobs of the same kind behind it. `diverts` are jobs with the queue to
    which a gate moves them. `states` are new states of limit keys, `opens` when they open (None: when an attempt ends),
    `emptied` the keys that hold no job any more. `passed_on` counts for each gate the jobs that it dropped or diverted.
    `full` are keys that refused a job until an attempt ends, with their live weight: if that has decreased after the
    commit, the caller opens them. `on_retry` tells under which keys a started job keeps its position while it waits for
    another attempt.
    """

    starts: list[Start] = field(default_factory=list)
    probes: set[JobId] = field(default_factory=set)
    drops: list[JobId] = field(default_factory=list)
    parks: list[Park] = field(default_factory=list)
    bulk_parks: list[Park] = field(default_factory=list)
    diverts: list[tuple[Candidate, str]] = field(default_factory=list)
    states: dict[LimitKey, State] = field(default_factory=dict)
    opens: dict[LimitKey, int | None] = field(default_factory=dict)
    emptied: set[LimitKey] = field(default_factory=set)
    passed_on: dict[str, int] = field(default_factory=dict)
    full: dict[LimitKey, int] = field(default_factory=dict)
    on_retry: dict[LimitKey, OnRetry] = field(default_factory=dict)

    @property
    def started(self) -> list[Candidate]:
        """Return the jobs to start, without the limits that they use."""
        return [one for one, _ in self.starts]

    @property
    def put_aside(self) -> list[Candidate]:
        """Return the jobs that leave their place without a start: parked and diverted ones."""
        return [one for one, _ in (*self.parks, *self.diverts)]


State = int | BreakerState | tuple[int, JobId]


class ClaimTx(Protocol):
    """The interface of a round to the store, inside one transaction. `now_us` is read again after waiting for locks."""

    worker: WorkerId

    @property
    def now_us(self) -> int: ...

    def snapshot(self) -> Snapshot:
        """Read the snapshot of the queue and of the limits. Nothing is locked."""

    def claiming_workers(self) -> list[ClaimingWorker]:
        """Return the live workers that claim jobs."""

    def pick(self, pick_requests: Sequence[PickRequest]) -> list[Candidate]:
        """Pick and lock due jobs, and return them in the order of the requests.

        Jobs that are locked already are skipped.
        """

    def next_due_us(self, places: Sequence[Place]) -> int | None:
        """Return the earliest run_at in the future of a job in these places; None if there is none."""

    def lane_scan(self, lane_scans: Sequence[LaneScan]) -> list[LaneScanResult]:
        """Run these steps of scan cursors; return a result for each, in order."""

    def lock(
        self, limit_keys: Iterable[LimitKey], picked: Mapping[LimitKey, int], gates: Mapping[LimitKey, Gate]
    ) -> dict[LimitKey, LimitState]:
        """Lock limit keys and gates, and return the states of those that exist.

        All claims lock in the same order, so they cannot deadlock. `picked` is the number of jobs of each key that were
        picked; only for these keys the other held jobs are read. The rule of a gate is the rate to which it slows jobs;
        a gate that was lifted since the snapshot is left out.
        """

    def apply(self, plan: ClaimPlan) -> int:
        """Write the plan; return how many jobs were parked in bulk.

        For each bulk-parked job, BULK_WALK due jobs behind it are read.
        """


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """A worker's request.

    Queues in the order of preference, tasks, the number of jobs, and its capacity for limited jobs.
    """

    queues: Sequence[str]
    tasks: tuple[str, ...]
    most: int
    capacity: LimitedCapacity

    def after(self, started: Sequence[Candidate]) -> ClaimRequest:
        """Return the remaining request once these jobs have started."""
        limited = [one.job_limits for one in started if one.job_limits is not None]
        left = free(self.capacity.offer, [needs_of(one.needs) for one in limited if one.needs])
        capacity = msgspec.structs.replace(self.capacity, slots=self.capacity.slots - len(limited), offer=left)
        return ClaimRequest(self.queues, self.tasks, self.most - len(started), capacity)


def gate_key(gate: Gate) -> LimitKey:
    """Return the limit key under which a gate's state is stored."""
    return LimitKey(f"gate:{gate.name}", "")
