"""Verbs as steps: generators that yield statements with their values, and are sent the rows.

One text of a verb serves our own connections and those of callers, sync and async, whichever library they belong to.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from typing import Any, TypeVar

T = TypeVar("T")
Values = dict[str, Any]
Rows = list[Any]
Statement = tuple[str, Values]
Steps = Generator[Statement, Rows, T]

PLACE = re.compile(r"%\((\w+)\)s")


def drive(steps: Steps[T], run: Callable[[str, Values], Rows]) -> T:
    """Carry out steps with `run`."""
    try:
        sql, values = next(steps)
        while True:
            sql, values = steps.send(run(sql, values))
    except StopIteration as done:
        result: T = done.value
        return result
