"""The store verbs for attempts over REST, by clients in any language. Each attempt has a lease of its own.

A server claims as a worker does, under a worker row of its own that has no slots, and then grants leases: each attempt
gets a row in the workers table, in the state `remote`, with a lease for this attempt alone. Between the two the
server's own lease covers the attempt; if the server dies there, that lease expires and the attempt is reclaimed as any
other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

import msgspec

from tickwork.core.ids import ClaimId, JobId, WorkerId
from tickwork.core.job import Policy, WorkerView
from tickwork.core.limits.job_limits import JobLimits
from tickwork.core.limits.lanes import read_lane
from tickwork.core.placement import NOTHING, Offer
from tickwork.store.claim.types import LaneHead

FIRST = 100  # Due jobs of a place whose tasks are read; a claim takes no more.
REMOTE_SHOWN = 500  # Workers over REST that are listed one by one.
REMOTE_OTHERS = "(others)"  # The name under which the other workers over REST are counted.


class DueWork(msgspec.Struct, frozen=True):
    """The tasks that are due, by queue; `next_s`: seconds until there may be more, None if none is known."""

    tasks: Mapping[str, set[str]]
    next_s: float | None = None


class LeaseGrant(msgspec.Struct, frozen=True):
    """A lease for one attempt. `worker` is a new id; `name` is the name that the client gives itself.

    `lessee` is the caller that asked for it, as the audit log knows it.
    """

    job_id: JobId
    claim: ClaimId
    worker: WorkerId
    name: str
    lessee: str
    queues: tuple[str, ...]
    tasks: tuple[str, ...]
    lease: timedelta
    offer: Offer = NOTHING


class RemoteName(msgspec.Struct, frozen=True):
    """How a caller names an attempt over REST: by its number and its claim.

    Without the claim, the attempt is found only if this caller, `lessee`, leased it.
    """

    job_id: JobId
    attempt: int
    claim: ClaimId | None
    lessee: str


class RemoteAttempt(msgspec.Struct, frozen=True):
    """An attempt with a lease of its own, with the data needed to renew and to end it."""

    job_id: JobId
    attempt: int
    claim: ClaimId
    worker: WorkerId
    task: str
    queue: str
    policy: Policy
    failures: int
    crashes: int
    alone: bool
    job_limits: JobLimits | None
    run: str | None
    step: str | None
    claimed_at: datetime
    cancel_requested: bool
    lease_until: datetime
    losses: int = 0


class RemoteVerbs(Protocol):
    """The verbs. They return None for an attempt that is not its job's current one, or that belongs to a worker."""

    def due_work(self, queues: Sequence[str]) -> DueWork:
        """Return the tasks that a claim of these queues may find, by the first due jobs of each place."""

    def grant_leases(self, claimer: WorkerId, grants: Sequence[LeaseGrant]) -> dict[JobId, datetime]:
        """Give attempts that this worker holds leases of their own; return when each lease ends.

        An attempt missing from the result was reclaimed meanwhile.
        """

    def lease_holders(self, names: Sequence[str]) -> set[str]:
        """Return the remote workers among these that hold a lease."""

    def remote_attempt(self, name: RemoteName) -> RemoteAttempt | None:
        """Return an attempt. An expired lease still counts until it is reclaimed."""

    def renew_attempt(self, name: RemoteName, lease: timedelta) -> RemoteAttempt | None:
        """Extend the lease of one attempt and return it."""

    def append_log(self, name: RemoteName, text: str, seq: int | None, limit: int) -> int | None:
        """Store lines of an attempt, as chunk `seq` or after its last chunk; return the number of the chunk.

        A chunk that exists already is kept as it is. All chunks together are truncated to `limit` characters.
        """

    def end_leases(self, workers: Sequence[WorkerId]) -> None:
        """Delete the leases of attempts that have ended."""


class DueHeads(NamedTuple):
    """The places with due jobs, as (queue, lane, priority), and the seconds until there may be more."""

    due: list[tuple[str, str, int]]
    next_s: float | None


def due_heads(heads: Iterable[LaneHead], now_us: int, opens_at_us: int | None) -> DueHeads:
    """Split the first jobs of places into those that are due and those that will be."""
    due: list[tuple[str, str, int]] = []
    later = [] if opens_at_us is None else [opens_at_us]
    for head in heads:
        if head.run_at_us <= now_us:
            due.append((read_lane(head.lane).queue, head.lane, head.priority))
        else:
            later.append(head.run_at_us)
    return DueHeads(due, (min(later) - now_us) / 1e6 if later else None)


def with_held(workers: Iterable[WorkerView], counts: Mapping[str, int]) -> list[WorkerView]:
    """Return workers with the number of jobs that each of them runs."""
    return [replace(one, running=counts.get(one.id, 0)) for one in workers]


def within(text: str, held: int, limit: int) -> str:
    """Return as much of an attempt's new lines as the limit leaves; the last piece ends with a notice of truncation."""
    room = limit - held
    if len(text) <= room:
        return text
    notice = f"\n... more than {limit:,} characters: the rest is not kept\n"
    return text[:room] + notice if room > 0 else ""
