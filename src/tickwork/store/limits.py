"""The store verbs and views of flow control: limits, gates, tenant weights, and why a job is held.

A limit key is one key of a limit, or a gate. It is open while its held jobs may be claimed, and closed while they wait.
The jobs that it holds are in lanes of their own (see core/limits/lanes.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

import msgspec

from tickwork.core.ids import JobId
from tickwork.core.limits.breaker import BreakerState, Rule
from tickwork.core.limits.gates import Gate, Hold
from tickwork.core.limits.job_limits import LimitKey
from tickwork.core.placement import NOTHING, Offer

__all__ = ["GateView", "Hold", "LimitKeyView", "LimitVerbs", "LimitView", "LimitedCapacity", "Rule"]
HELD_COUNTED = 1_000  # Held jobs counted under a key at most.


class LimitedCapacity(msgspec.Struct, frozen=True):
    """The capacity of a worker for limited jobs: free slots, and the free part of its resources.

    Jobs with needs or under a rate limit are claimed for free slots alone. Of other jobs up to `prefetch` more are
    claimed, which start as soon as a slot is free; store/claim/admission.py bounds how many of these may be under
    limits. With `search`, the claim is a sparse scan (store/claim/sparse_scan.py), of whole lanes ("all") or of their
    ends.
    """

    slots: int
    offer: Offer = NOTHING
    search: Literal["all", "ends"] | None = None
    prefetch: int = 0


@dataclass(frozen=True, slots=True)
class LimitView:
    """The state of a limit: the rule `declared` in code, and the `override` that was set at run time, which takes
    precedence.

    `live` is the weight of the running jobs that use it, over all keys; `held` is how many jobs it holds.
    """

    name: str
    declared: Rule | None
    override: Rule | None
    live: int
    held: int

    @property
    def rule(self) -> Rule | None:
        """Return the rule in force."""
        return self.declared if self.override is None else self.override


@dataclass(frozen=True, slots=True)
class LimitKeyView:
    """The state of one key of a limit: the weight of its running jobs, and how many jobs it holds, up to HELD_COUNTED.

    `opens_at` is when the held jobs are checked next, None: when a job ends. `breaker` is the state of a breaker.
    """

    key: str
    live: int
    held: int
    opens_at: datetime | None
    breaker: BreakerState


@dataclass(frozen=True, slots=True)
class GateView:
    """A gate in force, since when, how many jobs it holds now, and how many it has dropped or diverted so far."""

    gate: Gate
    since: datetime
    held: int
    passed_on: int


class LimitVerbs(Protocol):
    """The verbs of flow control. Each is safe to run twice."""

    def declare_limits(self, rules: Mapping[str, Rule]) -> None:
        """Store the limits and breakers that code declares, by name.

        If a rule has changed, the jobs that it holds are checked again.
        """

    def set_limit(self, name: str, rule: Rule | None) -> bool:
        """Override the declared rule of a limit, or remove the override (None).

        Return False, and change nothing, if None was given and there is no such limit.
        """

    def list_limits(self) -> list[LimitView]:
        """Return all limits, sorted by name."""

    def limit_keys(self, limit: str, most: int) -> list[LimitKeyView]:
        """Return up to `most` keys of a limit that hold jobs, are used by running jobs, or have a stored state.

        The keys that hold the most jobs come first, then those with the most live weight.
        """

    def put_gate(self, gate: Gate) -> None:
        """Put a gate in force from now on, and replace a gate of the same kind and selectors.

        A drop gate also ends the matching jobs that limits and other gates hold; other waiting jobs are dropped when a
        claim picks them.
        """

    def lift_gates(self, selects: Mapping[str, str]) -> list[Gate]:
        """Delete the gates with exactly these selectors, and return them. The jobs that they hold may start."""

    def list_gates(self) -> list[GateView]:
        """Return the gates that are in force."""

    def set_weight(self, tenant: str, weight: int) -> None:
        """Set how many turns a tenant gets for each turn of a tenant of weight 1."""

    def weights(self) -> dict[str, int]:
        """Return the weights of the tenants whose weight is not 1."""

    def hold(self, job_id: JobId) -> Hold | None:
        """Return which limit or gate holds a waiting job, and why; None if the job is not held."""

    def let_through(self, limit_keys: Sequence[LimitKey]) -> None:
        """Open these limit keys, where they hold jobs, because attempts that used them have ended in other
        transactions.
        """

    def end_probes(self, ends: Sequence[tuple[LimitKey, JobId, bool]]) -> None:
        """Report the ends of attempts to breakers, as (limit key, job, whether the attempt failed)."""

    def open_limit_keys(self) -> int:
        """Open limit keys that hold jobs and have free capacity, but no scheduled opening time; return how many.

        This repairs openings that were lost. Limit keys, holds and gates that no longer restrict any job are deleted.
        """
