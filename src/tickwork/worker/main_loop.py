"""The main loop of a worker: tick, wait for the next event, drain and release jobs at shutdown.

The loop is woken by the store (jobs were enqueued), by handlers (an attempt ended), by signals and by `stop`. It does
not rely on any of them: a wait never lasts longer than the worker's tick allowed.
"""

from __future__ import annotations

import logging
import os
import select
from contextlib import suppress
from random import Random

from tickwork.clock import Clock
from tickwork.errors import WorkerError
from tickwork.services.runner import Backoff
from tickwork.store.admin.bulk_operations import Ask
from tickwork.store.base import Waiter
from tickwork.worker.worker import Worker
from tickwork.worker.worker_types import HandlerPools

_log = logging.getLogger("tickwork.worker")
LONGEST_S = 5.0
PAUSE_S = 1.0
LAST_TRIES_S = 5.0  # at shutdown, how long to retry releasing jobs while the store fails


class WorkerLoop:
    """The loop that ticks a worker on one thread. `stop` may be called from any thread and from signal handlers."""

    def __init__(
        self,
        worker: Worker,
        waiter: Waiter,
        pools: HandlerPools,
        clock: Clock,
        rng: Random,
        grace_s: float,
    ) -> None:
        self._worker = worker
        self._waiter = waiter
        self._pools = pools
        self._clock = clock
        self._backoff = Backoff("worker", rng)
        self._grace_s = grace_s
        self._give_up_at: float | None = None
        self._draining = False
        self._readable, self._writable = os.pipe()
        os.set_blocking(self._readable, False)
        os.set_blocking(self._writable, False)

    def stop(self, *, now: bool = False) -> None:
        """Stop claiming, let running jobs finish within the grace period, release the others, and end the loop.

        With `now`, the grace period is zero.
        """
        until = self._clock.monotonic() + (0.0 if now else self._grace_s)
        self._give_up_at = until if self._give_up_at is None else min(self._give_up_at, until)
        self.call()

    def obey(self, asked: Ask | None) -> None:
        """Carry out a stored request of an operator to this worker: be quiet, stop, or, with None, resume claiming."""
        _log.warning("An operator asks this worker to %s.", asked or "go on")
        self._worker.quiet = asked == "quiet"
        if asked == "stop":
            self.stop()
        self.call()

    def call(self) -> None:
        """Wake the loop, so that it ticks at once. May be called from any thread."""
        with suppress(BlockingIOError):
            os.write(self._writable, b"!")

    def run(self) -> None:
        """Tick until stopped, with a backoff after errors of the store.

        Raises WorkerError when the worker can run nothing, for example because the user's code does not load.
        """
        try:
            self._tick()
            while not self._over():
                self._tick()
        finally:
            self._leave()

    def _tick(self) -> None:
        """Tick once, and wait for the next event or for as long as the tick allows."""
        try:
            if self._give_up_at is not None and not self._draining:
                self._draining = True
                self._worker.drain()
            wait = self._worker.tick(self._clock.monotonic())
            if self._backoff.failures:
                self._backoff.worked()
        except WorkerError:
            raise
        except Exception as error:
            # No longer, because handlers must still be stopped in time; no shorter, whatever messages handlers send.
            patience = self._worker.patience(self._clock.monotonic())
            self._pause(min(self._backoff.failed(error), PAUSE_S, patience, self._left()))
        else:
            if not self._over():
                self._wait(min(wait, self._left()))

    def _over(self) -> bool:
        """Return whether the loop ends: the worker was stopped and holds nothing, or the grace period is over."""
        if self._give_up_at is None:
            return False
        return self._clock.monotonic() >= self._give_up_at or (self._draining and not self._worker.busy)

    def _left(self) -> float:
        """Return the longest time to wait, in seconds: what remains of the grace period, or `LONGEST_S`."""
        return LONGEST_S if self._give_up_at is None else max(0.0, self._give_up_at - self._clock.monotonic())

    def _pause(self, seconds: float) -> None:
        """Wait for some seconds, or until the loop is woken by `call`."""
        poll = select.poll()
        poll.register(self._readable, select.POLLIN)
        poll.poll(seconds * 1000)
        self._clear_calls()

    def _wait(self, seconds: float) -> None:
        """Wait for some seconds, or until `call`, the store or a handler wakes the loop."""
        poll = select.poll()
        writing = set(self._pools.unsent())
        for descriptor in (self._readable, self._waiter.fileno(), *self._pools.filenos()):
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
        """Stop and release the running jobs. If the store does not answer, a reaper reclaims them after the lease."""
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
    """Poll for some seconds. `poll` accepts whole milliseconds, so the rest of the time is slept with `select`."""
    until = clock.monotonic() + seconds
    ready = poll.poll(int(seconds * 1000))
    left = until - clock.monotonic()
    if ready or not 0 < left < 0.001:
        return ready
    select.select([], [], [], left)
    return poll.poll(0)
