"""Where those wait who ask for work over REST: one watcher for all of them.

Everything here happens on the event loop; the store is called on a thread of the hub's own. While somebody waits, the
hub looks when the store calls, when the next job is due, and once a second. Equal requests are served by one claim, and
whoever came first is first. While nobody waits, it does nothing.
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
from tickwork.http.remote.claimer import LeasedAttempt, LeaseRequest, RemoteClaimer, WantedJobs
from tickwork.http.remote.finish import RemoteFinisher
from tickwork.observe.counters import Counters
from tickwork.services.runner import Backoff
from tickwork.store.base import Store, Waiter

T = TypeVar("T")
_log = logging.getLogger("tickwork.http")
POLL_S = 1.0
REST_S = 0.02  # between two looks, however often the store calls
SCARCE_SHARE = 30  # what was not found among jobs of others is looked for in at most this part of the time
_numbers = count()


class _WaitingPoll:
    """One request that waits. `once`: the next look answers it, whatever that brings. `gone`: nobody hears the answer.

    `served`: a claim for it is under way, whose end it has to wait for.
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
    """Those who want the same, in the order in which they came."""

    def __init__(self, wanted: WantedJobs) -> None:
        self.wanted = wanted
        self.polls: list[_WaitingPoll] = []
        self.not_before = 0.0

    def next(self) -> list[_WaitingPoll]:
        """Who is served next: all of them, or the first one, where what it offers is its own."""
        waiting = [poll for poll in self.polls if not poll.answer.done()]
        return waiting[:1] if self.wanted.offer.resources else waiting


class LongPolls:
    """Serves long polls. It starts with the first of them, and ends with its event loop, or when it is closed."""

    def __init__(self, store: Store, clock: Clock, rng: Random, tally: Counters) -> None:
        self.ends = RemoteFinisher(store, clock, rng, tally)
        self._store = store
        self._clock = clock
        self._claimer = RemoteClaimer(store, self.ends, clock)
        self._backoff = Backoff("leases over REST", rng)
        self._groups: dict[tuple[object, ...], _PollGroup] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tickwork-hub")
        self._called = asyncio.Event()  # by the store, or by somebody new
        self._asked = asyncio.Event()  # by somebody new
        self._fresh: list[_PollGroup] = []  # where somebody new waits
        self._look_at = 0.0  # when to look for everybody
        self._running: asyncio.Task[None] | None = None
        self._stopped = False

    async def poll(
        self, wanted: WantedJobs, asker: LeaseRequest, wait_s: float, gone: Coroutine[Any, Any, object]
    ) -> list[LeasedAttempt]:
        """Wait for jobs, at most so long, and until whoever asks is `gone`: they get nothing.

        Raises StoreError when it is not to wait, and the store does not answer.
        """
        poll = self._enter(wanted, asker, once=wait_s <= 0)
        leaving = asyncio.ensure_future(gone)
        both = (poll.answer, leaving)
        try:
            await asyncio.wait(both, timeout=wait_s or None, return_when=asyncio.FIRST_COMPLETED)
            if poll.served:  # it may be given something at this moment
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
        """Answer all that wait with nothing; from here on nobody waits."""
        self._stopped = True
        for poll in [one for group in self._groups.values() for one in group.polls if not one.served]:
            poll.give([])

    async def close(self) -> None:
        """End the watcher."""
        self.stop()
        if self._running is not None:
            self._running.cancel()
            with suppress(asyncio.CancelledError):
                await self._running
        self._thread.shutdown(wait=False)

    # -- who waits

    def _enter(self, wanted: WantedJobs, asker: LeaseRequest, *, once: bool) -> _WaitingPoll:
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
        """Nobody waits there any more. What they were given and do not hear of is given back."""
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
        """Wait until there may be something to do; while nobody waits, until somebody does."""
        loop = asyncio.get_running_loop()
        watched = -1
        if waiter is not None and self._groups:
            watched = waiter.fileno()  # it may be another one each time
        if waiter is not None and watched >= 0:
            loop.add_reader(watched, self._call, waiter)
        try:
            await _wait(self._called, self._look_at - self._clock.monotonic() if self._groups else None)
        finally:
            if watched >= 0:
                loop.remove_reader(watched)

    def _call(self, waiter: Waiter) -> None:
        """The store called: there may be something for everybody."""
        waiter.clear()
        self._look_at = 0.0
        self._called.set()

    async def _look_around(self, now: float) -> None:
        """Look for those who are new, or for everybody if it is time to."""
        everybody = now >= self._look_at
        groups = list(self._groups.values()) if everybody else self._fresh
        self._fresh = []
        if everybody:
            self._look_at = now + POLL_S
        wait_s = await self._look([group for group in groups if group.polls])
        self._look_at = min(self._look_at, self._clock.monotonic() + wait_s)

    async def _look(self, groups: list[_PollGroup]) -> float:
        """Look once for those who wait there; return in how many seconds to look again."""
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
        """Claim for those of a group; return in how many seconds that may bring more."""
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
        if poll.gone or poll.answer.done():
            self._give_back(leased)
        elif leased or poll.once or self._stopped:
            poll.give(leased)
            group.polls = [one for one in group.polls if one is not poll]

    def _fail(self, error: Exception) -> None:
        """Those who do not wait are told; the others may be luckier."""
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
    error = None if giving.cancelled() else giving.exception()
    if error is not None:
        _log.warning("Jobs of somebody who is gone come back when their leases end: %s", error)
