"""Needs and offers: what they may be, what fits, and what fits best."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.placement import (
    Needs,
    Offer,
    amount_of,
    free,
    needs_of,
    read_needs,
    read_offer,
    servable,
    take_in_order,
    taken_of,
)
from tickwork.errors import InvalidOption

GPU_BOX = read_offer(["gpu", "region:eu"], "mem=16GB,cpu=4")
PLAIN = read_offer([], "mem=4GB,cpu=2")

names = st.sampled_from(["gpu", "cpu", "cpu-big", "mem", "disk", "region:eu"])
amounts = st.integers(1, 8) | st.sampled_from([0.5, 1.25, "8GB", "512MiB", "2"])
needs = st.dictionaries(names, st.just(True) | amounts, max_size=4).map(read_needs)
offers = st.builds(read_offer, st.sets(names), st.dictionaries(names, amounts))


@pytest.mark.parametrize(
    ("value", "thousandths"),
    [
        (2, 2_000),
        (0.5, 500),
        ("2", 2_000),
        ("8GB", 8 * 10**12),
        ("8 GB", 8 * 10**12),
        ("8G", 8 * 10**12),
        ("8GiB", 8 * 2**30 * 1000),
        ("1.5kB", 1_500_000),
        ("512MiB", 512 * 2**20 * 1000),
        ("1TB", 10**15),
        ("100B", 100_000),
    ],
)
def test_amounts_are_read_as_people_write_them(value: Any, thousandths: int) -> None:
    assert amount_of("mem", value) == thousandths


@pytest.mark.parametrize(
    "value", ["", "much", "8 apples", "8GBB", "-1", "0.0001", "1,5GB", None, False, True, [2], 1e-7]
)
def test_other_amounts_are_refused(value: Any) -> None:
    with pytest.raises(InvalidOption, match=r"mem: .* is not an amount; say a number such as 2 or 0\.5, or '8GB'"):
        amount_of("mem", value)


@pytest.mark.parametrize("value", [0, "0GB", "9999999PB"])
def test_amounts_of_nothing_or_of_too_much_are_refused(value: Any) -> None:
    with pytest.raises(InvalidOption, match=r"mem: .* is not from 0\.001 to"):
        amount_of("mem", value)


def test_needs_have_one_text() -> None:
    text = read_needs({"mem": "8GB", "gpu": True, "cpu": 0.5}).text
    assert text == "cpu=0.5 gpu mem=8000000000"
    assert read_needs({"cpu": "0.5", "gpu": True, "mem": "8000MB"}).text == text
    assert read_needs({}).text == ""


@given(needs)
def test_needs_come_back_from_their_text(some: Needs) -> None:
    assert needs_of(some.text) == some
    assert needs_of(some.text).text == some.text


@pytest.mark.parametrize(
    ("given_needs", "message"),
    [
        ("gpu", 'needs must be a dict such as {"gpu": True, "mem": "8GB"}, not \'gpu\''),
        ({"gpu": False}, "gpu: False is not an amount"),
        ({"the gpu": True}, "needs: 'the gpu' is no name"),
        ({"a=b": True}, "needs: 'a=b' is no name"),
        ({1: True}, "needs: 1 is no name"),
        ({f"n{number}": True for number in range(17)}, "a job may need 16 things, not 17"),
    ],
)
def test_other_needs_are_refused(given_needs: Any, message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        read_needs(given_needs)


def test_offers_that_say_nothing_are_refused() -> None:
    with pytest.raises(InvalidOption, match="mem: '' is not an amount"):
        read_offer([], "mem")
    with pytest.raises(InvalidOption, match="a label: 'a b' is no name"):
        read_offer(["a b"])


def test_a_thing_is_a_label_that_jobs_share_or_else_one_of_a_resource() -> None:
    gpu = read_needs({"gpu": True})
    assert taken_of(GPU_BOX, gpu) == {}
    one_gpu = read_offer([], {"gpu": 1})
    assert taken_of(one_gpu, gpu) == {"gpu": 1000}
    assert taken_of(free(one_gpu, [gpu]), gpu) is None
    assert taken_of(PLAIN, gpu) is None


def test_a_worker_asks_for_what_fits_into_what_is_free_best_first() -> None:
    texts = [
        read_needs(some).text for some in ({}, {"gpu": True}, {"mem": "8GB"}, {"gpu": True, "mem": "8GB"}, {"cpu": 9})
    ]
    nothing, gpu, memory, both, _ = texts
    assert servable(GPU_BOX, texts) == [both, gpu, memory, nothing]
    assert servable(PLAIN, texts) == [nothing]
    busy = free(GPU_BOX, [needs_of(memory), needs_of(memory)])
    assert set(servable(busy, texts)) == {gpu, nothing}


def test_jobs_are_taken_together_as_far_as_they_fit() -> None:
    wanted = ["mem=10000000000", "mem=8000000000", "cpu=1 mem=6000000000", "", "mem=1"]
    assert take_in_order(GPU_BOX, wanted) == [True, False, True, True, False]


@given(offers, st.lists(needs, max_size=8))
def test_what_is_taken_together_is_never_more_than_there_is(offer: Offer, wanted: list[Needs]) -> None:
    answers = take_in_order(offer, [some.text for some in wanted])
    taken = [some for some, answer in zip(wanted, answers, strict=True) if answer]
    left = free(offer, taken)
    assert all(amount >= 0 for amount in left.resources.values())
    for some, answer in zip(wanted, answers, strict=True):
        assert answer or taken_of(left, some) is None
    assert set(servable(left, [some.text for some in wanted])) == {
        some.text for some in wanted if taken_of(left, some) is not None
    }


@given(offers, needs, st.lists(needs, max_size=4))
def test_less_free_serves_no_more(offer: Offer, some: Needs, running: list[Needs]) -> None:
    if taken_of(free(offer, running), some) is not None:
        assert taken_of(offer, some) is not None
