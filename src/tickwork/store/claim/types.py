"""What a round of a guarded claim is made of (see limited.py)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import msgspec

from tickwork.core.ids import JobId, WorkerId
from tickwork.core.limits.admit import LimitSnapshot
from tickwork.core.limits.breaker import Breaker, BreakerState
from tickwork.core.limits.gates import Gate
from tickwork.core.limits.lanes import Flow, home_lane
from tickwork.core.limits.limits import Concurrency, LimitKey, LimitUse, OnRetry
from tickwork.core.placement.needs import free, needs_of
from tickwork.core.placement.sticky import ClaimingWorker
from tickwork.store.limits import LimitedCapacity, Rule

MASS = 1000  # so many are looked at behind one that is put aside, for those that go with it

Place = tuple[str, int]  # a lane and a priority
Position = tuple[int, str]  # in a place: a (run_at, id)


class LaneHead(NamedTuple):
    """The first job of a priority in a lane. `rule` is that of the turnstile which held the lane's jobs, if any.

    `grace_us`: for so long after they are due its jobs are left to another worker, to which they stick.
    """

    lane: str
    priority: int
    run_at_us: int
    rule: Rule | None = None
    grace_us: int = 0

    @property
    def place(self) -> Place:
        return (self.lane, self.priority)

    @property
    def from_us(self) -> int:
        """When the worker that looks may take it."""
        return self.run_at_us + self.grace_us


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a round finds: gates in force, weights of tenants, where something stands, and when the next one opens.

    `empty` are open turnstiles that hold nothing.
    """

    now_us: int
    gates: Sequence[Gate]
    weights: Mapping[str, int]
    heads: Sequence[LaneHead]
    empty: Sequence[LimitKey]
    opens_at_us: int | None

    @property
    def is_guarded(self) -> bool:
        """Whether plain claims would have stood back."""
        return bool(self.gates or self.empty or any(":" in head.lane for head in self.heads))


class PickRequest(NamedTuple):
    """Up to `most` jobs of a place are wanted, and up to `of_group` of all places of its group.

    They became due after the instant `after_us`, and at least `grace_us` ago.
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
        return (self.lane, self.priority)

    def covers(self, run_at_us: int, now_us: int) -> bool:
        """Return whether a job of its place that is due at `run_at_us` is wanted."""
        return self.after_us < run_at_us <= now_us - self.grace_us


class Candidate(NamedTuple):
    """A waiting job that a round has picked. `row` is what the store needs to move it."""

    job_id: JobId
    lane: str
    priority: int
    run_at_us: int
    task: str
    queue: str
    collection: str | None
    labels: tuple[str, ...]
    flow: Flow | None
    row: Any

    @property
    def home(self) -> str:
        return home_lane(self.queue, self.flow)

    @property
    def place(self) -> Place:
        return (self.lane, self.priority)

    @property
    def kind(self) -> tuple[Any, ...]:
        """Where it stands and all that is judged by: what holds one job of a kind holds those behind it."""
        return (self.lane, self.priority, self.task, self.queue, self.collection, self.labels, self.flow)


Wanting = tuple[Candidate, tuple[LimitUse, ...]]
Park = tuple[Candidate, str]
"""A job and the lane that it goes to."""


class LaneScan(NamedTuple):
    """Where to look for jobs of other kinds: in a place, behind a position, up to an instant if there is one.

    Only what is due since `grace_us` counts. Up to `most` are picked, of the next so many that it walks over.
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
        return (self.lane, self.priority)

    def limit_us(self, now_us: int) -> int:
        """Up to when it looks."""
        due_us = now_us - self.grace_us
        return due_us if self.until_us is None else min(self.until_us, due_us)


LaneScanResult = tuple[list[Candidate], Position | None]
"""What a scout has picked, and up to where it has looked; None: it has seen all."""


