"""Make ids that sort by creation time: UUIDv7 (RFC 9562), as text.

An id is 48 bits of milliseconds, a counter of 26 bits and 48 random bits. The counter keeps ids of one process
increasing within a millisecond and while the clock is set back; when it overflows, it carries into the milliseconds.
The random bits are fresh for every id, so a forked child, which inherits the counter, makes other ids than its parent.
There is no lock, which a fork could leave locked for ever: `next` on the counter is the only step that must be atomic.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import count, islice
from typing import NewType

from tickwork.errors import InvalidInput

JobId = NewType("JobId", str)
WorkerId = NewType("WorkerId", str)
ClaimId = NewType("ClaimId", int)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR_10000_MS = 253_402_300_800_000  # past the end of datetime
_COUNTER_BITS = 26
_UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


class IdMaker:
    """Make ids from a clock and a source of random bits; equal inputs give equal ids.

    Ids increase in the order in which one thread asks for them. In production `randbits` is `secrets.randbits`, which
    asks the kernel each time: the state of a generator in this process would be copied to forked children, which would
    then repeat it.
    """

    def __init__(self, now_ms: Callable[[], int], randbits: Callable[[int], int]) -> None:
        self._now_ms = now_ms
        self._randbits = randbits
        self._latest_ms = 0
        self._counter = count(randbits(_COUNTER_BITS))

    def new_id(self) -> str:
        return _text(self._stamp() + next(self._counter), f"{self._randbits(48):012x}")

    def new_ids(self, n: int) -> list[str]:
        """Return `n` increasing ids; much cheaper than `n` separate ids."""
        if n == 1:
            return [self.new_id()]
        stamp = self._stamp()
        nodes = self._randbits(48 * n).to_bytes(6 * n, "big").hex()
        steps = zip(islice(self._counter, n), range(0, 12 * n, 12), strict=True)
        return [_text(stamp + step, nodes[at : at + 12]) for step, at in steps]

    def _stamp(self) -> int:
        self._latest_ms = latest_ms = max(self._latest_ms, self._now_ms())
        return latest_ms << _COUNTER_BITS


def created_at(job_id: str) -> datetime:
    """Return when an id was made, to the millisecond, by the clock of the process that made it."""
    stamp_ms = int(job_id[:8] + job_id[9:13], 16) if is_id(job_id) else _YEAR_10000_MS
    if stamp_ms >= _YEAR_10000_MS:
        raise InvalidInput(f"{job_id!r} is not an id; ids look like 019a8f3e-1c2d-7abc-8def-0123456789ab.")
    return _EPOCH + timedelta(milliseconds=stamp_ms)


def first_id(instant: datetime) -> JobId:
    """Return the smallest id that can have been made in the millisecond of an instant or later."""
    stamp_ms = (instant - _EPOCH) // timedelta(milliseconds=1)
    return JobId(_text(max(0, stamp_ms) << _COUNTER_BITS, "000000000000"))


def is_id(text: str) -> bool:
    """Return whether a text is an id as Tickwork writes them: a UUIDv7 in lower case, with hyphens."""
    return _UUID7.fullmatch(text) is not None


def _text(stamp: int, node: str) -> str:
    return f"{_head(stamp >> 14)}{0x8000 | stamp & 0x3FFF:04x}-{node}"


@lru_cache(maxsize=8)  # ids made together share this part
def _head(stamp: int) -> str:
    return f"{stamp >> 28:08x}-{stamp >> 12 & 0xFFFF:04x}-7{stamp & 0xFFF:03x}-"
