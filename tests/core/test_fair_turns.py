"""Turns between tenants: shares follow the weights, no tenant starves, no tenant saves up turns."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tickwork.core.fairness import TenantTurns, TurnPlan, read_weight, take_turns
from tickwork.errors import InvalidOption

weights = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 16), min_size=1)


class Line:
    """Tenants with endless work, which remembers positions between claims as the store does."""

    def __init__(self, weights: dict[str, int]) -> None:
        self.weights = weights
        self.positions: dict[str, int] = {}
        self.clock = 0
        self.got: Counter[str] = Counter()

    def take(self, count: int, waiting: dict[str, int] | None = None) -> TurnPlan:
        tenants = [
            TenantTurns(name, 10**6 if waiting is None else waiting.get(name, 0), weight, self.positions.get(name, 0))
            for name, weight in self.weights.items()
        ]
        turns = take_turns(tenants, count, self.clock)
        self.positions |= turns.positions
        self.clock = turns.clock
        self.got.update(turns.counts)
        return turns


def test_turns_go_round_by_weight() -> None:
    turns = take_turns([TenantTurns("a", 100), TenantTurns("b", 100, weight=3)], 8)
    assert turns.counts == {"a": 2, "b": 6}


def test_a_tenant_with_very_many_jobs_is_one_tenant() -> None:
    assert take_turns([TenantTurns("big", 100_000), TenantTurns("small", 3)], 10).counts == {"big": 7, "small": 3}
    assert take_turns([TenantTurns("big", 100_000), TenantTurns("small", 1)], 2).counts == {"big": 1, "small": 1}


def test_one_who_was_away_starts_where_the_others_are() -> None:
    line = Line({"a": 1, "b": 1})
    line.take(1000, {"a": 10**6})
    assert line.take(10).counts == {"a": 5, "b": 5}


def test_a_backlog_of_100_000_jobs_delays_no_tenant_that_keeps_to_a_fair_share() -> None:
    """Ten claims of five jobs a second; four tenants with two jobs a second each start theirs at the next claim."""
    line = Line(dict.fromkeys(["big", "a", "b", "c", "d"], 1))
    left = 100_000
    for claim in range(2000):
        coming = {name: 1 for place, name in enumerate("abcd") if claim % 5 == place}
        turns = line.take(5, {"big": left, **coming})
        left -= turns.counts["big"]
        assert all(turns.counts[name] == 1 for name in coming)
    assert left == 100_000 - 2000 * 5 + 4 * 400


def test_no_more_turns_than_jobs() -> None:
    assert take_turns([TenantTurns("a", 2), TenantTurns("b", 0), TenantTurns("c", 1)], 100).counts == {"a": 2, "c": 1}
    assert take_turns([], 5, clock=7) == TurnPlan({}, {}, 7)
    assert take_turns([TenantTurns("a", 2)], 0, clock=7) == TurnPlan({}, {}, 7)


@given(weights, st.lists(st.integers(1, 30), min_size=1, max_size=20))
def test_shares_are_as_the_weights_to_within_one_job(weighted: dict[str, int], claims: list[int]) -> None:
    line = Line(weighted)
    for count in claims:
        line.take(count)
    assert sum(line.got.values()) == sum(claims)
    for one, other in combinations(weighted, 2):
        ahead = abs(line.got[one] / weighted[one] - line.got[other] / weighted[other])
        assert ahead <= max(1 / weighted[one], 1 / weighted[other]) + 1e-9


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 100), min_size=2),
    st.lists(st.tuples(st.integers(1, 9), st.sets(st.sampled_from("abcdef"))), min_size=1, max_size=30),
)
@settings(max_examples=200)
def test_no_tenant_waits_longer_than_a_round_whichever_come_and_go(
    weighted: dict[str, int], claims: list[tuple[int, set[str]]]
) -> None:
    """While the first tenant waits, each of the others gets at most what its weight allows in one of its turns."""
    line = Line(weighted)
    patient = min(weighted)
    since: Counter[str] = Counter()
    for count, present in claims:
        turns = line.take(count, dict.fromkeys({*present, patient}, 10**6))
        since = Counter() if patient in turns.counts else since + Counter(turns.counts)
        for name, got in since.items():
            assert got <= -(-weighted[name] // weighted[patient]) + 2
    assert all(position <= line.clock + 720_720 for position in line.positions.values())


@given(
    st.lists(
        st.builds(TenantTurns, st.sampled_from("abcdef"), st.integers(0, 9), st.integers(1, 9), st.integers(0, 10**7)),
        unique_by=lambda tenant: tenant.name,
    ),
    st.integers(0, 30),
    st.integers(0, 10**7),
    st.randoms(use_true_random=False),
)
def test_the_order_of_tenants_does_not_matter_and_two_claims_are_as_one(
    tenants: list[TenantTurns], count: int, clock: int, rng: Any
) -> None:
    turns = take_turns(tenants, count, clock)
    shuffled = tenants[:]
    rng.shuffle(shuffled)
    assert take_turns(shuffled, count, clock) == turns
    assert turns.clock >= clock
    assert sum(turns.counts.values()) == min(count, sum(tenant.waiting for tenant in tenants))
    first = take_turns(tenants, count // 2, clock)
    left = [
        TenantTurns(t.name, t.waiting - first.counts.get(t.name, 0), t.weight, first.positions.get(t.name, t.position))
        for t in tenants
    ]
    second = take_turns(left, count - count // 2, first.clock)
    assert Counter(first.counts) + Counter(second.counts) == Counter(turns.counts)
    assert second.clock == turns.clock


@given(weights, st.integers(1, 200))
def test_a_tenant_that_joins_does_not_get_more_than_its_share_for_having_been_away(
    weighted: dict[str, int], away: int
) -> None:
    line = Line({**weighted, "new": 1})
    line.take(away, dict.fromkeys(weighted, 10**6))
    line.got.clear()
    total = sum(weighted.values()) + 1
    line.take(10 * total)
    assert abs(line.got["new"] - 10) <= 2


@pytest.mark.parametrize("weight", [0, 101, 1.5, True, "3"])
def test_other_weights_are_refused(weight: object) -> None:
    with pytest.raises(InvalidOption, match="the weight of a tenant must be a whole number from 1 to 100"):
        read_weight(weight)


@given(weights, st.integers(1, 100), st.data())
def test_a_claim_with_room_for_the_first_turns_takes_just_these(
    weights: dict[str, int], count: int, data: st.DataObject
) -> None:
    """A claim asks for more turns than it has room for, and starts the first of them; the rest was never taken."""
    positions = {name: data.draw(st.integers(0, 10**6)) for name in weights}
    line = [TenantTurns(name, 10**6, weight, positions[name]) for name, weight in weights.items()]
    order = take_turns(line, count).order
    assert len(order) == count
    room = data.draw(st.integers(1, count))
    started = Counter(order[:room])
    taken = take_turns([replace(tenant, waiting=started[tenant.name]) for tenant in line], room)
    assert taken == take_turns(line, room)
