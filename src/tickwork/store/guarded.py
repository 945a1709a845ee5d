"""The claim of jobs with a flow, and of all jobs while a gate is in force; the same for both stores.

A round is one transaction: look where something is due, pick some of it in the order of turns and urgency, lock the
turnstiles on the way, judge, and apply. What may not start leaves the way: it stands in a lane of what holds it until
that opens. Rounds follow each other until the worker has enough or nothing more can start.

Whoever judges by a limit has locked it, and only those who judge add to what it counts; so no limit is ever exceeded.
Whoever ends a job locks nothing. That an end and a judgement do not miss each other is seen to afterwards: who has
ended a job looks whether its turnstile holds others, and who has put a job aside looks whether one has ended meanwhile.
Each looks after its commit, so one of them sees the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from tickwork.core.flow.admit import Admission, Candidate, Passage, Turnstile, admit
from tickwork.core.flow.ageing import aged_before_us
from tickwork.core.flow.breaker import Breaker, BreakerState
from tickwork.core.flow.breaker import start as start_breaker
from tickwork.core.flow.flow import Flow, Lane, held_lane, home_lane, read_lane
from tickwork.core.flow.gates import Gate, JobFacts, gate_for
from tickwork.core.flow.limits import Concurrency, Slot
from tickwork.core.flow.placement import free, needs_of, take_in_order, taken_of
from tickwork.core.flow.turns import Tenant, take_turns
from tickwork.core.ids import JobId
from tickwork.store.flow import Reach, Rule

OPEN_LIMIT = 256  # so many open turnstiles are looked at in a round
ROUNDS = 10
_MOST = 1000  # a round that finds little to start picks up to so many, so that what is held soon leaves the way


class Head(NamedTuple):
    """The first job of a priority in a lane. `rule` is that of the turnstile which held the lane's jobs, if any."""

    lane: str
    priority: int
    run_at_us: int
    rule: Rule | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """What a round finds: gates in force, weights of tenants, where something stands, and when the next one opens.

    `empty` are open turnstiles that hold nothing.
    """

    now_us: int
    gates: Sequence[Gate]
    weights: Mapping[str, int]
    heads: Sequence[Head]
    empty: Sequence[Passage]
    opens_at_us: int | None


class Wish(NamedTuple):
    """Up to `most` jobs of a place are wanted, and up to `of_group` of all places of its group."""

    group: int
    of_group: int
    lane: str
    priority: int
    most: int


class Applicant(NamedTuple):
    """A waiting job that a round has picked. `row` is what the store needs to move it."""

    job_id: JobId
    lane: str
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


Wanting = tuple[Applicant, tuple[Slot, ...]]


class Stile(NamedTuple):
    """A turnstile under its lock. Without a rule it holds nobody.

    `arrival_us`, `breaker` and `marker` are its state, as its rule has one: the marker is the first job of a sequence
    while something else holds it. `waiting` and `head` are how many jobs it holds (counted up to one more than were
    picked) and the first of them by (run_at, id).
    """

    rule: Rule | None
    live: int = 0
    arrival_us: int = 0
    breaker: BreakerState = BreakerState()
    marker: tuple[int, JobId] | None = None
    waiting: int = 0
    head: tuple[int, JobId] | None = None

    @property
    def turnstile(self) -> Turnstile | None:
        """What `admit` sees of it."""
        if self.rule is None or isinstance(self.rule, Breaker):
            return None
        if not isinstance(self.rule, Concurrency) or not self.rule.in_order:
            return Turnstile(self.rule, self.live, self.arrival_us)
        firsts = [one for one in (self.marker, self.head) if one is not None]
        return Turnstile(self.rule, self.live, first=min(firsts, default=None))


