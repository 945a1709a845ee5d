"""Batches: full or due, and against a simulation of jobs that come at random."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tickwork
from tickwork.core.workers.batch import Batch, FormedBatch, batch, form
from tickwork.errors import InvalidOption

MILLISECOND = 1000
NOW = 1_800_000_000_000_000


def test_the_defaults_are_these() -> None:
    assert tickwork.batch is batch
    assert batch() == Batch(size=100, wait=timedelta(milliseconds=500))


def test_a_batch_starts_when_it_is_full_or_due() -> None:
    rule = batch(max=3, wait="500ms")
    assert form(rule, [], NOW) == FormedBatch((), None)
    assert form(rule, [NOW], NOW) == FormedBatch((), NOW + 500 * MILLISECOND)
    assert form(rule, [NOW, NOW, NOW], NOW) == FormedBatch((3,), None)
    assert form(rule, [NOW] * 7, NOW) == FormedBatch((3, 3), NOW + 500 * MILLISECOND)
    assert form(rule, [NOW - 500 * MILLISECOND, NOW], NOW) == FormedBatch((2,), None)
    assert form(batch(max=3, wait="0s"), [NOW], NOW) == FormedBatch((1,), None)


def test_an_urgent_job_in_front_does_not_make_an_older_one_wait_longer() -> None:
    assert form(batch(max=9, wait="500ms"), [NOW, NOW - 400 * MILLISECOND], NOW) == FormedBatch(
        (), NOW + 100 * MILLISECOND
    )


@given(st.integers(1, 5), st.integers(0, 500), st.lists(st.integers(0, 300), min_size=1, max_size=40))
def test_no_batch_is_too_large_and_no_job_waits_longer_than_the_wait(
    size: int, wait_ms: int, gaps_ms: list[int]
) -> None:
    """A caller that looks at the returned time, and when a job comes, starts every job in time."""
    rule = batch(max=size, wait=timedelta(milliseconds=wait_ms))
    due: list[int] = []
    look_at_us: int | None = None
    started = 0
    arrivals = [NOW + MILLISECOND * sum(gaps_ms[: n + 1]) for n in range(len(gaps_ms))]
    pending = arrivals[:]
    while pending or look_at_us is not None:
        now_us = min(us for us in (*pending[:1], look_at_us) if us is not None)
        while pending and pending[0] <= now_us:
            due.append(pending.pop(0))
        formed = form(rule, due, now_us)
        assert all(0 < count <= size for count in formed.sizes)
        for us in due[: sum(formed.sizes)]:
            assert now_us - us <= wait_ms * MILLISECOND
        started += sum(formed.sizes)
        due = due[sum(formed.sizes) :]
        assert len(due) < size
        assert (formed.look_at_us is None) == (not due)
        look_at_us = formed.look_at_us
    assert started == len(arrivals)


def test_batches_come_back_from_the_store() -> None:
    stored = b'{"size":100,"wait":"PT0.5S"}'
    assert msgspec.json.encode(batch()) == stored
    assert msgspec.json.decode(stored, type=Batch) == batch()


@pytest.mark.parametrize(
    ("given_options", "message"),
    [
        ({"max": 0}, "max must be a whole number from 1 to 10,000, not 0"),
        ({"wait": "2h"}, "wait: '2h' is not from 0s to 1h"),
        ({"wait": 0.5}, "wait: 0.5 of what"),
    ],
)
def test_other_batches_are_refused(given_options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        batch(**given_options)
