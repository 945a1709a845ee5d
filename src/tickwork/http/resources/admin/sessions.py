"""The sessions that hold: where each began, when it was last used, and how it is ended from elsewhere."""

from __future__ import annotations

from datetime import datetime

from tickwork.http.auth.access import IDLE
from tickwork.http.framework.problems import Problem
from tickwork.http.framework.route import ANY_CREDENTIALS, Routes, Scope, Struct
from tickwork.http.request import Call
from tickwork.store.admin.access import OpenSession

routes = Routes("session")


class SessionItem(Struct):
    """A session: whose it is, where it began, and when it was last used. `is_this` is the one that asks."""

    id: str
    who: str
    address: str
    agent: str
    created_at: datetime
    used_at: datetime
    expires_at: datetime
    is_this: bool


class SessionList(Struct):
    """Sessions, the last used first."""

    items: list[SessionItem]
    next_cursor: str | None = None


class SessionsQuery(Struct):
    """Whose sessions: your own, or those of everybody."""

    all: bool = False


@routes.get("/sessions", ANY_CREDENTIALS)
def list_sessions(call: Call, query: SessionsQuery) -> SessionList:
    """List your sessions, or with `all` those of everybody, which takes the scope admin."""
    if query.all and Scope.ADMIN not in call.who.scopes:
        raise Problem(403, "not-allowed", f"{call.who.name} may not see sessions of others: that takes 'admin'.")
    return SessionList([_item(call, one) for one in _sessions(call, of_all=query.all)])


@routes.delete("/sessions/{id}", ANY_CREDENTIALS, is_audited=True)
def end_session(call: Call, id: str) -> None:
    """End a session: its browser is logged out from the next request on. That of another takes the scope admin."""
    of_all = Scope.ADMIN in call.who.scopes
    found = next((one for one in _sessions(call, of_all=of_all) if _id(one) == id), None)
    if found is None or not call.app.store.end_session(found.digest):
        raise Problem(404, "not-found", f"there is no session {id!r}.")
    before = {"address": found.origin.address, "created_at": found.created_at}
    call.changed(f"session of {_who(found)}", before=before)


def _sessions(call: Call, *, of_all: bool) -> list[OpenSession]:
    """The sessions of everybody, or those of the caller."""
    who = call.who
    return call.app.store.open_sessions(IDLE, None if of_all else who.kind, "" if of_all else who.subject)


def _item(call: Call, one: OpenSession) -> SessionItem:
    return SessionItem(
        id=_id(one),
        who=_who(one),
        address=one.origin.address,
        agent=one.origin.agent,
        created_at=one.created_at,
        used_at=one.used_at,
        expires_at=one.expires_at,
        is_this=one.digest == call.who.session,
    )


def _who(one: OpenSession) -> str:
    return "dev" if one.kind == "token" else f"{one.kind}:{one.key_name or one.subject}"


def _id(one: OpenSession) -> str:
    """What names a session: the beginning of the digest of its token, which leads nowhere."""
    return one.digest[:16]