@dataclass(slots=True)
class Verdict:
    """What a round does. Turnstiles: the new state, and when they open (None: when a lease ends).

    `full` are those that hold a job until a lease ends, with what is live there: should that have become less at the
    end, they are to be opened.
    """

    starts: list[Wanting] = field(default_factory=list)
    probes: set[JobId] = field(default_factory=set)
    parks: list[tuple[Applicant, str]] = field(default_factory=list)
    diverts: list[tuple[Applicant, str]] = field(default_factory=list)
    states: dict[Passage, State] = field(default_factory=dict)
    opens: dict[Passage, int | None] = field(default_factory=dict)
    emptied: set[Passage] = field(default_factory=set)
    passed_on: dict[str, int] = field(default_factory=dict)
    full: dict[Passage, int] = field(default_factory=dict)


State = int | BreakerState | tuple[int, JobId]


class Ground(Protocol):
    """What a round needs of a store, inside one transaction."""

    def look(self) -> Look: ...

    def pick(self, wishes: Sequence[Wish]) -> list[Applicant]:
        """Pick due jobs that nobody else is just moving, in the order of the wishes."""

    def lock(
        self, passages: Iterable[Passage], picked: Mapping[Passage, int], gates: Mapping[Passage, Gate]
    ) -> dict[Passage, Stile]:
        """Lock the limits and gates of turnstiles, in one order everywhere, and read how these stand from then on.

        `picked` says how many were picked of what they hold; only those are looked at for what else they hold. The rule
        of a gate is its pace; one that was lifted meanwhile is left out.
        """

    def apply(self, verdict: Verdict) -> None: ...


@dataclass(slots=True)
class TurnKeeper:
    """What a worker remembers of turns: where each tenant stands, and whether what has waited long goes first now."""

    positions: dict[str, int] = field(default_factory=dict)
    clock: int = 0
    by_age: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """What a worker asks for: of which queues, in that order, how many, and what it can do for jobs with a flow."""

    queues: Sequence[str]
    room: int
    reach: Reach

    def after(self, started: Sequence[Applicant]) -> Asked:
        """What it asks for when these have started."""
        flows = [one.flow for one in started if one.flow is not None]
        left = free(self.reach.offer, [needs_of(flow.needs) for flow in flows if flow.needs])
        return Asked(self.queues, self.room - len(started), Reach(self.reach.slots - len(flows), left))


