"""The audit log over REST."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from tickwork.core.arguments.payload import storable
from tickwork.http.framework.problems import Problem
from tickwork.http.framework.route import ListBody, Routes, Scope, Struct
from tickwork.http.request import Call
from tickwork.store.admin.audit import AuditFilter, AuditView

routes = Routes("audit")


class AuditQuery(Struct):
    """A filter of changes. `cursor` is the `next_cursor` of the previous page."""

    who: str | None = None
    action: str | None = None
    target: str | None = None
    since: datetime | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100
    cursor: str | None = None


class AuditRowBody(Struct):
    """A row of the audit log. `action` is an operation of this document, `failed_login` or `refused`."""

    id: str
    at: datetime
    who: str
    action: str
    target: str
    before: msgspec.Raw | None
    after: msgspec.Raw | None
    request_id: str
    address: str


class AuditBody(ListBody[AuditRowBody]):
    """Changes, newest first."""


@routes.get("/audit", Scope.ADMIN, takes_nul=True)
def list_changes(call: Call, query: AuditQuery) -> AuditBody:
    """List changes, newest first: who made each of them, and the values before and after."""
    named = {name: getattr(query, name) for name in ("who", "action", "target")}
    given = {name: None if value is None else storable(value) for name, value in named.items()}
    if query.since is not None and query.since.tzinfo is None:
        raise Problem(422, "invalid", "since needs an offset from UTC: 2026-11-15T12:00:00Z. Nothing was done.")
    which = AuditFilter(**given, since=query.since)
    found = call.app.store.audit.list_changes(which, query.limit + 1, _place(query.cursor))
    items = found[: query.limit]
    return AuditBody([_body(one) for one in items], str(items[-1].id) if len(found) > len(items) else None)


def _place(cursor: str | None) -> int | None:
    if cursor is None:
        return None
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 18):
        raise Problem(422, "invalid", "that is no place in this list; pass the next_cursor of the page before.")
    return int(cursor)


def _body(row: AuditView) -> AuditRowBody:
    change = row.change
    before, after = (None if value is None else msgspec.Raw(value) for value in (change.before, change.after))
    known = (str(row.id), row.at, change.who, change.action, change.target)
    return AuditRowBody(*known, before, after, change.request_id, change.address)
