"""Call functions after a delay, on one thread that is started on first use."""

from __future__ import annotations

import heapq
import logging
import threading
from collections.abc import Callable
from itertools import count

from tickwork.clock import Clock

_log = logging.getLogger("tickwork.worker")


class TimedCall:
    """A scheduled call, which can be cancelled."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[[], None]) -> None:
        self.make: Callable[[], None] | None = make


class Timer:
    """A timer thread with a queue of calls, which must be short. An executor uses it for timeouts."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._calls: list[tuple[float, int, TimedCall]] = []
        self._cancelled = 0
        self._order = count()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopped = False

    def after(self, seconds: float, make: Callable[[], None]) -> TimedCall:
        """Schedule a call in `seconds` seconds."""
        call = TimedCall(make)
        with self._changed:
            heapq.heappush(self._calls, (self._clock.monotonic() + seconds, next(self._order), call))
            if self._thread is None:
                self._thread = threading.Thread(target=self._keep, name="tickwork-timekeeper", daemon=True)
                self._thread.start()
            self._changed.notify()
        return call

    def cancel(self, call: TimedCall) -> None:
        """Cancel a call and drop the reference to its function."""
        with self._changed:
            if call.make is not None:
                call.make = None
                self._cancelled += 1
            if self._cancelled * 2 > len(self._calls) + 64:  # cancelled long timeouts of short jobs would fill the heap
                self._calls = [entry for entry in self._calls if entry[2].make is not None]
                heapq.heapify(self._calls)
                self._cancelled = 0

    def stop(self) -> None:
        """Stop the thread; no more calls are made."""
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def _keep(self) -> None:
        while (call := self._next()) is not None:
            try:
                if call.make is not None:
                    call.make()
            except Exception:
                _log.exception("A call failed; the next ones are made all the same.")

    def _next(self) -> TimedCall | None:
        """Wait until the next call is due and return it; None after `stop`."""
        with self._changed:
            while not self._stopped:
                wait = self._calls[0][0] - self._clock.monotonic() if self._calls else None
                if wait is not None and wait <= 0:
                    return heapq.heappop(self._calls)[2]
                self._changed.wait(wait)
            return None
