"""The schedule occurrence of a job, stored with the job as JSON. Jobs that no schedule made have none."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache

import msgspec


class Occurrence(msgspec.Struct, frozen=True, omit_defaults=True):
    """The occurrence that a job was made for. `interval` is its period: from the previous occurrence to this one."""

    schedule: str
    scheduled_for: datetime
    is_catchup: bool = False
    interval: tuple[datetime, datetime] | None = None


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Occurrence)


def encode_occurrence(occurrence: Occurrence) -> str:
    """Return an occurrence as JSON."""
    return _encoder.encode(occurrence).decode()


@lru_cache(maxsize=1024)
def decode_occurrence(text: str) -> Occurrence:
    """Return the occurrence that `encode_occurrence` was given."""
    return _decoder.decode(text)
