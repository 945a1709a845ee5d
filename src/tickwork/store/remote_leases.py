"""What a store promises of attempts that are made over REST, in whatever language: each has a lease of its own.

A server claims as a worker does, under a row of its own that has no slots, and then grants: each attempt gets a row
among the workers, in the state `remote`, whose lease is this attempt's alone. Between the two the server's own lease
covers it; should the server die there, that lease runs out and the attempt is reclaimed as any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

import msgspec

from tickwork.core.ids import ClaimId, JobId, WorkerId
from tickwork.core.job import Policy
from tickwork.core.limits.lanes import Flow
from tickwork.core.placement.needs import NOTHING, Offer

__all__ = [
    "FIRST",
    "REMOTE_OTHERS",
    "REMOTE_SHOWN",
    "DueWork",
    "LeaseGrant",
    "RemoteAttempt",
    "RemoteName",
    "RemoteVerbs",
]

FIRST = 100  # so many due jobs of a place are looked at for their tasks: no claim takes more
REMOTE_SHOWN = 500  # workers over REST that are told one by one
REMOTE_OTHERS = "(others)"  # the name under which the rest of them is counted


class DueWork(msgspec.Struct, frozen=True):
    """Which tasks are due in which queues; `next_s`: seconds until there may be more, None when nothing is known of."""

    tasks: Mapping[str, set[str]]
    next_s: float | None = None


class LeaseGrant(msgspec.Struct, frozen=True):
    """A lease for one attempt. `worker` is a new id; `name` is what the one who works calls itself.

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
    """An attempt with a lease of its own, with what is needed to renew and to end it."""

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
    flow: Flow | None
    run: str | None
    step: str | None
    claimed_at: datetime
    cancel_requested: bool
    lease_until: datetime
    losses: int = 0


class RemoteVerbs(Protocol):
    """The verbs. Whoever names an attempt that is not its job's current one, or a worker's, is told None."""

    def due_work(self, queues: Sequence[str]) -> DueWork:
        """Return which tasks a claim of these queues may find, by the first jobs of each place that are due."""

    def grant_leases(self, claimer: WorkerId, grants: Sequence[LeaseGrant]) -> dict[JobId, datetime]:
        """Give attempts that this worker holds leases of their own; return until when.

        One that is missing in the answer was reclaimed meanwhile.
        """

    def lease_holders(self, names: Sequence[str]) -> set[str]:
        """Return those of these remote workers that hold a lease."""

    def remote_attempt(self, name: RemoteName) -> RemoteAttempt | None:
        """Return how an attempt stands. A lease that ran out, and that nobody has reclaimed, still counts."""

    def renew_attempt(self, name: RemoteName, lease: timedelta) -> RemoteAttempt | None:
        """Extend the lease of one attempt; return how it stands then."""

    def append_log(self, name: RemoteName, text: str, seq: int | None, limit: int) -> int | None:
        """Store lines of an attempt, as chunk `seq` or the one after its last; return which.

        A chunk that is there already stays as it is. Of all chunks together `limit` characters are kept.
        """

    def end_leases(self, workers: Sequence[WorkerId]) -> None:
        """Forget the leases of attempts that have ended."""
