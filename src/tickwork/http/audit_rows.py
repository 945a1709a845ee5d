"""What goes into the audit log: who did what to what, with how it was before and after. Never a secret.

A change and its row are one transaction: there is no change without its row, and no row without its change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tickwork.core.arguments.payload import storable
from tickwork.http.auth.access import address_of
from tickwork.http.request import Call, RequestChange
from tickwork.store.admin.access import AuditRow, audit_value

TARGET_LIMIT = 500  # characters
T = TypeVar("T")


def recorded(call: Call, action: str, change: Callable[[], T]) -> T:
    """Carry out a change and add it to the audit log, in one transaction; return what it returned.

    A change that tells nothing leaves a row with the path of the call, unless it says that it changed nothing.
    """

    def both() -> T:
        call.changes, call.is_idle = [], False
        result = change()
        record(call, action)
        return result

    return call.app.store.in_one_transaction(both)


def record(call: Call, action: str) -> None:
    """Add what a call did to the audit log: a row for each change that its handler told, or one for the call."""
    told = call.changes or ([] if call.is_idle else [RequestChange(call.request.url.path)])
    call.app.store.record_changes([_row(call, action, one) for one in told])


def _row(call: Call, action: str, one: RequestChange) -> AuditRow:
    return AuditRow(
        who=storable(call.who.name),
        action=action,
        target=storable(one.target)[:TARGET_LIMIT],
        before=audit_value(one.before),
        after=audit_value(one.after),
        request_id=call.request_id,
        address=address_of(call.request),
    )
