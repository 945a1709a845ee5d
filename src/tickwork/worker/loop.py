"""Ticks a worker: waits until there may be something to do, and sees it through its end.

It is called by the store (somebody enqueued), by handlers (one ended), by signals and by `stop`. None of these calls is
relied on: a wait never lasts longer than the worker said.
"""

from __future__ import annotations

import logging
import os
import select
from collections.abc import Callable
from contextlib import suppress
from random import Random

from tickwork.clock import Clock
from tickwork.errors import WorkerError
from tickwork.services.runner import Backoff
from tickwork.store.admin.operations import Ask
from tickwork.store.base import Waiter
from tickwork.worker.worker import Worker

_log = logging.getLogger("tickwork.worker")
LONGEST_S = 5.0
PAUSE_S = 1.0
LAST_TRIES_S = 5.0  # when leaving, the store is tried for so long


class WorkerLoop:
    """Runs on one thread until it is stopped; `stop` may be called from anywhere, also from a signal handler."""

    def __init__(
        self,
        worker: Worker,
        waiter: Waiter,
        filenos: Callable[[], list[int]],
        clock: Clock,
        rng: Random,
        grace_s: float,
        unsent: Callable[[], list[int]] = list,
    ) -> None:
        self._worker = worker
        self._waiter = waiter
        self._filenos = filenos
        self._unsent = unsent
        self._clock = clock
        self._backoff = Backoff("worker", rng)
        self._grace_s = grace_s
        self._give_up_at: float | None = None
        self._draining = False
        self._readable, self._writable = os.pipe()
        os.set_blocking(self._readable, False)
        os.set_blocking(self._writable, False)

    def stop(self, *, now: bool = False) -> None:
        """Take no more jobs, let those that run finish within the grace, give back the rest, and end."""
        until = self._clock.monotonic() + (0.0 if now else self._grace_s)
        self._give_up_at = until if self._give_up_at is None else min(self._give_up_at, until)
        self.call()

    def obey(self, asked: Ask | None) -> None:
        """Do what somebody asked of this worker through the store: be quiet, stop, or go on."""
        _log.warning("Somebody asks this worker to %s.", asked or "go on")
        self._worker.quiet = asked == "quiet"
        if asked == "stop":
            self.stop()
        self.call()

    def call(self) -> None:
        """Have the worker look around."""
        with suppress(BlockingIOError):
            os.write(self._writable, b"!")

    def run(self) -> None:
        """Tick until stopped. Errors of the store are waited out; raises WorkerError when nothing can be run."""
        try:
            self._tick()
            while not self._over():
                self._tick()
        finally:
            self._leave()

    def _tick(self) -> None:
        """Tick once, and wait until there may be more to do."""
        try:
            if self._give_up_at is not None and not self._draining:
                self._draining = True
                self._worker.drain()
            wait = self._worker.tick(self._clock.monotonic())
            self._backoff.worked()
        except WorkerError:
            raise
        except Exception as error:
            # Only for this long: handlers are still to be ended in time. And not less, however much they have to say.
            patience = self._worker.patience(self._clock.monotonic())
            self._pause(min(self._backoff.failed(error), PAUSE_S, patience, self._left()))
        else:
            if not self._over():
                self._wait(min(wait, self._left()))

    def _over(self) -> bool:
        if self._give_up_at is None:
            return False
        return self._clock.monotonic() >= self._give_up_at or (self._draining and not self._worker.busy)

    def _left(self) -> float:
        """How long it may go on."""
        return LONGEST_S if self._give_up_at is None else max(0.0, self._give_up_at - self._clock.monotonic())

    def _pause(self, seconds: float) -> None:
        """Wait, unless this loop is told to stop."""
        poll = select.poll()
        poll.register(self._readable, select.POLLIN)
        poll.poll(seconds * 1000)
        self._clear_calls()

    def _wait(self, seconds: float) -> None:
        poll = select.poll()
        writing = set(self._unsent())
        for descriptor in (self._readable, self._waiter.fileno(), *self._filenos()):
            if descriptor >= 0:
                poll.register(descriptor, select.POLLIN | (select.POLLOUT if descriptor in writing else 0))
        ready = {descriptor for descriptor, _ in _polled(poll, min(seconds, LONGEST_S), self._clock)}
        if self._waiter.fileno() in ready:
            self._waiter.clear()
            self._worker.called = True
        self._clear_calls()

    def _clear_calls(self) -> None:
        with suppress(BlockingIOError):
            while os.read(self._readable, 4096):
                pass

    def _leave(self) -> None:
        """Give back what still runs. If the store does not answer, its jobs are reclaimed when the lease runs out."""
        until = self._clock.monotonic() + LAST_TRIES_S
        while True:
            try:
                self._worker.release()
                return
            except Exception as error:
                wait = min(self._backoff.failed(error), PAUSE_S)
                if self._clock.monotonic() + wait > until:
                    _log.error(
                        "Leaving without having told the store: %s Its jobs start again when the lease ran out.", error
                    )
                    return
                self._pause(wait)

    def close(self) -> None:
        self._waiter.close()
        os.close(self._readable)
        os.close(self._writable)


def _polled(poll: select.poll, seconds: float, clock: Clock) -> list[tuple[int, int]]:
    """Poll for so long. The kernel counts milliseconds and rounds up: what is left of the last one is slept."""
    until = clock.monotonic() + seconds
    ready = poll.poll(int(seconds * 1000))
    left = until - clock.monotonic()
    if ready or not 0 < left < 0.001:
        return ready
    select.select([], [], [], left)
    return poll.poll(0)
