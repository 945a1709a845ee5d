"""Make schedulers and alert services with seeded ids, and read what they stored."""

import json
from random import Random
from typing import Any

from tickwork.core.ids import IdMaker
from tickwork.core.job import JobFilter
from tickwork.core.notify.rule import OWN
from tickwork.core.recurrence.interval import every
from tickwork.core.schedule.spec import new_spec
from tickwork.services.alerts import Alerts
from tickwork.services.scheduler import Scheduler
from tickwork.store.base import Store
from tickwork.store.schedules import FireView
from tickwork.testing import VirtualClock


def a_notifier(store: Store, clock: VirtualClock, seed: int = 1) -> Alerts:
    ids = IdMaker(lambda: clock.wall_us() // 1000, Random(seed).getrandbits)
    return Alerts(store, ids, clock, "https://tick.example")


def messages(store: Store) -> list[dict[str, Any]]:
    """The bodies of all messages that were enqueued, the first one first."""
    found = store.reads.list_jobs(JobFilter(collection=OWN), 1000)
    return [json.loads(view.args)["json"] for view in reversed(found)]


SECONDS = every("1s")


def a_scheduler(store: Store, clock: VirtualClock, seed: int = 1) -> Scheduler:
    return Scheduler(store, IdMaker(lambda: clock.wall_us() // 1000, Random(seed).getrandbits), clock)


def put(store: Store, rule: Any = SECONDS, name: str = "s", **given: Any) -> None:
    store.schedules.put_schedules([new_spec(name, "t", rule, **given)])


def fires(store: Store, name: str = "s") -> list[FireView]:
    return list(reversed(store.schedules.fires(name, 1000)))
