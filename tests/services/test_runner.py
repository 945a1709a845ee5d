"""The threads that services tick on."""

import threading
from random import Random

import pytest

from tickwork.clock import SystemClock
from tickwork.services.runner import Runner


class Idle:
    def tick(self, now: float) -> float:
        return 60.0


def test_it_stops_though_a_signal_came_before_a_thread_was_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(thread: threading.Thread) -> None:
        raise SystemExit(0)

    runner = Runner(SystemClock(), Random(1))
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", interrupt)
        with pytest.raises(SystemExit):
            runner.start(Idle())
    runner.stop()
