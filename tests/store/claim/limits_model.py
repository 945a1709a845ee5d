"""The rules of flow control as a user is told them, over a handful of jobs: who may start, and why another one may not.

It shares no code with the stores. It does not say who is next where several may start; it says who must not start, and
of what waits whether anything holds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

Key = tuple[str, str]  # a limit, and a key under it


@dataclass
class Job:
    id: str
    task: str
    tenant: str | None
    collection: str | None
    weights: dict[Key, int]
    run_at: float
    state: str = "waiting"
    worker: str | None = None
    begun: bool = False  # it has started, and has not ended for good since

    @property
    def place(self) -> tuple[float, str]:
        return self.run_at, self.id


@dataclass
class Pace:
    """At most `count + burst` starts in any second, and an even pace after that.

    `last` is when something started last, also under another pace that was in force before; a burst of which is `owed`
    until then.
    """

    count: int
    burst: int
    last: float | None = None
    owed: float = 0.0
    starts: list[tuple[float, int]] = field(default_factory=list)

    def start(self, at: float, weight: int) -> None:
        self.last, self.owed = at, 0.0
        self.starts.append((at, weight))
        self.check()

    @property
    def interval(self) -> float:
        return 1 / self.count

    def check(self) -> None:
        for since, _ in self.starts:
            inside = sum(weight for at, weight in self.starts if since <= at < since + 1)
            assert inside <= self.count + self.burst, f"{inside} in a second: {self.starts}"

    def may_hold(self, weight: int, now: float) -> bool:
        """Return whether the last start is recent enough to hold a job."""
        return self.last is not None and now < self.last + self.owed + weight * self.interval + 1e-5

    def changed(self, count: int, burst: int) -> Pace:
        """Another pace from now on: what started under this one is not counted in its windows."""
        return Pace(count, burst, self.last, self.owed + self.burst * self.interval)


@dataclass
class Gate:
    kind: str
    selector: str
    value: str
    until: float | None
    pace: Pace | None = None

    @property
    def rank(self) -> tuple[int, str, str]:
        return self.pace.count if self.pace else 0, self.selector, self.value

    def matches(self, job: Job, now: float) -> bool:
        return (self.until is None or now < self.until) and getattr(job, self.selector) == self.value


class Model:
    """Jobs, limits and gates, at one instant."""

    def __init__(self) -> None:
        self.now = 0.0
        self.jobs: dict[str, Job] = {}
        self.capacity: dict[str, int] = {}
        self.lines: dict[str, str] = {}  # sequences, and whether others wait for a retry or pass it
        self.paces: dict[str, tuple[int, int]] = {}
        self._paced: dict[Key, Pace] = {}
        self.gates: dict[tuple[str, str, str], Gate] = {}
        self._slowed: dict[tuple[str, str], Pace] = {}

    # -- what happens

    def set_pace(self, limit: str, count: int, burst: int) -> None:
        self.paces[limit] = (count, burst)
        changed = {key: pace.changed(count, burst) for key, pace in self._paced.items() if key[0] == limit}
        self._paced = {**self._paced, **changed}

    def put_gate(self, kind: str, selector: str, value: str, until: float | None) -> None:
        before = self._slowed.get((selector, value))
        pace = Pace(2, 0, before.last if before else None) if kind == "slow" else None
        self.gates[kind, selector, value] = Gate(kind, selector, value, until, pace)
        if pace is not None:
            self._slowed[selector, value] = pace

    def starts(self, job: Job, worker: str) -> None:
        """A claim gave this one away: it was allowed to."""
        assert job.state == "waiting", f"{job} started, and it did not wait"
        assert job.run_at <= self.now, f"{job} started before its time"
        gate = self.gate_for(job)
        assert gate is None or gate.kind == "slow", f"{job} started in spite of {gate}"
        for key, weight in job.weights.items():
            limit, _ = key
            if limit in self.capacity:
                live = self.live(key)
                assert live + weight <= self.capacity[limit], f"{job} started beside {live} in {key}"
            if limit in self.lines:
                assert not self.live(key), f"{job} started beside another of {key}"
                before = [one for one in self.line(key, job.tenant) if one.place < job.place]
                before = [] if job.begun else before
                assert not [*before, *self.before(key, job)], f"{job} passed by {before or self.before(key, job)}"
            if limit in self.paces:
                self._pace(key).start(self.now, weight)
        if gate is not None and gate.pace is not None:
            gate.pace.start(self.now, 1)
        job.state, job.worker, job.begun = "running", worker, True

    def again(self, job: Job, delay: float) -> None:
        job.state, job.worker, job.run_at = "waiting", None, self.now + delay

    def redrive(self, job: Job) -> None:
        """An operator has a failed job run again: it has no place any more, and goes to the end."""
        job.state, job.worker, job.run_at, job.begun = "waiting", None, self.now, False

    # -- what is so

    def line(self, key: Key, tenant: str | None) -> list[Job]:
        """Return the jobs that wait in a sequence. Tenants have their turns first, so each has an order of its own."""
        return [one for one in self.waiting() if key in one.weights and one.tenant == tenant]

    def before(self, key: Key, job: Job) -> list[Job]:
        """Jobs of a sequence that have started, wait for another attempt, and may not be passed by this one.

        They keep their place whatever their tenant.
        """
        begun = [one for one in self.queued() if one.begun and key in one.weights and one is not job]
        if self.lines[key[0]] == "pass":
            begun = [one for one in begun if one.run_at <= self.now]
        return [one for one in begun if not job.begun or one.place < job.place]

    def queued(self) -> list[Job]:
        return [job for job in self.jobs.values() if job.state == "waiting"]

    def due(self) -> list[Job]:
        return [job for job in self.queued() if job.run_at <= self.now]

    def waiting(self) -> list[Job]:
        """Return the due jobs that no gate drops."""
        return [job for job in self.due() if (gate := self.gate_for(job)) is None or gate.kind != "drop"]

    def running(self, worker: str | None = None) -> list[Job]:
        return [job for job in self.jobs.values() if job.state == "running" and worker in (None, job.worker)]

    def live(self, key: Key) -> int:
        return sum(job.weights.get(key, 0) for job in self.running())

    def gate_for(self, job: Job) -> Gate | None:
        """Drop decides before pause, and pause before slow; of two slow ones the slower does, or the first by name."""
        order = ["drop", "pause", "slow"]
        found = [gate for gate in self.gates.values() if gate.matches(job, self.now)]
        return min(found, key=lambda gate: (order.index(gate.kind), *gate.rank), default=None)

    def holds(self, job: Job) -> Iterator[str]:
        """Return what holds a due job. A job that a gate will drop blocks others, too, while something holds it."""
        gate = self.gate_for(job)
        if gate is not None and gate.kind == "pause":
            yield "a pause"
        if gate is not None and gate.pace is not None and gate.pace.may_hold(1, self.now):
            yield "a slow gate"
        for key, weight in job.weights.items():
            limit, _ = key
            if limit in self.capacity and self._is_full(key, job, weight):
                yield f"{key} is full"
            if limit in self.lines and (self.live(key) or self.before(key, job) or self._is_behind(key, job)):
                yield f"not first of {key}"
            if limit in self.paces and self._pace(key).may_hold(weight, self.now):
                yield f"the pace of {key}"

    def _is_full(self, key: Key, job: Job, weight: int) -> bool:
        """Whether it does not fit, or would pass by a heavier one that does not."""
        free = self.capacity[key[0]] - self.live(key)
        others = [one.weights[key] for one in self.due() if key in one.weights and one is not job]
        return weight > free or any(free < other <= self.capacity[key[0]] for other in others)

    def _is_behind(self, key: Key, job: Job) -> bool:
        return any(one.place < job.place for one in self.due() if key in one.weights)

    def _pace(self, key: Key) -> Pace:
        return self._paced.setdefault(key, Pace(*self.paces[key[0]]))
