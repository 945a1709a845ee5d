"""Admission: told case by case, against a reference that knows nothing of arrivals, and counted from outside."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tickwork.core.ids import JobId
from tickwork.core.limits.admit import Admission, AdmitRequest, LimitSnapshot, Refusal, admit
from tickwork.core.limits.job_limits import LimitKey, LimitUse
from tickwork.core.limits.limits import Bound, Concurrency, Rate, concurrency, rate, sequence

SECOND = 1_000_000
NOW = 1_800_000_000 * SECOND


def job(name: str, *slots: LimitUse, run_at_us: int = 0) -> AdmitRequest:
    return AdmitRequest(JobId(name), slots, run_at_us)


def at(limit: str, key: str = "", weight: int = 1) -> LimitUse:
    return LimitUse(limit, key, weight)


def told(admission: Admission) -> tuple[str, dict[str, str]]:
    """Return the admitted jobs, and the limits that hold the others."""
    return "".join(admission.admitted), {refusal.id: refusal.held_by.limit for refusal in admission.refused}


def test_jobs_pass_as_far_as_there_is_room_under_their_key() -> None:
    limit_snapshots = {
        LimitKey("two", "a"): LimitSnapshot(concurrency(2), live=1),
        LimitKey("two", "b"): LimitSnapshot(concurrency(2)),
    }
    jobs = [job("1", at("two", "a")), job("2", at("two", "a")), job("3", at("two", "b")), job("4")]
    assert told(admit(jobs, limit_snapshots, NOW)) == ("134", {"2": "two"})
    assert limit_snapshots[LimitKey("two", "a")].room(NOW) == 1


def test_a_limit_that_was_lowered_below_what_runs_admits_no_job_until_it_has_room() -> None:
    full = {LimitKey("two", ""): LimitSnapshot(concurrency(2), live=5)}
    assert admit([job("1", at("two"))], full, NOW).refused == (Refusal(JobId("1"), LimitKey("two", ""), None),)
    assert full[LimitKey("two", "")].room(NOW) == 0


def test_a_limit_that_is_not_there_any_more_holds_no_job() -> None:
    assert told(admit([job("1", at("gone"))], {}, NOW)) == ("1", {})


def test_a_job_takes_all_of_its_limits_or_none() -> None:
    limit_snapshots = {
        LimitKey("free", ""): LimitSnapshot(concurrency(1)),
        LimitKey("full", ""): LimitSnapshot(concurrency(1), live=1),
        LimitKey("paced", ""): LimitSnapshot(rate("10/s", burst=0)),
    }
    jobs = [job("1", at("free"), at("paced"), at("full")), job("2", at("free"), at("paced"))]
    admission = admit(jobs, limit_snapshots, NOW)
    assert told(admission) == ("2", {"1": "full"})
    assert admission.arrivals == {LimitKey("paced", ""): NOW + SECOND // 10}


def test_two_uses_of_one_limit_key_are_counted_together() -> None:
    limit_snapshots = {LimitKey("two", ""): LimitSnapshot(concurrency(2), live=1)}
    assert told(admit([job("1", at("two"), at("two"))], limit_snapshots, NOW)) == ("", {"1": "two"})


def test_a_job_waits_at_what_holds_it_longest() -> None:
    limit_snapshots = {
        LimitKey("soon", ""): LimitSnapshot(rate("10/s", burst=0), arrival_us=NOW + 10),
        LimitKey("late", ""): LimitSnapshot(rate("10/s", burst=0), arrival_us=NOW + 99),
        LimitKey("full", ""): LimitSnapshot(concurrency(1), live=1),
    }
    jobs = [job("1", at("late"), at("soon")), job("2", at("full"), at("late")), job("3", at("full", "", 2), at("late"))]
    refused = {str(refusal.id): refusal for refusal in admit(jobs, limit_snapshots, NOW).refused}
    assert (refused["1"].held_by.limit, refused["1"].opens_at_us) == ("late", NOW + 99)
    assert (refused["2"].held_by.limit, refused["2"].opens_at_us) == ("full", None)
    assert (refused["3"].held_by.limit, refused["3"].never) == ("full", True)


def test_light_jobs_do_not_keep_a_heavy_one_out() -> None:
    three = {LimitKey("three", ""): LimitSnapshot(concurrency(3), live=1)}
    assert told(admit([job("H", at("three", "", 3)), job("l", at("three"))], three, NOW)) == (
        "",
        {"H": "three", "l": "three"},
    )
    paced = {LimitKey("paced", ""): LimitSnapshot(rate("10/s", burst=2), arrival_us=NOW + SECOND // 10)}
    admission = admit([job("H", at("paced", "", 3)), job("l", at("paced"))], paced, NOW)
    assert [refusal.opens_at_us for refusal in admission.refused] == [NOW + SECOND // 10, NOW + SECOND // 10]


def test_a_job_that_can_never_start_blocks_no_job() -> None:
    limit_snapshots = {LimitKey("two", ""): LimitSnapshot(concurrency(2))}
    admission = admit([job("H", at("two", "", 3)), job("l", at("two"))], limit_snapshots, NOW)
    assert admission.admitted == ("l",)
    assert admission.refused[0].never


def test_a_job_that_waits_elsewhere_blocks_no_job_here() -> None:
    limit_snapshots = {
        LimitKey("full", ""): LimitSnapshot(concurrency(1), live=1),
        LimitKey("three", ""): LimitSnapshot(concurrency(3), live=1),
    }
    jobs = [job("H", at("full"), at("three", "", 3)), job("l", at("three"))]
    assert told(admit(jobs, limit_snapshots, NOW)) == ("l", {"H": "full"})


def test_a_sequence_goes_by_time_and_not_by_priority() -> None:
    line = {LimitKey("line", "a"): LimitSnapshot(sequence("account"))}
    urgent, first, second = (
        job("urgent", at("line", "a"), run_at_us=30),
        job("first", at("line", "a"), run_at_us=10),
        job("second", at("line", "a"), run_at_us=20),
    )
    admission = admit([urgent, first, second], line, NOW)
    assert admission.admitted == ("first",)
    assert [refusal.id for refusal in admission.refused] == ["urgent", "second"]


def test_a_sequence_waits_for_its_first_also_when_that_is_parked_elsewhere() -> None:
    line = {LimitKey("line", "a"): LimitSnapshot(sequence("account"), first=(5, JobId("parked")))}
    assert told(admit([job("next", at("line", "a"), run_at_us=10)], line, NOW)) == ("", {"next": "line"})
    assert told(admit([job("parked", at("line", "a"), run_at_us=5)], line, NOW)) == ("parked", {})


def test_a_job_of_a_sequence_that_came_back_goes_before_all_others() -> None:
    line = {LimitKey("line", "a"): LimitSnapshot(sequence("account"), first=(5, JobId("second")), head=JobId("back"))}
    second, back = job("second", at("line", "a"), run_at_us=5), job("back", at("line", "a"), run_at_us=90)
    assert told(admit([second], line, NOW)) == ("", {"second": "line"})
    assert told(admit([second, back], line, NOW)) == ("back", {"second": "line"})


def test_a_rate_lets_a_burst_through_and_then_keeps_its_pace() -> None:
    limit_key, paced = LimitKey("paced", ""), rate("10/s", burst=2)
    limit_snapshot = LimitSnapshot(paced)
    admission = admit([job(name, at("paced")) for name in "12345"], {limit_key: limit_snapshot}, NOW)
    assert told(admission) == ("123", {"4": "paced", "5": "paced"})
    assert [refusal.opens_at_us for refusal in admission.refused] == [NOW + 100_000, NOW + 100_000]
    later = LimitSnapshot(paced, arrival_us=admission.arrivals[limit_key])
    assert [later.room(NOW + us) for us in (0, 99_999, 100_000, 250_000, SECOND)] == [0, 0, 1, 2, 3]


@pytest.mark.parametrize("set_back_us", [0, 3600 * SECOND])
def test_no_job_waits_for_a_pace_that_was_raised_or_a_clock_that_was_set_back(set_back_us: int) -> None:
    limit_key, wanted = LimitKey("paced", ""), [job("1", at("paced"))]
    slow = admit(wanted, {limit_key: LimitSnapshot(rate("1/h"))}, NOW).arrivals[limit_key]
    now_us = NOW - set_back_us
    raised = admit(wanted, {limit_key: LimitSnapshot(rate("10/s", burst=2), arrival_us=slow)}, now_us)
    assert raised.refused[0].opens_at_us == now_us + SECOND // 10
    assert raised.arrivals == {limit_key: now_us + 3 * SECOND // 10}
    then = LimitSnapshot(rate("10/s", burst=2), arrival_us=raised.arrivals[limit_key])
    assert admit(wanted, {limit_key: then}, now_us + SECOND // 10).admitted


# ---- random claims against a reference ------------------------------------------------------------------------------


@dataclass
class Bucket:
    """The reference for a rate, a token bucket: a burst at once, and one more start every interval."""

    bound: Rate
    tokens: Fraction
    since_us: int

    def refill(self, now_us: int) -> None:
        gained = Fraction(now_us - self.since_us, self.bound.interval_us)
        self.tokens = min(Fraction(self.bound.burst + 1), self.tokens + gained)
        self.since_us = now_us


@dataclass
class World:
    """A store with limits, which admits by the reference and by `admit`, and lets jobs start and end."""

    bounds: dict[str, Bound]
    running: dict[str, AdmitRequest] = field(default_factory=dict)
    starts: list[tuple[int, AdmitRequest]] = field(default_factory=list)
    arrivals: dict[LimitKey, int] = field(default_factory=dict)
    buckets: dict[LimitKey, Bucket] = field(default_factory=dict)

    def live(self, limit_key: LimitKey) -> int:
        return sum(
            slot.weight for held in self.running.values() for slot in held.uses if (slot.limit, slot.key) == limit_key
        )

    def limit_snapshots(self, candidates: list[AdmitRequest]) -> dict[LimitKey, LimitSnapshot]:
        names = {LimitKey(slot.limit, slot.key) for candidate in candidates for slot in candidate.uses}
        return {
            name: LimitSnapshot(self.bounds[name.limit], self.live(name), self.arrivals.get(name, 0)) for name in names
        }

    def expected(self, candidates: list[AdmitRequest], now_us: int) -> list[str]:
        """Admit one after the other by what runs and by tokens; a limit_snapshot at which one waits is closed."""
        admitted: list[str] = []
        taken: dict[LimitKey, int] = {}
        closed: set[LimitKey] = set()
        for candidate in candidates:
            wanted = {LimitKey(slot.limit, slot.key): slot.weight for slot in candidate.uses}
            full = [name for name, weight in wanted.items() if weight + taken.get(name, 0) > self.room(name, now_us)]
            held = [name for name in wanted if name in closed or name in full]
            if held:
                if all(weight <= self.bounds[name.limit].heaviest for name, weight in wanted.items()):
                    # It waits at the one limit of concurrency, which knows no time at which it opens, or at the rate.
                    closed.add(
                        next((name for name in held if isinstance(self.bounds[name.limit], Concurrency)), held[0])
                    )
                continue
            admitted.append(candidate.id)
            for name, weight in wanted.items():
                taken[name] = taken.get(name, 0) + weight
        return admitted

    def room(self, name: LimitKey, now_us: int) -> Fraction:
        bound = self.bounds[name.limit]
        if isinstance(bound, Concurrency):
            return Fraction(bound.capacity - self.live(name))
        bucket = self.buckets.setdefault(name, Bucket(bound, Fraction(bound.burst + 1), now_us))
        bucket.refill(now_us)
        return bucket.tokens

    def claim(self, candidates: list[AdmitRequest], now_us: int) -> Admission:
        admission = admit(candidates, self.limit_snapshots(candidates), now_us)
        self.arrivals |= admission.arrivals
        for candidate in candidates:
            if candidate.id in admission.admitted:
                self.start(candidate, now_us)
        return admission

    def start(self, candidate: AdmitRequest, now_us: int) -> None:
        self.running[candidate.id] = candidate
        self.starts.append((now_us, candidate))
        for slot in candidate.uses:
            name = LimitKey(slot.limit, slot.key)
            if isinstance(self.bounds[slot.limit], Rate):
                self.room(name, now_us)
                self.buckets[name].tokens -= slot.weight


BOUNDS = st.fixed_dictionaries(
    {
        "many": st.integers(1, 4).map(concurrency),
        "few": st.integers(1, 2).map(concurrency),
        "paced": st.builds(lambda n, burst: rate(f"{n}/s", burst=burst), st.integers(1, 30), st.integers(0, 5)),
    }
)
SLOTS = st.lists(
    st.builds(
        LimitUse, st.sampled_from(["many", "few", "paced"]), st.sampled_from("ab"), st.sampled_from([1, 1, 1, 2, 3])
    ),
    max_size=3,
    unique_by=lambda slot: slot.limit,
).map(tuple)
CLAIMS = st.lists(
    st.tuples(st.integers(0, SECOND // 2), st.lists(SLOTS, max_size=6), st.integers(0, 5)), min_size=1, max_size=15
)


@given(BOUNDS, CLAIMS)
@settings(max_examples=300)
def test_random_claims_admit_what_the_reference_admits_and_never_more(
    bounds: dict[str, Bound], claims: list[tuple[int, list[tuple[LimitUse, ...]], int]]
) -> None:
    world = World(bounds)
    now_us = NOW
    for number, (wait_us, wanted, ends) in enumerate(claims):
        now_us += wait_us
        for name in list(world.running)[:ends]:
            del world.running[name]
        candidates = [job(f"{number}.{place}", *slots) for place, slots in enumerate(wanted)]
        expected = world.expected(candidates, now_us)
        admission = world.claim(candidates, now_us)
        assert list(admission.admitted) == expected
        assert {*admission.admitted, *(refusal.id for refusal in admission.refused)} == {job.id for job in candidates}
        for limit, bound in bounds.items():
            if isinstance(bound, Concurrency):
                assert all(world.live(LimitKey(limit, key)) <= bound.capacity for key in "ab")


@given(
    st.integers(1, 40),
    st.sampled_from(["s", "7s", "m"]),
    st.integers(0, 6),
    st.lists(st.tuples(st.integers(0, 400_000), st.lists(st.integers(1, 7), max_size=8)), min_size=1, max_size=60),
)
@settings(max_examples=200)
def test_no_sliding_window_holds_more_than_the_rate_and_its_burst(
    count: int, period: str, burst: int, claims: list[tuple[int, list[int]]]
) -> None:
    bound = rate(f"{count}/{period}", burst=burst)
    window_us = round(bound.period.total_seconds() * SECOND)
    world = World({"paced": bound})
    now_us = NOW
    for number, (wait_us, weights) in enumerate(claims):
        now_us += wait_us
        world.claim([job(f"{number}.{n}", at("paced", "", weight)) for n, weight in enumerate(weights)], now_us)
    started = [(us, candidate.uses[0].weight) for us, candidate in world.starts]
    for begin_us, _ in started:
        assert sum(weight for us, weight in started if begin_us <= us < begin_us + window_us) <= count + burst


@given(st.integers(1, 50), st.integers(0, 5), st.integers(1, 6), st.floats(-1, 1))
def test_a_refused_job_is_let_through_at_the_instant_it_was_told_and_not_before(
    count: int, burst: int, weight: int, ahead: float
) -> None:
    bound, limit_key = rate(f"{count}/s", burst=burst), LimitKey("paced", "")
    ahead_us = round(ahead * (burst + 1) * bound.interval_us)
    limit_snapshot = {limit_key: LimitSnapshot(bound, arrival_us=NOW + ahead_us)}
    wanted = [job("1", at("paced", "", weight))]
    admission = admit(wanted, limit_snapshot, NOW)
    if weight > burst + 1:
        assert admission.refused[0].never
    elif not admission.admitted:
        opens_at_us = admission.refused[0].opens_at_us
        assert opens_at_us is not None
        assert opens_at_us > NOW
        assert not admit(wanted, limit_snapshot, opens_at_us - 1).admitted
        assert admit(wanted, limit_snapshot, opens_at_us).admitted
    assert (limit_snapshot[limit_key].room(NOW) >= weight) == bool(admission.admitted)


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from("ab")), max_size=30), st.randoms(use_true_random=False))
def test_a_sequence_keeps_its_order_whatever_order_it_is_claimed_in(jobs: list[tuple[int, str]], rng: object) -> None:
    waiting = [job(f"{place:02d}", at("line", key), run_at_us=us) for place, (us, key) in enumerate(jobs)]
    done: dict[str, list[tuple[int, JobId]]] = {"a": [], "b": []}
    for _ in range(len(waiting)):
        seen = waiting[:]
        rng.shuffle(seen)  # type: ignore[attr-defined]
        limit_snapshots = {
            LimitKey("line", key): LimitSnapshot(
                sequence("x"), first=min(((j.run_at_us, j.id) for j in waiting if j.uses[0].key == key), default=None)
            )
            for key in "ab"
        }
        admitted = admit(seen[: 1 + len(seen) // 2], limit_snapshots, NOW).admitted
        for started in [candidate for candidate in waiting if candidate.id in admitted]:
            done[started.uses[0].key].append((started.run_at_us, started.id))
            waiting.remove(started)
    assert all(line == sorted(line) for line in done.values())
