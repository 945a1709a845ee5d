"""Which worker is the home of a key: everybody finds the same one, and few keys move when workers come and go."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.limits.job_limits import JobLimits
from tickwork.core.limits.lanes import home_lane, read_lane
from tickwork.core.placement import (
    GROUPS,
    SPOTS,
    ClaimingWorker,
    ClaimingWorkers,
    Offer,
    group_of,
    home_of,
    read_needs,
    read_offer,
    spot_of,
)

names = st.sets(st.text("abcdef0123456789-", min_size=1, max_size=12), min_size=1, max_size=8)


def test_the_spot_of_a_key_is_the_same_in_every_process_and_release() -> None:
    assert [spot_of(key) for key in ("acme", "7", "", "null", "\udcff")] == [641, 898, 692, 622, 674]


def test_keys_have_spots_all_over() -> None:
    found = Counter(spot_of(f"account-{n}") for n in range(64_000))
    assert set(found) == set(range(SPOTS))
    assert 20 < min(found.values()) <= max(found.values()) < 120
    groups = Counter({group: sum(found[spot] for spot in found if group_of(spot) == group) for group in range(GROUPS)})
    assert 1_800 < min(groups.values()) <= max(groups.values()) < 2_200


def test_homes_are_spread_over_the_workers() -> None:
    workers = [f"worker-{n}" for n in range(4)]
    found = Counter(home_of(group, workers) for group in range(GROUPS))
    assert set(found) == set(workers)
    assert max(found.values()) <= GROUPS // 2


@given(names, st.text("xyz", min_size=1, max_size=3))
def test_who_comes_takes_spots_from_others_and_moves_none_between_them(before: set[str], newcomer: str) -> None:
    for group in range(GROUPS):
        assert home_of(group, {*before, newcomer}) in (newcomer, home_of(group, before))


@given(names)
def test_the_home_does_not_depend_on_the_order_in_which_workers_are_known(workers: set[str]) -> None:
    for group in range(GROUPS):
        assert home_of(group, sorted(workers)) == home_of(group, sorted(workers, reverse=True))


def test_there_is_no_home_without_workers() -> None:
    assert home_of(3, []) is None


@given(
    st.builds(
        JobLimits,
        tenant=st.none() | st.text("ab@|:!", min_size=1, max_size=5),
        needs=st.sampled_from(["", "gpu", "cpu=2 gpu mem=8000000000"]),
        sequence=st.booleans(),
        spot=st.none() | st.integers(0, SPOTS - 1),
    )
)
def test_a_lane_tells_where_its_jobs_stick_unless_order_counts(job_limits: JobLimits) -> None:
    lane = read_lane(home_lane("mail", job_limits))
    assert (lane.queue, lane.needs, lane.tenant, lane.in_order) == (
        "mail",
        job_limits.needs,
        job_limits.tenant or "",
        job_limits.sequence,
    )
    assert lane.group == (None if job_limits.spot is None or job_limits.sequence else group_of(job_limits.spot))


def test_a_home_serves_the_queue_and_has_what_is_needed() -> None:
    gpu = read_needs({"gpu": True}).text
    here = ClaimingWorkers(
        [
            ClaimingWorker("plain", ("default",), Offer()),
            ClaimingWorker("equipped", ("default",), read_offer(["gpu"])),
            ClaimingWorker("elsewhere", ("mail",), read_offer(["gpu"])),
        ]
    )
    assert {here.home(group, "default", gpu) for group in range(GROUPS)} == {"equipped"}
    assert {here.home(group, "mail", "") for group in range(GROUPS)} == {"elsewhere"}
    assert {here.home(group, "bulk", "") for group in range(GROUPS)} == {None}
    assert {here.home(group, "default", "") for group in range(GROUPS)} == {"plain", "equipped"}


def test_who_is_no_neighbour_leaves_nothing_to_others() -> None:
    here = ClaimingWorkers([ClaimingWorker("one", ("default",), Offer()), ClaimingWorker("two", ("default",), Offer())])
    for group in range(GROUPS):
        assert not here.is_anothers("server", group, "default", "")
        assert here.is_anothers("one", group, "default", "") != here.is_anothers("two", group, "default", "")
