"""Prepare a batch of new jobs: merge keys, group equal jobs, compute times. Both stores use it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from itertools import groupby
from operator import attrgetter

import msgspec

from tickwork.core.job import NewJob
from tickwork.core.key_conflict import check_beside
from tickwork.store.rows.instants import duration_us, to_us


def merge_keys(jobs: Sequence[NewJob]) -> tuple[list[NewJob], list[int]]:
    """Merge jobs of one batch that share a key; return the jobs to store, and for each job of the batch its index
    there.

    The first job of a key gives the id, as if they came one by one; the last one that replaces gives everything else.
    Raise KeyTaken for two tasks with one key, and for a second job of a key with if_exists="error".
    """
    kept: list[NewJob] = []
    stands: list[int] = []
    places: dict[str, int] = {}
    for job in jobs:
        place = len(kept) if job.key is None else places.setdefault(job.key, len(kept))
        stands.append(place)
        if place == len(kept):
            kept.append(job)
            continue
        if job.id != kept[place].id:
            check_beside(job, kept[place])
        if job.if_exists in ("replace", "follow"):
            kept[place] = msgspec.structs.replace(job, id=kept[place].id)
    return kept, stands


_shared = attrgetter(
    "task",
    "queue",
    "priority",
    "policy",
    "collection",
    "labels",
    "parent",
    "trace",
    "creator",
    "occurrence",
    "version",
    "at",
    "delay",
    "expires_at",
)


def group_alike(jobs: Sequence[NewJob]) -> Iterable[Sequence[NewJob]]:
    """Group consecutive jobs that differ only in id, arguments and key, so that the rest is encoded once per group.

    Duplicate ids are dropped.
    """
    if len(jobs) == 1:
        return (jobs,)
    once = {job.id: job for job in jobs}
    return (list(group) for _, group in groupby(once.values(), _shared))


def due_us(job: NewJob, now: int) -> tuple[int, int, int | None]:
    """Return three instants of a new job: the requested run_at, that of its queue row, and its deadline (None: none).

    A past time is kept as the job's own, but its queue row gets the present time: claims remember how far they have
    read, and need not read earlier rows again.
    """
    asked = to_us(job.at) if job.at is not None else now + duration_us(job.delay or timedelta(0))
    run_at = max(asked, now)
    if job.expires_at is not None:
        return asked, run_at, to_us(job.expires_at)
    expires = None if job.policy.expires is None else asked + duration_us(job.policy.expires)
    return asked, run_at, expires
