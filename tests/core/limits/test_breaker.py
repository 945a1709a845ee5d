"""Circuit breakers: when they open, what they let through, and against a model that remembers every failure."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tickwork
from tickwork.core.ids import JobId
from tickwork.core.limits.breaker import Breaker, BreakerState, breaker, end, start
from tickwork.errors import InvalidOption
from tickwork.store.rows.limits import RULES

SECOND = 1_000_000
NOW = 1_800_000_000 * SECOND
THREE = breaker(failures=3, window="10s", pause="30s")
JOB, OTHER = JobId("job"), JobId("other")


def failed(rule: Breaker, state: BreakerState, *instants_us: int) -> BreakerState:
    for now_us in instants_us:
        state = end(rule, state, JOB, now_us, failed=True)
    return state


OPEN = failed(THREE, BreakerState(), NOW, NOW, NOW)


def test_the_defaults_are_these() -> None:
    assert tickwork.breaker is breaker
    assert breaker() == Breaker(failures=50, window=timedelta(minutes=1), pause=timedelta(minutes=5), key=None)


def test_it_opens_at_the_failure_that_is_too_many() -> None:
    state = failed(THREE, BreakerState(), NOW, NOW + SECOND)
    assert state.phase(NOW + SECOND) == "closed"
    state = failed(THREE, state, NOW + 2 * SECOND)
    assert state.phase(NOW + 2 * SECOND) == "open"
    assert state.opens_at_us(NOW + 2 * SECOND) == NOW + 32 * SECOND
    assert start(THREE, state, JOB, NOW + 31 * SECOND) is None


def test_failures_that_are_far_apart_do_not_open_it() -> None:
    state = failed(THREE, BreakerState(), *(NOW + n * 6 * SECOND for n in range(100)))
    assert state.phase(NOW + 600 * SECOND) == "closed"


def test_a_success_writes_nothing() -> None:
    state = failed(THREE, BreakerState(), NOW)
    assert end(THREE, state, JOB, NOW, failed=False) is state
    assert start(THREE, state, JOB, NOW) is state


def test_after_the_pause_one_job_is_the_probe() -> None:
    later = NOW + 30 * SECOND
    probing = start(THREE, OPEN, JOB, later)
    assert probing is not None
    assert probing.phase(later) == "half-open"
    assert start(THREE, probing, OTHER, later) is None
    assert end(THREE, probing, JOB, later + SECOND, failed=False) == BreakerState()
    again = end(THREE, probing, JOB, later + SECOND, failed=True)
    assert again.opens_at_us(later + SECOND) == later + 31 * SECOND


def test_jobs_that_ran_when_it_opened_say_nothing() -> None:
    later = NOW + 30 * SECOND
    probing = start(THREE, OPEN, JOB, later)
    assert probing is not None
    for state in (OPEN, probing):
        assert end(THREE, state, OTHER, later, failed=True) is state
        assert end(THREE, state, OTHER, later, failed=False) is state


def test_a_probe_that_is_never_heard_of_is_replaced() -> None:
    later = NOW + 30 * SECOND
    probing = start(THREE, OPEN, JOB, later)
    assert probing is not None
    assert probing.opens_at_us(later) == later + 30 * SECOND
    second = start(THREE, probing, OTHER, later + 30 * SECOND)
    assert second is not None
    assert second.probe == OTHER


@given(
    st.integers(1, 6),
    st.lists(st.tuples(st.integers(0, 4 * SECOND), st.sampled_from(["start", "fail", "fail", "succeed"])), max_size=80),
)
@settings(max_examples=300)
def test_it_opens_within_the_window_and_nothing_but_one_probe_starts_while_it_is_open(
    failures: int, steps: list[tuple[int, str]]
) -> None:
    rule = breaker(failures=failures, window="10s", pause="5s")
    state, now_us = BreakerState(), NOW
    seen: list[int] = []
    running: list[JobId] = []
    for number, (wait_us, step) in enumerate(steps):
        now_us += wait_us
        if step == "start":
            job = JobId(str(number))
            started = start(rule, state, job, now_us)
            assert (started is None) == (state.opens_at_us(now_us) is not None)
            if started is not None:
                assert state.phase(now_us) != "open"
                state = started
                running.append(job)
            continue
        job = running.pop(0) if running else JOB
        was, probe = state.phase(now_us), state.probe
        state = end(rule, state, job, now_us, failed=step == "fail")
        if was == "closed":
            seen += [now_us] * (step == "fail")
            lately = [us for us in seen if us > now_us - 10 * SECOND]
            surely = [us for us in seen if us > now_us - 9 * SECOND]
            if state.phase(now_us) == "open":
                assert step == "fail"
                assert len(lately) >= failures
                seen = []
            else:
                assert len(surely) < failures
        elif job != probe:
            assert state.phase(now_us) == was
        else:
            assert state.phase(now_us) == ("open" if step == "fail" else "closed")
        stored = msgspec.json.encode(state)
        assert msgspec.json.decode(stored, type=BreakerState) == state
        assert len(stored) < 200


def test_instants_out_of_order_are_counted() -> None:
    state = failed(THREE, BreakerState(), NOW + 5 * SECOND, NOW, NOW + 4 * SECOND)
    assert state.phase(NOW + 5 * SECOND) == "open"


@pytest.mark.parametrize(
    ("given_options", "message"),
    [
        ({"failures": 0}, "failures must be a whole number from 1"),
        ({"window": "10ms"}, "window: '10ms' is not from 1s to 1d"),
        ({"pause": "2d"}, "pause: '2d' is not from 1s to 1d"),
        ({"pause": 30}, "pause: 30 of what"),
        ({"key": "a..b"}, "the key of a breaker: 'a..b' names nothing"),
    ],
)
def test_other_breakers_are_refused(given_options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        breaker(**given_options)


def test_the_stored_form_is_this_one() -> None:
    """Rows that were written by this version must be readable by every later one."""
    stored = b'{"version":1,"rule":{"kind":"breaker","failures":3,"window":"PT10S","pause":"PT30S","key":null}}'
    assert RULES.encode(THREE) == stored
    assert RULES.decode(stored) == THREE
    state = failed(THREE, BreakerState(), NOW, NOW + 2 * SECOND)
    assert msgspec.json.encode(state) == b"[[1800000002,[1,0,1]],null,null,0]"
