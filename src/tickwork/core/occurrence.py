"""What a job that a schedule made knows of its occurrence. Stored with the job as JSON; other jobs have none."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache

import msgspec


class Occurrence(msgspec.Struct, frozen=True, omit_defaults=True):
    """The occurrence that a job stands for. `interval` is its period: from the occurrence before it to it."""

    schedule: str
    scheduled_for: datetime
    is_catchup: bool = False
    interval: tuple[datetime, datetime] | None = None


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Occurrence)


def encode_tick(tick: Occurrence) -> str:
    """Return a tick as JSON."""
    return _encoder.encode(tick).decode()


@lru_cache(maxsize=1024)
def decode_tick(text: str) -> Occurrence:
    """Return the tick that `encode_tick` was given."""
    return _decoder.decode(text)
