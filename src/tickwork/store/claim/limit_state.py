"""The stored state of one key of a limit: what a rate, a breaker or a sequence remembers between claims."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from tickwork.core.limits.breaker import Breaker, BreakerState, Rule
from tickwork.core.limits.lanes import passage_of
from tickwork.core.limits.limits import Rate
from tickwork.store.claim.types import LimitState, State
from tickwork.store.limits import LimitKeyView
from tickwork.store.row_codec import decode_rule


def encode_state(state: State) -> str:
    """The state of a turnstile: a rate's arrival, a breaker's state, or the place of a sequence's first job."""
    return msgspec.json.encode(state).decode()


def stile(rule: Rule | None, live: int, state: str | None) -> LimitState:
    """A turnstile with the state that goes with its rule; one that was of another rule says nothing."""
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
    """A key of a limit, for those who look."""
    known = stile(decode_rule(rule), live, state)
    return LimitKeyView(passage_of(name).key, live, held, opens_at, known.breaker)


def says_nothing(state: str | None, rule: str | None, now_us: int) -> bool:
    """Whether the state of a turnstile is as good as none. That of a gate, which has no rule, is an arrival, too."""
    if rule is None:
        return state is None or _state_of(state, int, 0) <= now_us
    known = stile(decode_rule(rule), 0, state)
    return known.arrival_us <= now_us and known.breaker == BreakerState() and known.marker is None


def _state_of(text: str, kind: Any, otherwise: Any) -> Any:
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.ValidationError:
        return otherwise
