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
    """The names of the tasks with due jobs, by queue.

    `next_s`: seconds until there may be more, None if no time is known.
    """

    tasks: Mapping[str, set[str]]
    next_s: float | None = None


class LeaseGrant(msgspec.Struct, frozen=True):
    """A request to give one attempt a lease of its own. `worker` is the new id of the lease's row in the workers table.

    `name` is the name that the client gives itself, `lessee` the caller that asked, as the audit log names it.
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
    """The verbs of attempts over REST.

    The verbs that take a RemoteName return None for an attempt that is not the current one of its job, or that belongs
    to a worker.
    """

    def due_work(self, queues: Sequence[str]) -> DueWork:
        """Return the tasks that a claim of these queues may find.

        Of each lane and priority the first due jobs are read.
        """

    def grant_leases(self, claimer: WorkerId, grants: Sequence[LeaseGrant]) -> dict[JobId, datetime]:
        """Give attempts that the server `claimer` holds leases of their own; return for each job when its lease ends.

        An attempt that is missing from the result was reclaimed meanwhile.
        """

    def lease_holders(self, names: Sequence[str]) -> set[str]:
        """Return which of these names of remote workers have a lease."""

    def remote_attempt(self, name: RemoteName) -> RemoteAttempt | None:
        """Return an attempt. One whose lease has expired is returned, too, until it is reclaimed."""

    def renew_attempt(self, name: RemoteName, lease: timedelta) -> RemoteAttempt | None:
        """Extend the lease of an attempt, and return the attempt."""

    def append_log(self, name: RemoteName, text: str, seq: int | None, limit: int) -> int | None:
        """Store lines of an attempt as chunk `seq` (None: after its last chunk); return the number of the chunk.

        A chunk that exists already is not changed. All chunks together are truncated to `limit` characters.
        """

    def end_leases(self, workers: Sequence[WorkerId]) -> None:
        """Delete the leases, by the ids of their rows, of attempts that have ended."""


class DueHeads(NamedTuple):
    """The lanes with due jobs, as (queue, lane, priority), and the seconds until there may be more (None: unknown)."""

    due: list[tuple[str, str, int]]
    next_s: float | None


def due_heads(heads: Iterable[LaneHead], now_us: int, opens_at_us: int | None) -> DueHeads:
    """Return the lanes whose first job is due, and the seconds until another one is or a limit opens."""
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
    """Return the part of an attempt's new lines that fits `limit`, after `held` characters that are stored already.

    The last part ends with a notice of truncation; after it the result is empty.
    """
    room = limit - held
    if len(text) <= room:
        return text
    notice = f"\n... more than {limit:,} characters: the rest is not kept\n"
    return text[:room] + notice if room > 0 else ""
