"""Sessions: how a browser logs in, who it is then, and how it logs out."""

from __future__ import annotations

import ipaddress
import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from tickwork.core.access import ROLES, digest_of, is_name
from tickwork.core.throttle import FREE_OF_ADDRESS, FREE_OF_NAME
from tickwork.credentials import check_user, new_token
from tickwork.http.access import COOKIE, Caller, Grant, refuse_foreign
from tickwork.http.audit import address_of, record
from tickwork.http.call import Call
from tickwork.http.problems import Problem
from tickwork.http.route import ANYBODY, SOMEBODY, Answer, Routes, Struct

routes = Routes("session")

LASTS = timedelta(days=7)
_LOGINS = threading.BoundedSemaphore(8)  # passwords take their time, and other calls need threads, too


class LoginBody(Struct):
    """A token (an API key, or that of `tickwork dev`), or a user and their password."""

    token: str | None = None
    user: str | None = None
    password: str | None = None


class SessionBody(Struct):
    """Who you are here, and what you may do."""

    who: str
    scopes: list[str]
    expires_at: datetime | None


@routes.post("/session", ANYBODY, status=201, is_audited=True, is_repeatable=False)
def create_session(call: Call, body: LoginBody) -> SessionBody | Answer:
    """Log in: the answer sets a cookie, which pages cannot read. Too many failures are answered with 429."""
    refuse_foreign(call.request, must_tell=False)
    if (body.token is None) == (body.user is None) or (body.user is None) != (body.password is None):
        raise Problem(422, "invalid", "send a token, or a user and a password. Nothing was done.")
    with _turn():
        grant, password = _admitted(call, body)
    token = new_token()
    if not call.app.store.put_session(digest_of(token.encode()), grant.kind, grant.subject, LASTS, password):
        raise _wrong()
    _end_former(call)
    call.who = replace(grant.caller, expires_at=call.app.store.now() + LASTS)
    call.changed("session")
    return Answer(_body(call.who), headers={"Set-Cookie": _cookie(call, token, LASTS)})


@routes.get("/session", SOMEBODY)
def get_session(call: Call) -> SessionBody:
    """Say who you are, and what you may do."""
    return _body(call.who)


@routes.delete("/session", SOMEBODY, status=204, is_audited=True)
def delete_session(call: Call) -> Answer:
    """Log out: the session ends, its cookie is taken back, and the browser forgets what it kept."""
    if call.who.session is not None:
        call.app.store.end_session(call.who.session)
    call.changed("session")
    return Answer(headers={"Set-Cookie": _cookie(call, "", timedelta(0)), "Clear-Site-Data": '"cache"'})


@contextmanager
def _turn() -> Iterator[None]:
    """One of a few logins at a time. Raises Problem: 429 when there are too many, before anything is counted."""
    if not _LOGINS.acquire(blocking=False):
        raise Problem(429, "too-many-logins", "too many are logging in just now.", headers={"Retry-After": "1"})
    try:
        yield
    finally:
        _LOGINS.release()


def _body(who: Caller) -> SessionBody:
    return SessionBody(who.name, sorted(who.scopes), who.expires_at)


def _admitted(call: Call, body: LoginBody) -> tuple[Grant, str | None]:
    """Who this is, with the digest of their password if they gave one. Raises Problem: 401, or 429 after too many."""
    store = call.app.store
    # Names are anybody's to send, so a digest stands for them, which every store can hold.
    name = [] if body.user is None else [f"name:{digest_of(body.user.encode('utf-8', 'surrogatepass'))}"]
    address = [f"address:{_block(address_of(call))}"]
    wait_s = store.admit_login({**dict.fromkeys(name, FREE_OF_NAME), **dict.fromkeys(address, FREE_OF_ADDRESS)})
    if wait_s > 0:
        said = "there were too many logins that failed. This one was not looked at."
        raise Problem(429, "too-many-logins", said, headers={"Retry-After": str(math.ceil(wait_s))})
    found = _by_token(call, body.token) if body.token is not None else _by_password(call, body)
    if found is None:
        _record_failure(call, body.user)
        raise _wrong()
    store.forgive_login(name, address)
    return found


def _by_token(call: Call, token: str) -> tuple[Grant, None] | None:
    found = call.parts.access.grant(token.encode("utf-8", "surrogatepass"))
    return None if found is None else (found, None)


def _by_password(call: Call, body: LoginBody) -> tuple[Grant, str] | None:
    user = check_user(call.app.store, body.user or "", body.password or "")
    if user is None:
        return None
    return Grant(Caller(f"user:{user.name}", ROLES[user.role]), "user", user.name), user.password


def _record_failure(call: Call, user: str | None) -> None:
    """Write down who failed to log in, if there is such a user: otherwise it may be anything, even a password."""
    known = user is not None and is_name(user) and call.app.store.get_user(user) is not None
    call.changed(f"user:{user}" if known else "unknown")
    record(call, "failed_login")


def _wrong() -> Problem:
    return Problem(401, "wrong-credentials", "that is no token, or no user with this password, that is let in here.")


def _end_former(call: Call) -> None:
    """A browser has one session: what its cookie stood for before is over."""
    former = call.request.cookies.get(COOKIE)
    if former:
        call.app.store.end_session(digest_of(former.encode("utf-8", "surrogatepass")))


def _cookie(call: Call, value: str, lasts: timedelta) -> str:
    path = call.request.scope.get("root_path") or "/"
    secure = "; Secure" if _is_https(call) else ""
    age = int(lasts.total_seconds())
    return f"{COOKIE}={value}; Path={path}; Max-Age={age}; HttpOnly; SameSite=Lax{secure}"


def _is_https(call: Call) -> bool:
    """Whether the browser speaks https: to us, to a proxy that we trust, or, by its setting, at the public URL."""
    url, public = call.request.url, urlsplit(call.app.settings.public_url or "")
    return url.scheme == "https" or (public.scheme == "https" and public.hostname == url.hostname)


def _block(address: str) -> str:
    """An address as failures are counted: of IPv6 the network that one household has."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    return address if found.version == 4 else str(ipaddress.ip_network((found, 64), strict=False))
