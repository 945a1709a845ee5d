"""Start the background services of a store. Every worker and every server runs all of them, without a leader."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from random import Random

from tickwork.clock import Clock
from tickwork.config import Settings
from tickwork.core.ids import IdMaker
from tickwork.observe.counters import Counters
from tickwork.services.alerts import Alerts
from tickwork.services.audit_chainer import AuditChainer
from tickwork.services.bulk_operations import BulkOperations
from tickwork.services.limit_sweeper import LimitSweeper
from tickwork.services.pruner import Pruner
from tickwork.services.reaper import Expirer, Reaper
from tickwork.services.runner import Runner
from tickwork.services.scheduler import Scheduler
from tickwork.store.base import Store

Nudge = Callable[[], None]


def start_services(
    runner: Runner,
    store: Store,
    clock: Clock,
    rng: Random,
    *,
    may_fire: Callable[[], bool] = lambda: True,
    own: Callable[[], str | None] = lambda: None,
    tally: Counters | None = None,
    settings: Settings | None = None,
) -> Nudge:
    """Start the services; return a function that makes the scheduler look at once.

    `own` returns the worker of this process, if any.
    """
    settings = settings or Settings()
    ids = IdMaker(lambda: clock.wall_us() // 1000, secrets.randbits)
    nudge = runner.start(Scheduler(store, ids, clock, may_fire))
    runner.start(Reaper(store, rng, own, tally, settings.reap_every().total_seconds()))
    runner.start(Expirer(store, clock))
    runner.start(LimitSweeper(store, clock))
    runner.start(BulkOperations(store))
    runner.start(AuditChainer(store, clock))
    runner.start(Pruner(store, settings.kept(), clock))
    runner.start(Alerts(store, ids, clock, settings.public_url))
    return nudge
