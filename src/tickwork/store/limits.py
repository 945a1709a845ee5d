"""The store verbs and views of flow control: limits, gates, tenant weights, and why a job is held.

A limit key is one key of a limit, or a gate. The jobs that it holds are in lanes of their own (see
core/limits/lanes.py).
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
    limits. A `search` reads a bounded number of jobs, further on each time (see store/claim/sparse_scan.py), or only
    the `ends` of the queue.
    """

    slots: int
    offer: Offer = NOTHING
    search: Literal["all", "ends"] | None = None
    prefetch: int = 0


@dataclass(frozen=True, slots=True)
class LimitView:
    """The current state of a limit. `declared` comes from code; `override` was set at run time and wins.

    `live` is the weight of the leases under it, over all keys, and `held` how many jobs it holds.
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
    """The state of one key of a limit: the weight that runs under it, and how many jobs it holds, up to HELD_COUNTED.

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

        If a rule changed, the jobs it holds are checked again.
        """

    def set_limit(self, name: str, rule: Rule | None) -> bool:
        """Override the declared rule of a limit; None restores the declared one.

        False when there is no such limit, and None was given.
        """

    def list_limits(self) -> list[LimitView]:
        """Return all limits by name."""

    def limit_keys(self, limit: str, most: int) -> list[LimitKeyView]:
        """Return keys of a limit under which jobs wait or run, or starts or failures were counted.

        At most `most` keys; those that hold the most jobs come first, then those with the most live weight.
        """

    def put_gate(self, gate: Gate) -> None:
        """Put a gate in force from now on. A gate of the same kind and selectors is replaced.

        A drop gate also ends the jobs that limits and other gates hold; other waiting jobs are dropped when a claim
        picks them.
        """

    def lift_gates(self, selects: Mapping[str, str]) -> list[Gate]:
        """Lift the gates with exactly these selectors and return them. The jobs that they hold may start."""

    def list_gates(self) -> list[GateView]:
        """Return the gates that are in force."""

    def set_weight(self, tenant: str, weight: int) -> None:
        """Set how many turns a tenant gets for each turn of a tenant of weight 1."""

    def weights(self) -> dict[str, int]:
        """Return the tenants whose weight is not 1."""

    def hold(self, job_id: JobId) -> Hold | None:
        """Return why a waiting job is held; None: it is not held."""

    def let_through(self, limit_keys: Sequence[LimitKey]) -> None:
        """Open limit keys that hold jobs, because attempts under them ended in other transactions."""

    def end_probes(self, ends: Sequence[tuple[LimitKey, JobId, bool]]) -> None:
        """Tell breakers how attempts ended: under which key, of which job, and whether it failed."""

    def open_limit_keys(self) -> int:
        """Reopen limit keys whose wake-up was lost, so that their jobs are checked again; return how many.

        Also deletes limit keys that hold nothing and have no state left.
        """
