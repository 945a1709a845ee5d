"""Runs each service on a thread: calls `tick`, waits as long as it returned, and backs off after errors.

Services themselves never sleep. A tick that raises is retried with a growing backoff: a database that is down for ten
minutes must not end a process, and must not be overloaded when it comes back. Every wait is capped, so a clock that
steps cannot stop a loop.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable
from random import Random
from typing import NamedTuple, Protocol

from tickwork.clock import Clock
from tickwork.errors import StoreError

_log = logging.getLogger("tickwork.services")
LONGEST_S = 60.0
FIRST_BACKOFF_S, LAST_BACKOFF_S = 0.1, 5.0


class Service(Protocol):
    """A loop: `tick` receives the monotonic time and returns how many seconds to wait."""

    def tick(self, now: float) -> float: ...


class Backoff:
    """The delays after failures in a row. The first failure is logged, repeated ones are not."""

    def __init__(self, name: str, rng: Random) -> None:
        self._name = name
        self._rng = rng
        self.failures = 0

    def failed(self, error: Exception) -> float:
        """Record a failure; return the seconds to wait."""
        self.failures += 1
        if self.failures == 1 and isinstance(error, StoreError):
            _log.warning("%s: %s Trying again until it works.", self._name, error)
        elif self.failures == 1:
            _log.error("%s failed and goes on.", self._name, exc_info=error)
        longest: float = min(FIRST_BACKOFF_S * 2.0 ** min(self.failures, 16), LAST_BACKOFF_S)
        return longest * (0.5 + self._rng.random() / 2)

    def worked(self) -> None:
        """Record a success, and log it if it follows failures."""
        if self.failures:
            _log.warning("%s works again, after %d failed tries.", self._name, self.failures)
            self.failures = 0


class LastTick(NamedTuple):
    """The monotonic time of a service's last tick, its last error, and the time of that error."""

    at: float
    error: str | None
    failed_at: float | None


class Ticks:
    """The last tick of each service of a process, by name. Safe to read from any thread."""

    def __init__(self) -> None:
        self._last: dict[str, LastTick] = {}

    def note(self, name: str, now: float, error: Exception | None) -> None:
        known = self._last.get(name, LastTick(now, None, None))
        self._last[name] = known._replace(at=now) if error is None else LastTick(now, str(error), now)

    def last(self) -> dict[str, LastTick]:
        return dict(self._last)


class Runner:
    """Runs services, each on a thread of its own, until it is stopped. `ticks` records their last ticks and errors."""

    def __init__(self, clock: Clock, rng: Random, ticks: Ticks | None = None) -> None:
        self._clock = clock
        self._rng = rng
        self._ticks = ticks or Ticks()
        self._stopped = threading.Event()
        self._threads: list[tuple[threading.Thread, threading.Event]] = []

    def start(self, service: Service) -> Callable[[], None]:
        """Run a service from now on; return a function that makes it tick at once.

        The function may be called from any thread.
        """
        name, nudged = _name_of(service), threading.Event()
        thread = threading.Thread(target=self._run, args=(service, name, nudged), name=f"tickwork-{name}", daemon=True)
        self._threads.append((thread, nudged))
        thread.start()
        return nudged.set

    def stop(self) -> None:
        """Stop every loop after its current tick."""
        self._stopped.set()
        for _, nudged in self._threads:
            nudged.set()
        for thread, _ in self._threads:
            if thread.is_alive():  # a signal may have arrived before it was started
                thread.join(timeout=LAST_BACKOFF_S)

    def _run(self, service: Service, name: str, nudged: threading.Event) -> None:
        backoff = Backoff(name, Random(self._rng.random()))
        while not self._stopped.is_set():
            nudged.clear()
            try:
                wait = service.tick(self._clock.monotonic())
                backoff.worked()
                self._ticks.note(name, self._clock.monotonic(), None)
            except Exception as error:
                wait = backoff.failed(error)
                self._ticks.note(name, self._clock.monotonic(), error)
            if not self._stopped.is_set():
                nudged.wait(min(wait, LONGEST_S))


def _name_of(service: Service) -> str:
    """Return the name of a service for logs, metrics and threads: `stats-rollup` of a `StatsRollup`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", type(service).__name__).lower()