class LimitState(NamedTuple):
    """A turnstile under its lock. Without a rule it holds nobody.

    `arrival_us`, `breaker` and `marker` are its state, as its rule has one: the marker is the first job of a sequence
    while something else holds it. `waiting` and `head` are how many jobs it holds (counted up to one more than were
    picked) and the first of them by (run_at, id). `returned` are the jobs of a sequence that have started and wait for
    another attempt, where they keep others from starting; they are counted in `live`.
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
    def turnstile(self) -> LimitSnapshot | None:
        """What `admit` sees of it."""
        if self.rule is None or isinstance(self.rule, Breaker):
            return None
        if not isinstance(self.rule, Concurrency) or not self.rule.in_order:
            return LimitSnapshot(self.rule, self.live, self.arrival_us)
        first = min((one for one in (self.marker, self.head) if one is not None), default=None)
        running = self.live - len(self.returned)
        return LimitSnapshot(self.rule, running, first=first, head=min(self.returned)[1] if self.returned else None)

    @property
    def is_in_order(self) -> bool:
        return isinstance(self.rule, Concurrency) and self.rule.in_order

    @property
    def on_retry(self) -> OnRetry | None:
        """How a job that starts here keeps its place while it waits for another attempt; None: not at all."""
        return self.rule.on_retry if isinstance(self.rule, Concurrency) and self.rule.in_order else None

    def with_returned(self, kept: Iterable[tuple[int, JobId]], now_us: int) -> LimitState:
        """The same with jobs that have started and wait: those that others may not pass now."""
        passable = self.on_retry == "pass"
        returned = tuple(one for one in kept if not passable or one[0] <= now_us)
        return self._replace(returned=returned, live=self.live + len(returned))


@dataclass(slots=True)
class ClaimPlan:
    """What a round does. Turnstiles: the new state, and when they open (None: when a lease ends).

    `full` are those that hold a job until a lease ends, with what is live there: should that have become less at the
    end, they are to be opened. `masses` are those of `parks` behind which more stand that are alike, and go with them.
    `on_retry` says of which turnstiles a job that starts keeps its place while it waits for another attempt.
    """

    starts: list[Wanting] = field(default_factory=list)
    probes: set[JobId] = field(default_factory=set)
    parks: list[Park] = field(default_factory=list)
    masses: list[Park] = field(default_factory=list)
    diverts: list[tuple[Candidate, str]] = field(default_factory=list)
    states: dict[LimitKey, State] = field(default_factory=dict)
    opens: dict[LimitKey, int | None] = field(default_factory=dict)
    emptied: set[LimitKey] = field(default_factory=set)
    passed_on: dict[str, int] = field(default_factory=dict)
    full: dict[LimitKey, int] = field(default_factory=dict)
    on_retry: dict[LimitKey, OnRetry] = field(default_factory=dict)

    @property
    def put_aside(self) -> list[Candidate]:
        """Who leaves the place without a start."""
        return [one for one, _ in (*self.parks, *self.diverts)]


State = int | BreakerState | tuple[int, JobId]


class ClaimTx(Protocol):
    """What a round needs of a store, inside one transaction. `now_us` is read anew once locks were waited for."""

    worker: WorkerId

    @property
    def now_us(self) -> int: ...

    def look(self) -> Snapshot: ...

    def neighbours(self) -> list[ClaimingWorker]:
        """Who claims jobs at the time."""

    def pick(self, wishes: Sequence[PickRequest]) -> list[Candidate]:
        """Pick due jobs that nobody else is just moving, in the order of the wishes."""

    def next_due_us(self, places: Sequence[Place]) -> int | None:
        """When the next job of these places will be due, if there is one that is not yet."""

    def scout(self, scouts: Sequence[LaneScan]) -> list[LaneScanResult]:
        """Pick due jobs as scouts are told to."""

    def lock(
        self, passages: Iterable[LimitKey], picked: Mapping[LimitKey, int], gates: Mapping[LimitKey, Gate]
    ) -> dict[LimitKey, LimitState]:
        """Lock the limits and gates of turnstiles, in one order everywhere, and read how these stand from then on.

        `picked` says how many were picked of what they hold; only those are looked at for what else they hold. The rule
        of a gate is its pace; one that was lifted meanwhile is left out.
        """

    def apply(self, verdict: ClaimPlan) -> int:
        """Do as the verdict says; return how many were put aside with its masses.

        Of the due jobs behind each of them MASS are looked at.
        """


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """What a worker asks for: of which queues, in that order, and tasks, how many, and what it can do for a flow."""

    queues: Sequence[str]
    tasks: tuple[str, ...]
    room: int
    reach: LimitedCapacity

    def after(self, started: Sequence[Candidate]) -> ClaimRequest:
        """What it asks for when these have started."""
        flows = [one.flow for one in started if one.flow is not None]
        left = free(self.reach.offer, [needs_of(flow.needs) for flow in flows if flow.needs])
        reach = msgspec.structs.replace(self.reach, slots=self.reach.slots - len(flows), offer=left)
        return ClaimRequest(self.queues, self.tasks, self.room - len(started), reach)


def gate_passage(gate: Gate) -> LimitKey:
    """Return the turnstile of a gate."""
    return LimitKey(f"gate:{gate.name}", "")
