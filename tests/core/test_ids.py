"""Ids sort by when they were made, are never made twice, and are UUIDs to everybody else."""

from __future__ import annotations

import os
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.ids import IdMaker, created_at, is_id
from tickwork.errors import InvalidInput

PRODUCTION = IdMaker(lambda: time.time_ns() // 1_000_000, secrets.randbits)


def maker(now_ms: int = 1_000, seed: int = 0) -> IdMaker:
    return IdMaker(lambda: now_ms, Random(seed).getrandbits)


@given(st.lists(st.integers(0, 2**40), min_size=2, max_size=30), st.integers(0, 5))
def test_ids_grow_whatever_the_clock_does(times: list[int], n: int) -> None:
    readings = iter(times)
    ids_of = IdMaker(lambda: next(readings), Random(0).getrandbits)
    made = [text for index in range(len(times)) for text in (ids_of.new_ids(n) if index % 2 else [ids_of.new_id()])]
    assert all(one < other for one, other in pairwise(made))


@given(st.integers(0, 2**45))
def test_an_id_tells_when_it_was_made(now_ms: int) -> None:
    made = created_at(maker(now_ms).new_id())
    expected = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=now_ms)
    assert made == expected


@given(st.integers(0, 2**45), st.integers())
def test_an_id_is_a_uuid_of_version_7_in_its_usual_form(now_ms: int, seed: int) -> None:
    text = maker(now_ms, seed).new_id()
    assert is_id(text)
    assert str(UUID(text)) == text
    assert (UUID(text).version, UUID(text).variant) == (7, "specified in RFC 4122")


def test_the_counter_carries_into_the_time_when_it_overflows() -> None:
    full = IdMaker(lambda: 1_000, lambda bits: 2**bits - 1)
    before, after = full.new_ids(2)
    assert before < after
    assert created_at(after) - created_at(before) == timedelta(milliseconds=1)


def test_equal_clocks_and_equal_random_bits_make_equal_ids() -> None:
    assert maker(seed=7).new_ids(50) == maker(seed=7).new_ids(50)
    assert maker(seed=7).new_id() != maker(seed=8).new_id()


def test_ids_made_in_bulk_are_all_different_and_in_order() -> None:
    ids = PRODUCTION.new_ids(10_000)
    assert len(set(ids)) == 10_000
    assert ids == sorted(ids)
    assert PRODUCTION.new_ids(0) == []


def test_threads_never_make_the_same_id_and_each_sees_its_own_grow() -> None:
    with ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(lambda _: [PRODUCTION.new_id() for _ in range(2_000)], range(8)))
    assert len({text for row in rows for text in row}) == 16_000
    assert all(row == sorted(row) for row in rows)


def test_a_forked_child_makes_other_ids_than_its_parent() -> None:
    frozen = IdMaker(lambda: 1_000, secrets.randbits)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, "\n".join(frozen.new_ids(100)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(reader, 100_000).decode().split("\n")
    assert len(theirs) == 100
    assert not set(theirs) & set(frozen.new_ids(100))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "order-4821",
        "019a8f3e1c2d7abc8def0123456789ab",
        "019A8F3E-1C2D-7ABC-8DEF-0123456789AB",
        "019a8f3e-1c2d-4abc-8def-0123456789ab",
        "019a8f3e-1c2d-7abc-cdef-0123456789ab",
        "019a8f3e-1c2d-7abc-8def-0123456789ab\n",
    ],
)
def test_other_texts_are_no_ids(text: str) -> None:
    assert not is_id(text)
    with pytest.raises(InvalidInput, match="is not an id"):
        created_at(text)


def test_an_id_from_beyond_the_calendar_is_refused_clearly() -> None:
    with pytest.raises(InvalidInput, match="is not an id"):
        created_at("ffffffff-ffff-7abc-8def-0123456789ab")
