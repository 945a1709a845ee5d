"""Deterministic spreading by a hash: the same key gives the same number on every machine."""

from __future__ import annotations

from hashlib import blake2b


def spread(key: str, size: int) -> int:
    """Return a number from 0 to `size` - 1, spread evenly over keys."""
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest()) % size
