"""Open sessions over REST: list them, and end one from another browser."""

from __future__ import annotations

from datetime import datetime

from tickwork.http.auth.access import IDLE
from tickwork.http.framework.problems import Problem
from tickwork.http.framework.route import ANY_CREDENTIALS, Routes, Scope, Struct
from tickwork.http.request import Call
from tickwork.store.admin.access import OpenSession

routes = Routes("session")


class SessionItem(Struct):
    """A session: whose it is, where it began, and when it was last used. `is_this`: it is the caller's own."""

    id: str
    who: str
    address: str
    agent: str
    created_at: datetime
    used_at: datetime
    expires_at: datetime
    is_this: bool


class SessionList(Struct):
    """Sessions, the most recently used first."""

    items: list[SessionItem]
    next_cursor: str | None = None


class SessionsQuery(Struct):
    """`all`: the sessions of all users; by default, your own."""

    all: bool = False


@routes.get("/sessions", ANY_CREDENTIALS)
def list_sessions(call: Call, query: SessionsQuery) -> SessionList:
    """List your sessions, or with `all` those of all users, which requires the scope admin."""
    if query.all and Scope.ADMIN not in call.who.scopes:
        raise Problem(403, "not-allowed", f"{call.who.name} may not see sessions of others: that takes 'admin'.")
    return SessionList([_item(call, one) for one in _sessions(call, of_all=query.all)])


@routes.delete("/sessions/{id}", ANY_CREDENTIALS, is_audited=True)
def end_session(call: Call, id: str) -> None:
    """End a session: its browser is logged out from the next request on. Others' sessions require the scope admin."""
    of_all = Scope.ADMIN in call.who.scopes
    found = next((one for one in _sessions(call, of_all=of_all) if _id(one) == id), None)
    if found is None or not call.app.store.access.end_session(found.digest):
        raise Problem(404, "not-found", f"there is no session {id!r}.")
    before = {"address": found.origin.address, "created_at": found.created_at}
    call.changed(f"session of {_who(found)}", before=before)


def _sessions(call: Call, *, of_all: bool) -> list[OpenSession]:
    """Return the sessions of all users, or those of the caller."""
    who = call.who
    return call.app.store.access.open_sessions(IDLE, None if of_all else who.kind, "" if of_all else who.subject)


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
    """Return an id of a session: the beginning of its token's digest, from which the token cannot be derived."""
    return one.digest[:16]
