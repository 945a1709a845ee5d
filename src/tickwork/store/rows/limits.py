"""Convert the rules of limits; shared by both stores."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from tickwork.core.limits.breaker import Breaker
from tickwork.core.limits.limits import Concurrency, Rate
from tickwork.core.option_parsing import VersionedJson
from tickwork.store.limits import Rule

RULES = VersionedJson("rule", msgspec.json.Decoder(Concurrency | Rate | Breaker))


@lru_cache(maxsize=4096)
def decode_rule(text: str | None) -> Rule | None:
    """Decode the rule of a limit; None for None."""
    return None if text is None else RULES.decode(text.encode())


def encode_rule(rule: Rule) -> str:
    """Encode the rule of a limit as JSON."""
    return RULES.encode(rule).decode()
