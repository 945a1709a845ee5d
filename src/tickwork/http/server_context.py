"""The objects that the handlers of a server share, created once for each process."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random

from tickwork.app import Tickwork
from tickwork.clock import Clock
from tickwork.core.access.scopes import Scope
from tickwork.http.auth.access import Access, CredentialWatch
from tickwork.http.auth.refusals import RefusedCalls, RefusedDeliveries
from tickwork.http.connections.bodies import LARGE_AT_ONCE, Capacity, authenticated_capacity, unauthenticated_capacity
from tickwork.http.group_commit import GroupCommit
from tickwork.http.live.stream import ChangeStream, followers_capacity, listeners_capacity
from tickwork.http.live.wait_jobs import JobWaits
from tickwork.http.remote.long_poll import LongPolls
from tickwork.http.time_store_calls import time_verbs
from tickwork.http.worker_and_task_cache import CachedRegistrations, StoreCache
from tickwork.observe.counters import Counters
from tickwork.observe.store_metrics import StoreCounts
from tickwork.services.runner import Ticks
from tickwork.store.base import Store

READY_S = 10.0  # a server whose database last answered longer ago is not ready


class DatabasePulse:
    """A service that asks the store for the time, and remembers when the store last answered."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._answered: float | None = None

    def tick(self, now: float) -> float:
        self._store.now()
        self._answered = self._clock.monotonic()
        return READY_S / 5

    @property
    def age_s(self) -> float | None:
        """Return the seconds since the database last answered, or None if it never did."""
        return None if self._answered is None else self._clock.monotonic() - self._answered


@dataclass(frozen=True, slots=True)
class ServerContext:
    """The objects that the handlers of a server share.

    `open_scopes` are the scopes of callers on this machine that send no credentials.

    `registrations` caches the workers and the definitions of tasks; the app reads them from it, too. `began` is the
    start of the process on the monotonic clock. `stopping` is set when the server stops, and ends long waits. `ticks`
    are the last ticks of its services. `refused` records refused calls, `refusals` refused deliveries of hooks.
    `bodies` and `unauthenticated_bodies` limit the memory for request bodies of authenticated and other callers;
    `large_bodies` limits how many large bodies are decoded at a time. `listeners` and `followers` limit the open
    streams of changes and of logs.
    """

    access: Access
    pulse: DatabasePulse
    clock: Clock
    store_counts: StoreCounts
    long_polls: LongPolls
    group_commit: GroupCommit
    store_cache: StoreCache
    registrations: CachedRegistrations
    stream: ChangeStream
    credential_watch: CredentialWatch
    tally: Counters
    refusals: RefusedDeliveries
    refused: RefusedCalls
    began: float
    open_scopes: frozenset[Scope] = frozenset()
    watch: JobWaits = field(default_factory=JobWaits)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    ticks: Ticks = field(default_factory=Ticks)
    bodies: Capacity = field(default_factory=authenticated_capacity)
    unauthenticated_bodies: Capacity = field(default_factory=unauthenticated_capacity)
    listeners: Capacity = field(default_factory=listeners_capacity)
    followers: Capacity = field(default_factory=followers_capacity)
    large_bodies: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(LARGE_AT_ONCE))


def build_context(
    app: Tickwork, access: Access, clock: Clock, rng: Random, open_scopes: frozenset[Scope] = frozenset()
) -> ServerContext:
    """Return the shared objects of a server; from now on, store calls are timed and the app uses the cache."""
    tally, store = Counters(), app.store
    time_verbs(store, tally, clock)
    app.cached_registrations = registrations = CachedRegistrations(store.reads, clock)
    return ServerContext(
        access=access,
        pulse=DatabasePulse(store, clock),
        clock=clock,
        store_counts=StoreCounts(store, clock),
        long_polls=LongPolls(store, clock, rng, tally),
        group_commit=GroupCommit(app.client),
        store_cache=StoreCache(store, registrations, clock),
        registrations=registrations,
        stream=ChangeStream(store, clock, rng),
        credential_watch=CredentialWatch(access, open_scopes, clock),
        refusals=RefusedDeliveries(store),
        refused=RefusedCalls(store, access, clock),
        began=clock.monotonic(),
        open_scopes=open_scopes,
        tally=tally,
    )