@dataclass(frozen=True, slots=True)
class Round:
    """What came of a round. `dropped` are to be ended; `wants_more`: another one may find something.

    `next_us` is when something is due, or opens, that was not there for this one.
    """

    started: Sequence[Applicant] = ()
    dropped: Sequence[JobId] = ()
    wants_more: bool = False
    next_us: int | None = None
    full: Mapping[Passage, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Played:
    """What came of all rounds of a claim. `is_cut_short`: there may be more to take right away."""

    next_us: int | None
    is_cut_short: bool


def play_rounds(play_one: Callable[[Asked, bool], Round], asked: Asked) -> Played:
    """Play rounds until the worker has what it asked for, or nothing more can start."""
    hurry = False
    for _ in range(ROUNDS):
        played = play_one(asked, hurry)
        hurry = len(played.started) * 2 < asked.room
        asked = asked.after(played.started)
        if asked.room <= 0:
            return Played(None, False)
        if not played.wants_more:
            return Played(played.next_us, False)
    return Played(None, True)


def gate_passage(gate: Gate) -> Passage:
    """Return the turnstile of a gate."""
    return Passage(f"gate:{gate.name}", "")


def play(ground: Ground, asked: Asked, turns: TurnKeeper, *, hurry: bool) -> Round:
    """Play one round. `hurry`: the last one had to put much aside, so pick more."""
    look = ground.look()
    heads = [head for head in look.heads if _is_servable(head, asked)]
    due = [head for head in heads if head.run_at_us <= look.now_us]
    next_us = _earliest([head.run_at_us for head in heads if head.run_at_us > look.now_us], look.opens_at_us)
    room = max(asked.room, _MOST) if hurry else asked.room
    applicants = ground.pick(_wishes(due, look, asked, turns, room)) if due else []
    if not applicants and not look.empty:
        return Round(next_us=next_us)
    verdict, dropped = _judge(ground, look, asked, applicants)
    ground.apply(verdict)
    started = [applicant for applicant, _ in verdict.starts]
    _took_turns(turns, started, look.weights)
    did = bool(started or dropped or verdict.parks or verdict.diverts or verdict.opens or verdict.emptied)
    return Round(started, dropped, did, next_us, verdict.full)


# -- what to pick


def _is_servable(head: Head, asked: Asked) -> bool:
    lane = read_lane(head.lane)
    return not lane.needs or taken_of(asked.reach.offer, needs_of(lane.needs)) is not None


def _wishes(due: Sequence[Head], look: Look, asked: Asked, turns: TurnKeeper, room: int) -> list[Wish]:
    """Give each tenant its turns, and within them the most urgent its place; now and then who has waited longest."""
    ranks = {queue: rank for rank, queue in enumerate(asked.queues)}
    places: dict[str, list[tuple[Any, Head]]] = {}
    turns.by_age = not turns.by_age
    for head in due:
        lane = read_lane(head.lane)
        is_aged = turns.by_age and head.run_at_us < aged_before_us(look.now_us)
        order = (False, head.run_at_us) if is_aged else (True, ranks[lane.queue], head.priority, head.run_at_us)
        places.setdefault(lane.tenant, []).append((order, head))
    line = [Tenant(name, room, look.weights.get(name, 1), turns.positions.get(name, 0)) for name in places]
    counts = take_turns(line, room, turns.clock).counts
    return [
        Wish(group, counts[name], head.lane, head.priority, min(counts[name], _most(head)))
        for group, name in enumerate(counts)
        for _, head in sorted(places[name], key=lambda place: place[0])
    ]


def _most(head: Head) -> int:
    """How many of those that a turnstile holds could start at best."""
    if isinstance(head.rule, Breaker):
        return 1
    return _MOST if head.rule is None else head.rule.heaviest


def _took_turns(turns: TurnKeeper, started: Sequence[Applicant], weights: Mapping[str, int]) -> None:
    counts = Counter(read_lane(applicant.lane).tenant for applicant in started)
    tenants = [
        Tenant(name, count, weights.get(name, 1), turns.positions.get(name, 0)) for name, count in counts.items()
    ]
    taken = take_turns(tenants, len(started), turns.clock)
    turns.clock = taken.clock
    turns.positions = {name: at for name, at in (turns.positions | taken.positions).items() if at > turns.clock}


# -- who may start


def _judge(ground: Ground, look: Look, asked: Asked, applicants: Sequence[Applicant]) -> tuple[Verdict, list[JobId]]:
    verdict = Verdict()
    dropped: list[JobId] = []
    paused: list[tuple[Applicant, Gate]] = []
    wanting: list[Wanting] = []
    gates: dict[Passage, Gate] = {}
    for applicant in applicants:
        gate = gate_for(_facts(applicant), look.gates, look.now_us) if look.gates else None
        slots = applicant.flow.slots if applicant.flow else ()
        if gate is None:
            wanting.append((applicant, slots))
        elif gate.kind == "drop":
            dropped.append(applicant.job_id)
            _passes_on(verdict, gate)
        elif gate.kind == "divert":
            verdict.diverts.append((applicant, gate.to or ""))
            _passes_on(verdict, gate)
        else:
            gates[gate_passage(gate)] = gate
            if gate.kind == "pause":
                paused.append((applicant, gate))
            else:
                wanting.append((applicant, (*slots, Slot(*gate_passage(gate), 1))))
    picked = Counter(lane.held_by for lane in map(_lane, applicants) if lane.held_by is not None)
    picked.update(dict.fromkeys(look.empty, 0))
    in_order = [slot for one, _ in paused if one.flow and one.flow.sequence for slot in one.flow.slots]
    asked_of = [*in_order, *(slot for _, slots in wanting for slot in slots)]
    passages = {Passage(slot.limit, slot.key) for slot in asked_of}
    stiles = ground.lock({*passages, *picked, *gates}, picked, gates)
    for applicant, gate in paused:
        if gate_passage(gate) in stiles:
            _park(verdict, applicant, gate_passage(gate), gate.until_us, stiles)
    _admit(verdict, look.now_us, asked, _fitting(wanting, asked.reach), stiles)
    _keep_open(verdict, look.now_us, picked, stiles)
    return verdict, dropped


def _admit(
    verdict: Verdict, now_us: int, asked: Asked, wanting: Sequence[Wanting], stiles: Mapping[Passage, Stile]
) -> None:
    """Let through whom limits and breakers let through and the worker has room for; park whom they do not."""
    turnstiles = {name: one for name, stile in stiles.items() if (one := stile.turnstile) is not None}
    by_id = {applicant.job_id: (applicant, slots) for applicant, slots in wanting}
    broken = _Breakers(stiles, now_us)
    candidates = []
    for applicant, slots in wanting:
        if (held := broken.holds(slots)) is None:
            candidates.append(Candidate(applicant.job_id, slots, applicant.run_at_us))
        else:
            _park(verdict, applicant, *held, stiles)
    admission = admit(candidates, turnstiles, now_us)
    left_out = _left_out(admission, by_id, asked, broken, stiles)
    if left_out:
        admission = admit([one for one in candidates if one.id not in left_out], turnstiles, now_us)
    for job_id in left_out:
        if (held := broken.holds(by_id[job_id][1])) is not None:
            _park(verdict, by_id[job_id][0], *held, stiles)
    for job_id in admission.admitted:
        applicant, slots = by_id[job_id]
        verdict.starts.append((applicant, tuple(slot for slot in slots if _counts(slot, stiles))))
    verdict.probes |= broken.probes
    verdict.states |= {**admission.arrivals, **broken.changed}
    live = _live_after(verdict, stiles)
    for refusal in admission.refused:
        _park(verdict, by_id[refusal.id][0], refusal.held_by, refusal.opens_at_us, stiles)
        if live[refusal.held_by]:
            verdict.full[refusal.held_by] = live[refusal.held_by]


def _live_after(verdict: Verdict, stiles: Mapping[Passage, Stile]) -> Counter[Passage]:
    """What is live of each limit when this round has started its jobs."""
    live = Counter({name: stile.live for name, stile in stiles.items() if stile.live})
    for _, slots in verdict.starts:
        for slot in slots:
            live[Passage(slot.limit, slot.key)] += slot.weight
    return live


def _counts(slot: Slot, stiles: Mapping[Passage, Stile]) -> bool:
    """Whether a running job takes something of the slot's turnstile for as long as it runs."""
    stile = stiles.get(Passage(slot.limit, slot.key))
    return stile is not None and isinstance(stile.rule, Concurrency)


class _Breakers:
    """The breakers on the way, while jobs pass through them."""

    def __init__(self, stiles: Mapping[Passage, Stile], now_us: int) -> None:
        self._now_us = now_us
        self._rules = {name: stile.rule for name, stile in stiles.items() if isinstance(stile.rule, Breaker)}
        self._states = {name: stiles[name].breaker for name in self._rules}
        self.changed: dict[Passage, BreakerState] = {}
        self.probes: set[JobId] = set()

    def holds(self, slots: Sequence[Slot]) -> tuple[Passage, int] | None:
        """Return the breaker that lets nothing through now, and until when."""
        for passage in self._on_the_way(slots):
            opens_at_us = self._states[passage].opens_at_us(self._now_us)
            if opens_at_us is not None:
                return passage, opens_at_us
        return None

    def start(self, job_id: JobId, slots: Sequence[Slot]) -> bool:
        """Let a job through if all of them do. Through a half-open one goes a single probe."""
        if self.holds(slots) is not None:
            return False
        for passage in self._on_the_way(slots):
            state = start_breaker(self._rules[passage], self._states[passage], job_id, self._now_us)
            if state is not None and state is not self._states[passage]:
                self._states[passage] = self.changed[passage] = state
                self.probes.add(job_id)
        return True

    def _on_the_way(self, slots: Sequence[Slot]) -> list[Passage]:
        return [one for slot in slots if (one := Passage(slot.limit, slot.key)) in self._rules] if self._rules else []


def _fitting(
    wanting: Sequence[tuple[Applicant, tuple[Slot, ...]]], reach: Reach
) -> Sequence[tuple[Applicant, tuple[Slot, ...]]]:
    """Those whose needs the worker can meet together; the others stay where they are."""
    needs = [applicant.flow.needs if applicant.flow else "" for applicant, _ in wanting]
    if not any(needs):
        return wanting
    fits = take_in_order(reach.offer, needs)
    return [one for one, does in zip(wanting, fits, strict=True) if does]


def _left_out(
    admission: Admission,
    by_id: Mapping[JobId, Wanting],
    asked: Asked,
    broken: _Breakers,
    stiles: Mapping[Passage, Stile],
) -> set[JobId]:
    """Who was let through beyond what the worker has room for, or after a breaker's probe.

    A worker may ask for more than it has free slots. Jobs with a flow are among that only where it takes nothing from
    others: while each of their limits stays half empty, and if they have no rate or needs.
    """
    left_out: set[JobId] = set()
    taken: Counter[Passage] = Counter()
    started = guarded = 0
    for job_id in admission.admitted:
        applicant, slots = by_id[job_id]
        flow = applicant.flow
        is_early = flow is not None and guarded >= asked.reach.slots
        if (
            started >= asked.room
            or (is_early and (flow is None or flow.needs or not _is_roomy(slots, taken, stiles)))
            or not broken.start(job_id, slots)
        ):
            left_out.add(job_id)
            continue
        started, guarded = started + 1, guarded + (flow is not None)
        for slot in slots:
            taken[Passage(slot.limit, slot.key)] += slot.weight
    return left_out


def _is_roomy(slots: Sequence[Slot], taken: Mapping[Passage, int], stiles: Mapping[Passage, Stile]) -> bool:
    for slot in slots:
        passage = Passage(slot.limit, slot.key)
        rule = stiles[passage].rule if passage in stiles else None
        if rule is None:
            continue
        if not isinstance(rule, Concurrency):
            return False
        if 2 * (stiles[passage].live + taken[passage] + slot.weight) > rule.capacity:
            return False
    return True


def _park(
    verdict: Verdict, applicant: Applicant, held_by: Passage, opens_at_us: int | None, stiles: Mapping[Passage, Stile]
) -> None:
    """Put a job aside. The first of a sequence that something else holds leaves a marker: nobody passes it by."""
    lane = held_lane(held_by, applicant.home)
    if lane != applicant.lane:
        verdict.parks.append((applicant, lane))
    known = verdict.opens.get(held_by, opens_at_us)
    verdict.opens[held_by] = None if known is None or opens_at_us is None else min(known, opens_at_us)
    for slot in applicant.flow.slots if applicant.flow is not None and applicant.flow.sequence else ():
        passage = Passage(slot.limit, slot.key)
        rule = stiles[passage].rule if passage in stiles else None
        if passage != held_by and isinstance(rule, Concurrency) and rule.in_order:
            verdict.states[passage] = (applicant.run_at_us, applicant.job_id)


def _keep_open(verdict: Verdict, now_us: int, picked: Mapping[Passage, int], stiles: Mapping[Passage, Stile]) -> None:
    """Turnstiles that were open stay so while they hold more than was picked; an empty one closes."""
    gone = Counter(_lane(one).held_by for one, _ in [*verdict.starts, *verdict.parks, *verdict.diverts])
    for passage in picked:
        if passage in verdict.opens or passage not in stiles:
            continue
        if stiles[passage].waiting > gone[passage]:
            verdict.opens[passage] = now_us
        else:
            verdict.emptied.add(passage)


def _passes_on(verdict: Verdict, gate: Gate) -> None:
    verdict.passed_on[gate.name] = verdict.passed_on.get(gate.name, 0) + 1


def _facts(applicant: Applicant) -> JobFacts:
    flow = applicant.flow or Flow()
    return JobFacts(applicant.task, applicant.queue, flow.tenant, applicant.collection, applicant.labels, flow.diverted)


def _lane(applicant: Applicant) -> Lane:
    return read_lane(applicant.lane)


def _earliest(instants: Sequence[int], other: int | None) -> int | None:
    return min([*instants, *([] if other is None else [other])], default=None)
