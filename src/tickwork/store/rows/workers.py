"""Convert the rows of workers and of what they offer; shared by both stores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec

from tickwork.core.job import WorkerView
from tickwork.core.placement import ClaimingWorker, Offer


@lru_cache(maxsize=256)
def decode_offer(text: str) -> Offer:
    """Decode the labels and resources that a worker offers."""
    return msgspec.json.decode(text, type=Offer)


@lru_cache(maxsize=1024)
def decode_names(text: str) -> tuple[str, ...]:
    """Decode the names of queues, tasks or schedules in a worker's row."""
    return msgspec.json.decode(text, type=tuple[str, ...])


def claiming_worker(worker: str, queues: str, offer: str) -> ClaimingWorker:
    """Decode the row of a worker that claims jobs."""
    return ClaimingWorker(worker, decode_names(queues), decode_offer(offer))


def encode_offer(offer: Offer) -> str:
    """Encode the labels and resources that a worker offers as JSON."""
    return msgspec.json.encode(offer).decode()


def worker_view(row: Sequence[Any], instant: Callable[[Any], datetime]) -> WorkerView:
    """Decode the row of a worker as lists show it."""
    id, host, pid, version, queues, tasks, slots, schedules, offer, state, began, until, running, asked = row
    return WorkerView(
        id=id,
        host=host,
        pid=pid,
        version=version,
        queues=decode_names(queues),
        tasks=decode_names(tasks),
        slots=slots,
        state=state,
        started_at=instant(began),
        lease_until=instant(until),
        running=running,
        schedules=decode_names(schedules),
        offer=decode_offer(offer),
        asked=asked,
    )
