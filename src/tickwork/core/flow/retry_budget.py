"""A budget for retries, so that a failure of many jobs at once does not come back as a storm.

Retries of a queue start at an even pace: a share of how often anything started in it lately. What is above it is put
off, not charged and not lost. The pace follows the load, so a busy queue repairs itself quickly, and no queue is slower
than the floor. The window is long, so that a burst which fails does not raise the pace of its own retries much. Only
shares are counted: when each worker keeps a budget of its own starts, the shares add up to the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import msgspec

from tickwork.core.flow import pace
from tickwork.core.flow.reading import read_span, read_whole, to_us
from tickwork.core.flow.stored import Form
from tickwork.core.flow.tally import Tally
from tickwork.errors import InvalidOption

_CREDIT_US = 100_000
_SECOND_US = 1_000_000


class RetryBudget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Retries a second are at most `share` of the starts a second in `window`, and `floor` a second in any case."""

    share: float = 0.2
    window: timedelta = timedelta(minutes=2)
    floor: int = 10

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise InvalidOption(f"the share of a retry budget is from 0 to 1, not {self.share!r}.")
        read_span("the window of a retry budget", self.window, timedelta(seconds=1), timedelta(hours=1))
        read_whole("the floor of a retry budget", self.floor, 1, 10_000)


class BudgetState(msgspec.Struct, frozen=True, array_like=True):
    """What started lately, and when the next retry is due at an even pace."""

    started: Tally = Tally()
    arrival_us: int = 0


BUDGETS = Form("retry_budget", msgspec.json.Decoder(RetryBudget))
BUDGET_STATES = Form("retry_budget_state", msgspec.json.Decoder(BudgetState))


@dataclass(frozen=True, slots=True)
class Grant:
    """How many retries may start now; the others are put off until `opens_at_us`."""

    count: int
    opens_at_us: int | None
    state: BudgetState


def started(budget: RetryBudget, state: BudgetState, count: int, now_us: int) -> BudgetState:
    """Return the state after `count` jobs have started, retries among them."""
    tally = state.started.added(count, now_us, to_us(budget.window))
    return msgspec.structs.replace(state, started=tally)


def grant(budget: RetryBudget, state: BudgetState, wanted: int, now_us: int) -> Grant:
    """Let as many of the wanted retries start as the budget has room for."""
    interval_us = _interval_us(budget, state, now_us)
    burst = _CREDIT_US // interval_us
    arrival_us = pace.settled(state.arrival_us, interval_us, burst, now_us)
    count = min(wanted, pace.room(arrival_us, interval_us, burst, now_us))
    if count:
        arrival_us = pace.arrival_after(arrival_us, count, interval_us, now_us)
    opens_at_us = pace.opens_at_us(arrival_us, 1, interval_us, burst) if count < wanted else None
    return Grant(count, opens_at_us, msgspec.structs.replace(state, arrival_us=arrival_us))


def _interval_us(budget: RetryBudget, state: BudgetState, now_us: int) -> int:
    """The time between two retries; rounded up, so that they are never more than the share."""
    window_us = to_us(budget.window)
    lately = int(budget.share * state.started.total(now_us, window_us))
    return min(-(-_SECOND_US // budget.floor), -(-window_us // max(lately, 1)))
