"""What the handlers of a server share: made once for each process, ended with it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random

from tickwork.app import Tickwork
from tickwork.clock import Clock
from tickwork.core.access.scopes import Scope
from tickwork.http.auth.access import Access
from tickwork.http.auth.credential_watch import CredentialWatch
from tickwork.http.auth.refused_calls import RefusedCalls
from tickwork.http.auth.refused_hooks import RefusedDeliveries
from tickwork.http.connections.bodies import LARGE_AT_ONCE, known_room, strange_room
from tickwork.http.connections.capacity import Capacity
from tickwork.http.group_commit import GroupCommit
from tickwork.http.live.sse import followers_room, listeners_room
from tickwork.http.live.stream import ChangeStream
from tickwork.http.live.wait_jobs import JobWaits
from tickwork.http.remote.long_poll import LongPolls
from tickwork.http.store_cache import StoreCache, remembering
from tickwork.http.store_metrics import timed
from tickwork.observe.counters import Counters
from tickwork.observe.store_metrics import StoreCounts
from tickwork.services.runner import Ticks
from tickwork.store.base import Store

READY_S = 10.0  # a server whose last good answer of the database is older is not ready


class DatabasePulse:
    """A service that asks the store for the time, and remembers when it last answered."""

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
        """Seconds since the database last answered; None: it never did."""
        return None if self._answered is None else self._clock.monotonic() - self._answered


@dataclass(frozen=True, slots=True)
class ServerContext:
    """The parts. `open_scopes` are those that nobody on this machine has to ask for.

    `began` is when the process did, by the monotonic clock. `stopping` is set when the server ends: what waits for long
    ends its wait then. `ticks` are those of its services. `refused` records refused calls, `refusals` what strangers
    left at hooks. `bodies` and `strange_bodies` are what may be held of the bodies of requests, of callers whose
    credentials were checked and of others; `large_bodies` is how many large ones are decoded at a time. `listeners` and
    `followers` are the streams of changes and of logs that are open.
    """

    access: Access
    pulse: DatabasePulse
    clock: Clock
    store_counts: StoreCounts
    hub: LongPolls
    gathering: GroupCommit
    surroundings: StoreCache
    stream: ChangeStream
    permits: CredentialWatch
    tally: Counters
    refusals: RefusedDeliveries
    refused: RefusedCalls
    began: float
    open_scopes: frozenset[Scope] = frozenset()
    watch: JobWaits = field(default_factory=JobWaits)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    ticks: Ticks = field(default_factory=Ticks)
    bodies: Capacity = field(default_factory=known_room)
    strange_bodies: Capacity = field(default_factory=strange_room)
    listeners: Capacity = field(default_factory=listeners_room)
    followers: Capacity = field(default_factory=followers_room)
    large_bodies: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(LARGE_AT_ONCE))


def assembled(
    app: Tickwork, access: Access, clock: Clock, rng: Random, open_scopes: frozenset[Scope] = frozenset()
) -> ServerContext:
    """The parts of a server on the store of an app. From here on, calls of that store are counted."""
    tally = Counters()
    app.wrap_store(lambda store: remembering(timed(store, tally, clock), clock))
    store = app.store
    return ServerContext(
        access=access,
        pulse=DatabasePulse(store, clock),
        clock=clock,
        store_counts=StoreCounts(store, clock),
        hub=LongPolls(store, clock, rng, tally),
        gathering=GroupCommit(app.client),
        surroundings=StoreCache(store, clock),
        stream=ChangeStream(store, clock, rng),
        permits=CredentialWatch(access, open_scopes, clock),
        refusals=RefusedDeliveries(store),
        refused=RefusedCalls(store, access, clock),
        began=clock.monotonic(),
        open_scopes=open_scopes,
        tally=tally,
    )
