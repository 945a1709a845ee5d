"""Sessions: log in, log out, and the current session of a browser."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from tickwork.core.access.login_backoff import FREE_OF_ADDRESS, FREE_OF_NAME
from tickwork.core.access.scopes import ROLES, digest_of, is_name
from tickwork.core.arguments.payload import storable
from tickwork.core.web.addresses import network_of
from tickwork.http.auth.access import COOKIE, Caller, TokenGrant, address_of, refuse_foreign
from tickwork.http.auth.refusals import LOGIN
from tickwork.http.connections.bodies import SMALL
from tickwork.http.framework.problems import Problem
from tickwork.http.framework.route import ANY_CREDENTIALS, NO_CREDENTIALS, HandlerResult, Routes, Struct
from tickwork.http.request import Call, record, recorded
from tickwork.security.credentials import check_user, hash_password, new_token
from tickwork.store.admin.access import SessionOrigin

routes = Routes("session")

LASTS = timedelta(days=7)
KNOWN = timedelta(days=90)  # after a login, failures elsewhere cannot lock a user out at this address
AGENT_LIMIT = 200  # characters
_LOGINS = threading.BoundedSemaphore(8)  # hashing a password takes long; leave threads for other calls


class LoginBody(Struct):
    """A token (an API key, or the token of `tickwork dev`), or a user name and a password."""

    token: str | None = None
    user: str | None = None
    password: str | None = None


class SessionBody(Struct):
    """The caller and its scopes."""

    who: str
    scopes: list[str]
    expires_at: datetime | None


class PasswordBody(Struct):
    """The current password, and the new one."""

    old: str
    new: str


@routes.post("/session", NO_CREDENTIALS, status=201, body_limit=SMALL, is_repeatable=False, takes_nul=True)
def create_session(call: Call, body: LoginBody) -> SessionBody | HandlerResult:
    """Log in. The answer sets a cookie, which scripts cannot read. 429 after too many failures."""
    refuse_foreign(call.request, must_tell=False)
    if (body.token is None) == (body.user is None) or (body.user is None) != (body.password is None):
        raise Problem(422, "invalid", "send a token, or a user and a password. Nothing was done.")
    with _turn():
        admitted = _admitted(call, body)
    if admitted is None:
        raise _wrong()
    grant = admitted

    def begin() -> HandlerResult:
        answer = _begun(call, grant)
        _end_former(call)
        call.changed("session")
        return answer

    return recorded(call, "create_session", begin)  # failures were counted before, outside of this transaction


@routes.get("/session", ANY_CREDENTIALS)
def get_session(call: Call) -> SessionBody:
    """Return the caller and its scopes."""
    return _body(call.who)


@routes.delete("/session", ANY_CREDENTIALS, status=204, is_audited=True)
def delete_session(call: Call) -> HandlerResult:
    """Log out: the session ends, its cookie is deleted, and the browser is told to clear its cache."""
    if call.who.session is not None:
        call.app.store.access.end_session(call.who.session)
    call.changed("session")
    return HandlerResult(headers={"Set-Cookie": _cookie(call, "", timedelta(0)), "Clear-Site-Data": '"cache"'})


@routes.post("/session/password", ANY_CREDENTIALS, is_repeatable=False)
def change_own_password(call: Call, body: PasswordBody) -> SessionBody | HandlerResult:
    """Change your own password. You get a new session, and all your other sessions end.

    A wrong current password counts as a failed login. 409 for API keys and tokens.
    """
    name = call.who.subject
    if call.who.kind != "user":
        raise Problem(409, "no-user", f"{call.who.name} is no user, and has no password. Nothing was changed.")
    new = hash_password(body.new)
    with _turn():
        admitted = _admitted(call, LoginBody(user=name, password=body.old))
    if admitted is None:
        raise Problem(403, "wrong-password", "the old password is not yours. Nothing was changed.")
    grant = replace(admitted, password=new)

    def change() -> HandlerResult:
        call.app.store.access.change_user(name, password=new)
        answer = _begun(call, grant)
        call.changed(f"user:{name}", after={"password": "changed"})
        return answer

    return recorded(call, "change_own_password", change)  # a wrong password was counted before


def _begun(call: Call, grant: TokenGrant) -> HandlerResult:
    """Begin a session, and set its cookie. Raises Problem if the password was changed meanwhile."""
    token, store, who = new_token(), call.app.store, grant.caller
    agent = storable(call.request.headers.get("user-agent", ""))[:AGENT_LIMIT]
    digest, origin = digest_of(token.encode()), SessionOrigin(address_of(call.request), agent)
    if not store.access.put_session(digest, who.kind, who.subject, LASTS, grant.password, origin=origin):
        raise _wrong()
    call.who = replace(who, expires_at=store.now() + LASTS)
    return HandlerResult(_body(call.who), headers={"Set-Cookie": _cookie(call, token, LASTS)})


@contextmanager
def _turn() -> Iterator[None]:
    """Limit the number of concurrent logins.

    Raises Problem (429) if there are too many, before a failure is counted.
    """
    if not _LOGINS.acquire(blocking=False):
        raise Problem(429, "too-many-logins", "too many are logging in just now.", headers={"Retry-After": "1"})
    try:
        yield
    finally:
        _LOGINS.release()


def _body(who: Caller) -> SessionBody:
    return SessionBody(who.name, sorted(who.scopes), who.expires_at)


def _admitted(call: Call, body: LoginBody) -> TokenGrant | None:
    """Return the caller, or None if the token or the password is wrong.

    Raises Problem (429) after too many failures.
    """
    store, block = call.app.store, network_of(address_of(call.request))
    known = None if body.user is None else f"known:{_digest(f'{body.user} {block}')}"
    name: list[str] = []
    if body.user is not None and known is not None:
        # At an address from which this user has logged in before, only failures from there count. Otherwise a stranger
        # could lock a user out by guessing passwords.
        name = [known if store.access.knows_login(known) else f"name:{_digest(body.user)}"]
    address = [f"address:{block}"]
    wait_s = store.access.admit_login({**dict.fromkeys(name, FREE_OF_NAME), **dict.fromkeys(address, FREE_OF_ADDRESS)})
    if wait_s > 0:
        said = "there were too many logins that failed. This one was not looked at."
        raise Problem(429, "too-many-logins", said, headers={"Retry-After": str(math.ceil(wait_s))})
    found = _by_token(call, body.token) if body.token is not None else _by_password(call, body)
    if found is None:
        _record_failure(call, body.user)
        return None
    store.access.forgive_login(name, address)
    if known is not None:
        store.access.remember_login(known, KNOWN)
    return found


def _digest(text: str) -> str:
    """Return the digest of a user name as sent: the name may be any text, but every store can hold the digest."""
    return digest_of(text.encode("utf-8", "surrogatepass"))


def _by_token(call: Call, token: str) -> TokenGrant | None:
    return call.parts.access.grant(token.encode("utf-8", "surrogatepass"))


def _by_password(call: Call, body: LoginBody) -> TokenGrant | None:
    user = check_user(call.app.store, body.user or "", body.password or "")
    if user is None:
        return None
    return TokenGrant(Caller(f"user:{user.name}", ROLES[user.role], kind="user", subject=user.name), user.password)


def _record_failure(call: Call, user: str | None) -> None:
    """Record a failed login, with the user name only if that user exists: other input could even be a password.

    Failures of a known user are bounded by the login backoff. Others are recorded up to a budget, and then only
    counted.
    """
    known = user is not None and is_name(user) and call.app.store.access.get_user(user) is not None
    if known or call.parts.refused.admits_login():
        call.changed(f"user:{user}" if known else "unknown")
        record(call, LOGIN)


def _wrong() -> Problem:
    return Problem(401, "wrong-credentials", "that is no token, or no user with this password, that is let in here.")


def _end_former(call: Call) -> None:
    """End the browser's previous session: a browser has one session at a time."""
    former = call.request.cookies.get(COOKIE)
    if former:
        call.app.store.access.end_session(digest_of(former.encode("utf-8", "surrogatepass")))


def _cookie(call: Call, value: str, lasts: timedelta) -> str:
    path = call.request.scope.get("root_path") or "/"
    secure = "; Secure" if _is_https(call) else ""
    age = int(lasts.total_seconds())
    return f"{COOKIE}={value}; Path={path}; Max-Age={age}; HttpOnly; SameSite=Lax{secure}"


def _is_https(call: Call) -> bool:
    """Return whether the browser uses https: to this server, a trusted proxy, or the public URL of the settings."""
    url, public = call.request.url, urlsplit(call.app.settings.public_url or "")
    return url.scheme == "https" or (public.scheme == "https" and public.hostname == url.hostname)
