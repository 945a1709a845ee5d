"""Wait for a condition instead of a period of time."""

import time
from collections.abc import Callable
from typing import TypeVar

import pytest

Value = TypeVar("Value")


def eventually(condition: Callable[[], Value], within_s: float = 10.0, what: str = "") -> Value:
    """Ask until the answer is true, and return it; fail when that takes longer than `within_s`."""
    deadline = time.monotonic() + within_s
    while not (value := condition()):
        if time.monotonic() > deadline:
            pytest.fail(f"not true within {within_s:g} s: {what or condition}; it is {value!r}")
        time.sleep(0.005)
    return value
