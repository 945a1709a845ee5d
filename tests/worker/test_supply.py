"""When a worker searches instead of claiming, and how soon again."""

from __future__ import annotations

from tickwork.worker.supply import EACH_S, LONG_S, SHARE, Supply

LONG = 2 * LONG_S


def claimed(supply: Supply, took_s: float, found: int = 0, moved: int = 0, *, is_near: bool = False) -> Supply:
    supply.claimed(100.0, 100.0 + took_s, found, moved, is_near=is_near)
    return supply


def test_a_claim_that_takes_long_for_what_it_brings_is_followed_by_a_search() -> None:
    assert claimed(Supply(), LONG).searches
    assert claimed(Supply(), LONG, found=1, moved=1).searches


def test_a_claim_that_moves_much_may_take_longer() -> None:
    moved = round(2 * LONG_S / EACH_S)
    assert not claimed(Supply(), LONG, found=moved, moved=moved).searches
    assert not claimed(Supply(), LONG, found=0, moved=moved).searches


def test_a_search_goes_on_until_there_is_no_need_for_it() -> None:
    supply = claimed(Supply(), LONG)
    assert claimed(supply, LONG_S / 10).searches
    assert claimed(supply, LONG_S / 10, found=5, moved=5).searches
    assert not claimed(supply, LONG_S / 10, is_near=True).searches


def test_what_was_searched_in_vain_is_searched_in_a_part_of_the_time() -> None:
    supply = claimed(Supply(), LONG)
    assert claimed(supply, 0.25).again_at == 100.25 + 0.25 * SHARE
    assert claimed(supply, 0.25, found=1, moved=1).again_at == 0.0


def test_short_claims_in_vain_are_repeated_whenever_somebody_calls() -> None:
    assert claimed(Supply(), LONG_S / 2).again_at == 0.0


def test_a_task_of_its_own_is_not_looked_for_all_the_time() -> None:
    assert claimed(Supply(scarce=True), LONG_S / 2).again_at > 100.0
