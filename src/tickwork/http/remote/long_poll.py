"""Long polls of remote workers: one task on the event loop watches the store for all waiting requests.

The store is called on a thread of its own. While requests wait, the store is polled when it signals new work, when the
next job is due, and once a second. One claim serves all requests for the same jobs, in the order of their arrival.
While no request waits, it does nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from random import Random
from typing import Any, TypeVar

from tickwork.clock import Clock
from tickwork.http.remote.claim_and_finish import LeasedAttempt, LeaseRequest, RemoteClaimer, RemoteFinisher, WantedJobs
from tickwork.observe.counters import Counters
from tickwork.services.runner import Backoff
from tickwork.store.base import Store, Waiter

T = TypeVar("T")
_log = logging.getLogger("tickwork.http")
POLL_S = 1.0
REST_S = 0.02  # between two polls of the store, however often it signals
SCARCE_SHARE = 30  # after a claim without jobs, claims of its group take at most 1/30 of the time
_numbers = count()


class _WaitingPoll:
    """A request that waits. `once`: the next poll of the store answers it, with or without jobs.

    `gone`: its client left.

    `served`: a claim for it is in progress, which must end first.
    """

    __slots__ = ("answer", "asker", "gone", "number", "once", "served")

    def __init__(self, asker: LeaseRequest, once: bool) -> None:
        self.asker = asker
        self.once = once
        self.number = next(_numbers)
        self.answer: asyncio.Future[list[LeasedAttempt]] = asyncio.get_running_loop().create_future()
        self.served = False
        self.gone = False

    def give(self, leased: list[LeasedAttempt]) -> None:
        if not self.answer.done():
            self.answer.set_result(leased)


class _PollGroup:
    """Requests for the same jobs, in the order of their arrival."""

    def __init__(self, wanted: WantedJobs) -> None:
        self.wanted = wanted
        self.polls: list[_WaitingPoll] = []
        self.not_before = 0.0

    def next(self) -> list[_WaitingPoll]:
        """Return the requests for the next claim: all that wait, or the first one if it offers resources of its own."""
        waiting = [poll for poll in self.polls if not poll.answer.done()]
        return waiting[:1] if self.wanted.offer.resources else waiting


class LongPolls:
    """Serves long polls. It starts with the first request, and ends with its event loop or with `close`."""

    def __init__(self, store: Store, clock: Clock, rng: Random, tally: Counters) -> None:
        self.ends = RemoteFinisher(store, clock, rng, tally)
        self._store = store
        self._clock = clock
        self._claimer = RemoteClaimer(store, self.ends, clock)
        self._backoff = Backoff("leases over REST", rng)
        self._groups: dict[tuple[object, ...], _PollGroup] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tickwork-hub")
        self._called = asyncio.Event()  # by the store, or by a new request
        self._asked = asyncio.Event()  # by a new request
        self._fresh: list[_PollGroup] = []  # groups with new requests
        self._look_at = 0.0  # when to poll the store for all requests
        self._running: asyncio.Task[None] | None = None
        self._stopped = False

    async def poll(
        self, wanted: WantedJobs, asker: LeaseRequest, wait_s: float, gone: Coroutine[Any, Any, object]
    ) -> list[LeasedAttempt]:
        """Wait for jobs for up to `wait_s` seconds, or until the client disconnects (`gone`), which then gets no
        jobs.

        Raises StoreError if `wait_s` is zero and the store does not answer.
        """
        poll = self._enter(wanted, asker, once=wait_s <= 0)
        leaving = asyncio.ensure_future(gone)
        both = (poll.answer, leaving)
        try:
            await asyncio.wait(both, timeout=wait_s or None, return_when=asyncio.FIRST_COMPLETED)
            if poll.served:  # a claim may be about to give it jobs
                poll.once = True
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            poll.gone = leaving.done()
            return poll.answer.result() if poll.answer.done() and not poll.gone else []
        except asyncio.CancelledError:
            poll.gone = True
            raise
        finally:
            leaving.cancel()
            self._leave(wanted, poll)

    def stop(self) -> None:
        """Answer all waiting requests without jobs; later requests do not wait."""
        self._stopped = True
        for poll in [one for group in self._groups.values() for one in group.polls if not one.served]:
            poll.give([])

    async def close(self) -> None:
        """Stop the watcher."""
        self.stop()
        if self._running is not None:
            self._running.cancel()
            with suppress(asyncio.CancelledError):
                await self._running
        self._thread.shutdown(wait=False)

    # -- requests

    def _enter(self, wanted: WantedJobs, asker: LeaseRequest, *, once: bool) -> _WaitingPoll:
        """Add a request to its group, and wake the watcher."""
        poll = _WaitingPoll(asker, once)
        if self._stopped:
            poll.give([])
            return poll
        group = self._groups.setdefault(wanted.key, _PollGroup(wanted))
        group.polls.append(poll)
        self._fresh.append(group)
        if self._running is None or self._running.done():
            self._running = asyncio.get_running_loop().create_task(self._watch())
        self._asked.set()
        self._called.set()
        return poll

    def _leave(self, wanted: WantedJobs, poll: _WaitingPoll) -> None:
        """Remove a request. If its client has disconnected, return its jobs to their queue."""
        if not poll.answer.done():
            poll.gone = True
        elif poll.gone and poll.answer.exception() is None:
            self._give_back(poll.answer.result())
        group = self._groups.get(wanted.key)
        if group is not None:
            group.polls = [one for one in group.polls if one is not poll]
            if not group.polls:
                del self._groups[wanted.key]

    def _give_back(self, leased: Sequence[LeasedAttempt]) -> None:
        if leased:
            give_back = self._claimer.give_back
            asyncio.get_running_loop().run_in_executor(self._thread, give_back, leased).add_done_callback(_report)

    # -- the watcher

    async def _watch(self) -> None:
        """Serve requests until cancelled; back off after errors."""
        waiter: Waiter | None = None
        self._look_at = 0.0
        try:
            while True:
                began = self._clock.monotonic()
                try:
                    waiter = waiter or await self._on_thread(self._store.waiter)
                    await self._look_around(began)
                    self._backoff.worked()
                except Exception as error:
                    self._look_at = self._clock.monotonic() + self._backoff.failed(error)
                    self._fail(error)
                await self._rest(waiter)
                await _wait(self._asked, began + REST_S - self._clock.monotonic())
                self._called.clear()
                self._asked.clear()
        finally:
            if waiter is not None:
                waiter.close()

    async def _rest(self, waiter: Waiter | None) -> None:
        """Wait until the store signals, a request arrives or a poll is due; without requests, until one arrives."""
        loop = asyncio.get_running_loop()
        watched = -1
        if waiter is not None and self._groups:
            watched = waiter.fileno()  # it may change between calls
        if waiter is not None and watched >= 0:
            loop.add_reader(watched, self._call, waiter)
        try:
            await _wait(self._called, self._look_at - self._clock.monotonic() if self._groups else None)
        finally:
            if watched >= 0:
                loop.remove_reader(watched)

    def _call(self, waiter: Waiter) -> None:
        """Handle a signal of the store: poll it for all requests."""
        waiter.clear()
        self._look_at = 0.0
        self._called.set()

    async def _look_around(self, now: float) -> None:
        """Poll the store for new requests, or for all requests if their poll is due."""
        everybody = now >= self._look_at
        groups = list(self._groups.values()) if everybody else self._fresh
        self._fresh = []
        if everybody:
            self._look_at = now + POLL_S
        wait_s = await self._look([group for group in groups if group.polls])
        self._look_at = min(self._look_at, self._clock.monotonic() + wait_s)

    async def _look(self, groups: list[_PollGroup]) -> float:
        """Poll the store once for these groups; return the number of seconds until the next poll."""
        groups = sorted(dict.fromkeys(groups), key=lambda group: group.polls[0].number)
        looked_for = [poll for group in groups for poll in group.polls]
        queues = list(dict.fromkeys(queue for group in groups for queue in group.wanted.queues))
        if not queues:
            return POLL_S
        due = await self._on_thread(lambda: self._claimer.due(queues))
        waits = [POLL_S, POLL_S if due.next_s is None else due.next_s]
        for group in groups:
            names = {name for queue in group.wanted.queues for name in due.tasks.get(queue, ())}
            if names:
                waits.append(await self._serve(group, names))
        for poll in looked_for:
            if poll.once:
                poll.give([])
        return max(0.0, min(waits))

    async def _serve(self, group: _PollGroup, due: set[str]) -> float:
        """Claim jobs for a group; return the number of seconds until the next claim."""
        began = self._clock.monotonic()
        if began < group.not_before:
            return group.not_before - began
        polls = group.next()
        if not polls:
            return POLL_S
        for poll in polls:
            poll.served = True
        try:
            askers = [poll.asker for poll in polls]
            dealt = await self._on_thread(lambda: self._claimer.claim(group.wanted, due, askers))
        finally:
            for poll in polls:
                poll.served = False
        for poll, leased in zip(polls, dealt, strict=True):
            self._deliver(group, poll, leased)
        if any(dealt):
            return 0.0 if group.polls else POLL_S
        ended = self._clock.monotonic()
        group.not_before = ended + (ended - began) * SCARCE_SHARE
        return group.not_before - ended

    def _deliver(self, group: _PollGroup, poll: _WaitingPoll, leased: list[LeasedAttempt]) -> None:
        """Answer a request with its jobs; return them to their queue if its client has disconnected."""
        if poll.gone or poll.answer.done():
            self._give_back(leased)
        elif leased or poll.once or self._stopped:
            poll.give(leased)
            group.polls = [one for one in group.polls if one is not poll]

    def _fail(self, error: Exception) -> None:
        """Report an error to the requests that do not wait; the others may succeed at a later poll."""
        for poll in [one for group in self._groups.values() for one in group.polls if one.once]:
            if not poll.answer.done():
                poll.answer.set_exception(error)

    async def _on_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)


async def _wait(event: asyncio.Event, limit_s: float | None) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(limit_s):
            await event.wait()


def _report(giving: asyncio.Future[None]) -> None:
    """Log that the jobs of disconnected clients could not be returned to their queue."""
    error = None if giving.cancelled() else giving.exception()
    if error is not None:
        _log.warning("Client disconnected; its jobs return when their leases expire: %s", error)
