"""Audit log rows of commands: the user who runs the command and the change, in the transaction of the change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tickwork.app import Tickwork

T = TypeVar("T")


class AuditedChange(NamedTuple):
    """A change made by a command: the value before and after it."""

    target: str
    before: Any = None
    after: Any = None


def by() -> str:
    """Return the user who runs this command, as far as the system knows: cli:ada@host."""
    import getpass
    import socket

    from tickwork.core.arguments.payload import storable

    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a user id without a name, as in many containers
        import os

        user = str(os.getuid())
    return storable(f"cli:{user}@{socket.gethostname()}")


def recorded(
    app: Tickwork, action: str, change: Callable[[], T], told: AuditedChange | Callable[[T], Sequence[AuditedChange]]
) -> T:
    """Make a change and add it to the audit log, in one transaction; return the result of the change.

    A change that returns False, 0 or an empty collection has changed nothing, and is not recorded.
    """
    from tickwork.cli.output import plain
    from tickwork.store.admin.audit import AuditRow, audit_value

    def both() -> T:
        result = change()
        if result is None or result:
            rows = [told] if isinstance(told, AuditedChange) else told(result)
            values = ((one.target, audit_value(plain(one.before)), audit_value(plain(one.after))) for one in rows)
            app.store.audit.record_changes([AuditRow(by(), action, *value) for value in values])
        return result

    return app.store.in_one_transaction(both)


def page_recorder(app: Tickwork, action: str, which: Any) -> Callable[[Callable[[], T]], T]:
    """Return a function that runs each page of a bulk change and records it in a row of its own.

    Each row has the request, and the number and ids of the jobs that changed.
    """

    def page(ids: Any) -> list[AuditedChange]:
        return [AuditedChange("jobs", which, {"count": len(ids), "ids": ids})]

    def perform(change: Callable[[], T]) -> T:
        result: T = recorded(app, action, change, page)
        return result

    return perform
