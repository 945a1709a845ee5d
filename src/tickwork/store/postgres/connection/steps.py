"""Steps: verbs written as generators that yield statements with values and receive the rows.

One implementation of a verb runs on Tickwork's own connections and on the caller's, sync and async, with any library.
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
    """Run steps to their end with `run`; return their result."""
    try:
        sql, values = next(steps)
        while True:
            sql, values = steps.send(run(sql, values))
    except StopIteration as done:
        result: T = done.value
        return result
