"""Encode and decode the stored state of a limit key: what a rate, a breaker or a sequence remembers between claims."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from tickwork.core.limits.breaker import Breaker, BreakerState, Rule
from tickwork.core.limits.job_limits import limit_key_of
from tickwork.core.limits.limits import Rate
from tickwork.store.claim.types import LimitState, State
from tickwork.store.limits import LimitKeyView
from tickwork.store.rows.limits import decode_rule


def encode_state(state: State) -> str:
    """Encode a limit state: the arrival time of a rate, the state of a breaker, or the marker of a sequence."""
    return msgspec.json.encode(state).decode()


def read_state(rule: Rule | None, live: int, state: str | None) -> LimitState:
    """Return the state of a limit key from its rule, live weight and stored text, decoded by the kind of the rule.

    Text that was stored under a rule of another kind is ignored.
    """
    if state is None or rule is None:
        return LimitState(rule, live)
    if isinstance(rule, Breaker):
        return LimitState(rule, live, breaker=_state_of(state, BreakerState, BreakerState()))
    if isinstance(rule, Rate):
        return LimitState(rule, live, arrival_us=_state_of(state, int, 0))
    return LimitState(rule, live, marker=_state_of(state, tuple[int, str], None))


def key_view(
    name: str, rule: str | None, state: str | None, live: int, held: int, opens_at: datetime | None
) -> LimitKeyView:
    """Return the view of one key of a limit, for the CLI, the API and the UI."""
    known = read_state(decode_rule(rule), live, state)
    return LimitKeyView(limit_key_of(name).key, live, held, opens_at, known.breaker)


def is_idle_state(state: str | None, rule: str | None, now_us: int) -> bool:
    """Return whether the stored state of a limit key has no effect any more, so that its row can be deleted.

    The state of a gate, which has no rule here, is the arrival time of its rate.
    """
    if rule is None:
        return state is None or _state_of(state, int, 0) <= now_us
    known = read_state(decode_rule(rule), 0, state)
    return known.arrival_us <= now_us and known.breaker == BreakerState() and known.marker is None


def _state_of(text: str, kind: Any, otherwise: Any) -> Any:
    """Decode a state as `kind`; return `otherwise` if it is of another kind."""
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.ValidationError:
        return otherwise
