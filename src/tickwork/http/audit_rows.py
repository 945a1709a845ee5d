"""Rows of the audit log: who changed what, with the values before and after. They never contain secrets.

A change and its row are one transaction: neither is stored without the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tickwork.core.arguments.payload import storable
from tickwork.http.auth.access import address_of
from tickwork.http.request import Call, RequestChange
from tickwork.store.admin.audit import AuditRow, audit_value

TARGET_LIMIT = 500  # characters
T = TypeVar("T")


def recorded(call: Call, action: str, change: Callable[[], T]) -> T:
    """Carry out a change and add it to the audit log in one transaction; return the result of `change`.

    If the handler reports no change, the row names the path of the call, unless it called `changed_nothing`.
    """

    def both() -> T:
        call.changes, call.is_idle = [], False
        result = change()
        record(call, action)
        return result

    return call.app.store.in_one_transaction(both)


def record(call: Call, action: str) -> None:
    """Add a row to the audit log for each change that the handler reported, or one for the call."""
    told = call.changes or ([] if call.is_idle else [RequestChange(call.request.url.path)])
    call.app.store.audit.record_changes([_row(call, action, one) for one in told])


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
