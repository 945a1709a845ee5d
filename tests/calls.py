"""A bound on what a piece of Python does that no other load on the machine moves."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def at_most_calls(most: int) -> Iterator[None]:
    """Fail when the block makes more calls than that, those into C included; 150,000 take about 50 ms."""
    made = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal made
        made += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(None)
    assert made <= most, f"{made} calls"
