"""What commands add to the audit log: who runs them, and what they changed, in the transaction of the change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tickwork.app import Tickwork

T = TypeVar("T")


class AuditedChange(NamedTuple):
    """Something that a command changed: how it was before, and after."""

    target: str
    before: Any = None
    after: Any = None


def by() -> str:
    """Who runs this command, as far as the system knows: cli:ada@host."""
    import getpass
    import socket

    from tickwork.core.arguments.payload import storable

    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a number without a name, as in many containers
        import os

        user = str(os.getuid())
    return storable(f"cli:{user}@{socket.gethostname()}")


def recorded(
    app: Tickwork, action: str, change: Callable[[], T], told: AuditedChange | Callable[[T], Sequence[AuditedChange]]
) -> T:
    """Carry out a change and add it to the audit log, in one transaction; return what it returned.

    A change that returns False, 0 or nothing but an empty list has changed nothing, and is not recorded.
    """
    from tickwork.cli.output import plain
    from tickwork.store.admin.access import AuditRow, audit_value

    def both() -> T:
        result = change()
        if result is None or result:
            rows = [told] if isinstance(told, AuditedChange) else told(result)
            values = ((one.target, audit_value(plain(one.before)), audit_value(plain(one.after))) for one in rows)
            app.store.record_changes([AuditRow(by(), action, *value) for value in values])
        return result

    return app.store.in_one_transaction(both)


def page_recorder(app: Tickwork, action: str, which: Any) -> Callable[[Callable[[], T]], T]:
    """Return what carries out the pages of a bulk change, each with a row of its own: what was asked, and which jobs
    changed."""

    def page(ids: Any) -> list[AuditedChange]:
        return [AuditedChange("jobs", which, {"count": len(ids), "ids": ids})]

    def perform(change: Callable[[], T]) -> T:
        result: T = recorded(app, action, change, page)
        return result

    return perform
