"""Asyncio variants of synchronous methods.

The verbs of the store are synchronous and short, so each variant runs its method on a thread. A method that waits for
long needs a variant of its own, since it would occupy the thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

Self = TypeVar("Self")
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def twin(
    method: Callable[Concatenate[Self, Arguments], Result],
) -> Callable[Concatenate[Self, Arguments], Coroutine[Any, Any, Result]]:
    """Return the method as a coroutine that does not block the event loop."""

    async def awaited(self: Self, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        return await asyncio.to_thread(method, self, *args, **kwargs)

    awaited.__doc__ = f"The asyncio twin of `{method.__name__}`."
    awaited.__name__ = f"{method.__name__}_async"
    return awaited
