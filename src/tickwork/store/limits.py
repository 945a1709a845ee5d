"""What a store promises of flow control: limits, gates, the weights of tenants, and what holds a job.

A *turnstile* is one key of a limit, or a gate. What it holds stands in lanes of its own (see core/limits/lanes.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

import msgspec

from tickwork.core.ids import JobId
from tickwork.core.limits.breaker import BreakerState, Rule
from tickwork.core.limits.gates import Gate
from tickwork.core.limits.hold_view import Hold
from tickwork.core.limits.limits import LimitKey
from tickwork.core.placement.needs import NOTHING, Offer

__all__ = ["GateView", "Hold", "LimitKeyView", "LimitVerbs", "LimitView", "LimitedCapacity", "Rule"]
HELD_COUNTED = 1_000  # so many held jobs are counted under a key


class LimitedCapacity(msgspec.Struct, frozen=True):
    """What a worker has room for: free slots, and what is free of its resources.

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
    """A limit as it stands. `declared` is what code last said, `override` what somebody said at run time, which wins.

    `live` is the weight of the leases under it, over all keys, and `held` how many jobs it holds.
    """

    name: str
    declared: Rule | None
    override: Rule | None
    live: int
    held: int

    @property
    def rule(self) -> Rule | None:
        return self.declared if self.override is None else self.override


@dataclass(frozen=True, slots=True)
class LimitKeyView:
    """One key of a limit: the weight of what runs under it, and how many jobs it holds, up to HELD_COUNTED.

    `opens_at` is when what it holds is judged next, None: when a job ends. `breaker` is how a breaker stands there.
    """

    key: str
    live: int
    held: int
    opens_at: datetime | None
    breaker: BreakerState


@dataclass(frozen=True, slots=True)
class GateView:
    """A gate in force, since when, how many jobs it holds now and how many it has dropped or diverted so far."""

    gate: Gate
    since: datetime
    held: int
    passed_on: int


class LimitVerbs(Protocol):
    """The verbs of flow control. Each is safe to run twice."""

    def declare_limits(self, rules: Mapping[str, Rule]) -> None:
        """Store what code says of limits and breakers by their names. What they hold is judged anew if they changed."""

    def set_limit(self, name: str, rule: Rule | None) -> bool:
        """Have a rule hold instead of the declared one, from now on; None: the declared one again.

        False when there is no such limit, and None was given.
        """

    def limits(self) -> list[LimitView]:
        """Return all limits by name."""

    def limit_keys(self, limit: str, most: int) -> list[LimitKeyView]:
        """Return keys of a limit under which jobs wait or run, or starts or failures were counted.

        At most so many; those that hold the most come first, then those with the most live.
        """

    def put_gate(self, gate: Gate) -> None:
        """Have a gate in force from now on. One of the same kind and selectors is replaced.

        A drop also ends what limits and other gates hold; what else waits is dropped when a claim comes to it.
        """

    def lift_gates(self, selects: Mapping[str, str]) -> list[Gate]:
        """End the gates that select exactly this; return them. What they hold may start."""

    def gates(self) -> list[GateView]:
        """Return the gates that are in force."""

    def set_weight(self, tenant: str, weight: int) -> None:
        """Give a tenant so many turns for each one of a tenant of weight 1."""

    def weights(self) -> dict[str, int]:
        """Return the tenants whose weight is not 1."""

    def hold(self, job_id: JobId) -> Hold | None:
        """Return what holds a waiting job; None: nothing does."""

    def let_through(self, passages: Sequence[LimitKey]) -> None:
        """Have turnstiles that hold jobs look again: attempts under them ended in transactions of others."""

    def end_probes(self, ends: Sequence[tuple[LimitKey, JobId, bool]]) -> None:
        """Tell breakers how attempts ended: which one, whose, and whether it failed."""

    def open_turnstiles(self) -> int:
        """Have what is held judged anew wherever nothing else would bring it back; return how many were opened.

        Also forgets turnstiles that hold nothing and say nothing.
        """
