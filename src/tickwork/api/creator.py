"""The creator stored with each new job, by which an operator finds the jobs that a user or component started.

A creator is a text of a kind and a name: `user:ada`, `key:deploy` and `nobody` (over REST, as in the audit log),
`cli:ada@host`, `schedule:nightly`, `hook:github`, `notification:ops` and `job:<id>` (a handler of that job enqueued
it). Jobs that a program enqueues through the library have none: the library does not know who runs the program.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tickwork.context import current_or_none

_creator: ContextVar[str | None] = ContextVar("tickwork_creator", default=None)


@contextmanager
def creating_as(creator: str) -> Iterator[None]:
    """Set the creator of the jobs that this thread or coroutine makes inside the block."""
    before = _creator.set(creator)
    try:
        yield
    finally:
        _creator.reset(before)


def current_creator() -> str | None:
    """Return the creator of a job made now. Inside a handler it is the handler's job.

    A batch handler runs many jobs in one call, and the job on whose behalf it makes another is not known: None.
    """
    asking = current_or_none()
    if asking is None:
        return _creator.get()
    return None if asking.batch else f"job:{asking.id}"
