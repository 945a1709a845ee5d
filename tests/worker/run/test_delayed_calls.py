"""Calls are made at their time, in order, unless they are cancelled; one that fails does not stop the next."""

import threading
import time
from collections.abc import Iterator

import pytest

from tests.waiting import eventually
from tickwork.clock import SystemClock
from tickwork.worker.run.delayed_calls import Timer


@pytest.fixture
def timekeeper() -> Iterator[Timer]:
    timekeeper = Timer(SystemClock())
    yield timekeeper
    timekeeper.stop()


def test_calls_are_made_in_the_order_of_their_times(timekeeper: Timer) -> None:
    made: list[str] = []
    for name, seconds in (("third", 0.09), ("first", 0.03), ("second", 0.06), ("at once", 0.0)):
        timekeeper.after(seconds, lambda name=name: made.append(name))  # type: ignore[misc]
    eventually(lambda: len(made) == 4)
    assert made == ["at once", "first", "second", "third"]


def test_no_call_is_early(timekeeper: Timer) -> None:
    began, made = time.monotonic(), threading.Event()
    timekeeper.after(0.05, made.set)
    assert made.wait(5)
    assert time.monotonic() - began >= 0.05


def test_an_earlier_call_is_made_although_a_later_one_is_waited_for(timekeeper: Timer) -> None:
    made = threading.Event()
    timekeeper.after(1000, lambda: None)
    timekeeper.after(0.01, made.set)
    assert made.wait(5)


def test_a_cancelled_call_is_not_made(timekeeper: Timer) -> None:
    made: list[str] = []
    cancelled = timekeeper.after(0.02, lambda: made.append("cancelled"))
    timekeeper.after(0.05, lambda: made.append("kept"))
    timekeeper.cancel(cancelled)
    timekeeper.cancel(cancelled)
    eventually(lambda: made == ["kept"])


def test_cancelled_calls_do_not_pile_up(timekeeper: Timer) -> None:
    for _ in range(10_000):
        timekeeper.cancel(timekeeper.after(1000, lambda: None))
    # The size of its memory has no public count.
    assert len(timekeeper._calls) < 200


def test_a_call_that_fails_does_not_stop_the_next(timekeeper: Timer, caplog: pytest.LogCaptureFixture) -> None:
    made = threading.Event()
    timekeeper.after(0.0, lambda: 1 // 0)  # type: ignore[arg-type, return-value]
    timekeeper.after(0.02, made.set)
    assert made.wait(5)
    assert "ZeroDivisionError" in caplog.text


def test_a_call_may_ask_for_another(timekeeper: Timer) -> None:
    made = threading.Event()
    timekeeper.after(0.01, lambda: timekeeper.after(0.01, made.set) and None)
    assert made.wait(5)


def test_after_its_end_no_call_is_made() -> None:
    timekeeper, made = Timer(SystemClock()), []
    timekeeper.after(0.02, lambda: made.append(1))
    timekeeper.stop()
    eventually(lambda: not any(thread.name == "tickwork-timekeeper" for thread in threading.enumerate()))
    assert made == []
