"""Authentication and authorization.

A route needs no credentials only by the table, or by `open_scopes` on this machine.

The credentials of open streams and long polls are checked repeatedly, so a stream ends soon after its credentials do.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol
from urllib.parse import urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from tickwork.app import Tickwork
from tickwork.clock import Clock
from tickwork.core.access.scopes import ROLES, Scope, digest_of, granted, read_token
from tickwork.core.arguments.payload import storable
from tickwork.core.web.addresses import plain_address
from tickwork.errors import StoreError
from tickwork.http.framework.problems import Problem
from tickwork.http.framework.route import NoCredentials, RouteAccess
from tickwork.store.admin.access import ApiKeyView, SessionKind, SessionView

__all__ = ["NOBODY", "ROLES", "Access", "Caller", "StoreAccess", "TokenAccess", "TokenGrant", "allowed", "is_loopback"]

COOKIE = "tickwork_session"
ADDRESS_LIMIT = 100  # characters
IDLE = timedelta(hours=12)  # a session that is unused for this long has ended
_SAFE = ("GET", "HEAD", "OPTIONS")
# An answer ends at most the sum of these after its credentials, plus the time between two checks by its sender.
CHECK_S = 2.0  # how often an answer re-checks its credentials
FRESH_S = 1.0  # how long the result is reused for answers with the same credentials
_KEPT = 1000


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller: its name in the audit log, and its scopes. `session` is the digest of its session, if any.

    `kind` and `subject` are stored with its sessions: a user, the id of an API key, or the token of `tickwork dev`.
    """

    name: str
    scopes: frozenset[Scope]
    session: str | None = None
    expires_at: datetime | None = None
    kind: SessionKind = "token"
    subject: str = ""


NOBODY = Caller("nobody", frozenset())


@dataclass(frozen=True, slots=True)
class TokenGrant:
    """The caller to whom a token or a password belongs. `password` is the stored hash, or None for a token."""

    caller: Caller
    password: str | None = None


class Access(Protocol):
    """Authenticates callers. Its methods may block, and run on a thread."""

    def caller(self, request: Request, *, uses: bool = True) -> Caller | None:
        """Return the caller of a request, or None if the request has no valid credentials.

        With `uses` false, the lookup does not count as a use of the session, so an idle session still expires.
        """

    def grant(self, token: bytes) -> TokenGrant | None:
        """Return the caller who has this token, or None if no caller has it."""


class TokenAccess:
    """Access by one token with all scopes, as `tickwork dev` makes it."""

    def __init__(self, token: str) -> None:
        self._digest = digest_of(token.encode())

    def caller(self, request: Request, *, uses: bool = True) -> Caller | None:
        given = bearer(request)
        found = None if given is None else self.grant(given)
        return None if found is None else found.caller

    def grant(self, token: bytes) -> TokenGrant | None:
        return self.of_session(digest_of(token))

    def of_session(self, subject: str) -> TokenGrant | None:
        """Return the caller of a session that was opened with this token, or None if the token has changed since."""
        if not hmac.compare_digest(subject.encode(), self._digest.encode()):
            return None
        return TokenGrant(Caller("dev", ROLES["admin"], subject=self._digest))


class StoreAccess:
    """Access by API keys and sessions of the store, and by the token of `tickwork dev` if there is one.

    Credentials are looked up with each request, so a revoked key or a removed user is refused from the next request on.
    """

    def __init__(self, app: Tickwork, dev: TokenAccess | None = None) -> None:
        self._app = app
        self._dev = dev

    def caller(self, request: Request, *, uses: bool = True) -> Caller | None:
        """Return the caller of a request: by its Authorization header if it has one, else by its session cookie."""
        given = bearer(request)
        if given is not None or "authorization" in request.headers:
            found = None if given is None else self.grant(given)
            return None if found is None else found.caller
        cookie = request.cookies.get(COOKIE)
        if not cookie:
            return None
        caller = self._of_cookie(digest_of(cookie.encode("utf-8", "surrogatepass")), uses=uses)
        if caller is not None and request.method not in _SAFE:
            refuse_foreign(request, must_tell=True)
        return caller

    def grant(self, token: bytes) -> TokenGrant | None:
        """Return the caller with the token of `tickwork dev` or of a live API key; None for any other token."""
        dev = None if self._dev is None else self._dev.grant(token)
        if dev is not None:  # also if TICKWORK_TOKEN is the token of a key with fewer scopes
            return dev
        read = read_token(token.decode("latin-1"))
        key = None if read is None else self._app.store.access.get_api_key(read.id)
        if read is None or key is None:
            return None
        right = hmac.compare_digest(key.digest.encode(), read.digest.encode())
        return self._of_key(key) if right and key.is_live else None

    def _of_key(self, key: ApiKeyView) -> TokenGrant:
        """Return the grant of a live API key, and record its use if the last record is old."""
        if key.is_stale:
            with suppress(StoreError):  # reads work while the store cannot be written
                self._app.store.access.use_api_key(key.id)
        scopes = granted(key.scopes)
        return TokenGrant(Caller(f"key:{key.name}", scopes, None, key.expires_at, kind="key", subject=key.id))

    def _of_cookie(self, digest: str, *, uses: bool) -> Caller | None:
        """Return the caller of a session; None if it has ended. With `uses`, record its use if the last one is old."""
        session = self._app.store.access.get_session(digest, IDLE)
        if session is None or (session.kind == "token" and not self._is_dev(session.subject)):
            return None
        if session.is_stale and uses:
            with suppress(StoreError):
                self._app.store.access.use_session(digest)
        name, scopes = _of_session(session)
        return Caller(name, scopes, digest, session.expires_at, kind=session.kind, subject=session.subject)

    def _is_dev(self, subject: str) -> bool:
        return self._dev is not None and self._dev.of_session(subject) is not None


def _of_session(session: SessionView) -> tuple[str, frozenset[Scope]]:
    """Return the name and the scopes of the caller of a session."""
    match session.kind:
        case "user":
            return f"user:{session.subject}", ROLES.get(session.role or "", frozenset())
        case "key":
            return f"key:{session.key_name}", granted(session.scopes)
        case "token":
            return "dev", ROLES["admin"]


def bearer(request: Request) -> bytes | None:
    """Return the token of an Authorization header, or None without a token; as bytes, since it may hold any data."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip().encode("latin-1", "replace") if scheme.lower() == "bearer" and token.strip() else None


def refuse_foreign(request: Request, *, must_tell: bool) -> None:
    """Refuse (403) a request that a browser sent on behalf of a page of another site.

    Browsers send Sec-Fetch-Site or Origin, and pages cannot change these headers. With `must_tell`, requests that
    have neither are refused, too.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        is_own = site == "same-origin"
    elif origin is not None:
        is_own = urlsplit(origin).netloc == request.headers.get("host", "")
    else:
        is_own = not must_tell
    if not is_own:
        raise Problem(
            403,
            "cross-origin",
            "with a session, changes are taken from this server's own pages only (by Sec-Fetch-Site, or Origin and "
            "Host). Programs send an API key: Authorization: Bearer. Nothing was done.",
        )


def is_open(scopes: frozenset[Scope], access: RouteAccess, request: Request) -> bool:
    """Return whether a request needs no credentials: the table says so, or only this machine can reach the server."""
    if isinstance(access, NoCredentials):
        return True
    # A host name other than this machine's may be a page's own name that was made to resolve to this machine. A client
    # address other than this machine's was forwarded by a proxy on it.
    came_from = "" if request.client is None else request.client.host
    return access in scopes and is_loopback(request.url.hostname or "") and is_loopback(came_from)


def allowed(access: RouteAccess, found: Caller | None) -> Caller:
    """Return the caller if it has access.

    Raises Problem: 401 without valid credentials, 403 without the required scope.
    """
    if isinstance(access, NoCredentials):
        return found or NOBODY
    if found is None:
        raise Problem(
            401,
            "not-authenticated",
            "say who you are: Authorization: Bearer and an API key (tickwork keys create).",
            headers={"WWW-Authenticate": 'Bearer realm="tickwork"'},
        )
    if isinstance(access, Scope) and access not in found.scopes:
        raise Problem(403, "not-allowed", f"{found.name} may not do this: it takes the scope {access.value!r}.")
    return found


def is_loopback(host: str) -> bool:
    """Return whether a server that listens on this host is reachable from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def address_of(request: Request) -> str:
    """Return the client address of a request, as reported by trusted proxies."""
    return "" if request.client is None else storable(plain_address(request.client.host))[:ADDRESS_LIMIT]


Credentials = tuple[str | None, str | None, Scope]


class CredentialWatch:
    """Asks the store whether credentials are still valid, once a second for all answers with the same credentials.

    Not thread-safe: for the event loop only.
    """

    def __init__(self, access: Access, open_scopes: frozenset[Scope], clock: Clock) -> None:
        self._access = access
        self._open_scopes = open_scopes
        self._clock = clock
        self._asked: dict[Credentials, tuple[float, asyncio.Task[Problem | None]]] = {}

    def of(self, request: Request, scope: Scope) -> WatchedCredential:
        """Return the watched credential of a request that was authorized just now."""
        return WatchedCredential(self, request, scope, self._clock)

    async def refusal(self, request: Request, scope: Scope) -> Problem | None:
        """Return why a request would now be refused, or None if it would be accepted or the store cannot be asked."""
        credentials = (request.headers.get("authorization"), request.headers.get("cookie"), scope)
        now = self._clock.monotonic()
        asked_at, asking = self._asked.get(credentials, (0.0, None))
        if asking is None or now - asked_at >= FRESH_S:
            self._forget(now)
            asking = asyncio.create_task(run_in_threadpool(self._ask, request, scope))
            self._asked[credentials] = now, asking
        return await asyncio.shield(asking)

    def _ask(self, request: Request, scope: Scope) -> Problem | None:
        """Ask the store why a request would now be refused; None if it would be accepted or the store fails."""
        if is_open(self._open_scopes, scope, request):
            return None
        try:
            allowed(scope, self._access.caller(request, uses=False))
        except Problem as problem:
            return problem
        except StoreError:  # no answer can read the store either
            return None
        return None

    def _forget(self, now: float) -> None:
        if len(self._asked) >= _KEPT:
            self._asked = {key: one for key, one in self._asked.items() if now - one[0] < FRESH_S}


class WatchedCredential:
    """The permission of one caller to receive a long answer. Receiving it does not count as a use of the session."""

    def __init__(self, credential_watch: CredentialWatch, request: Request, scope: Scope, clock: Clock) -> None:
        self._permits = credential_watch
        self._request = request
        self._scope = scope
        self._clock = clock
        self._check_at = clock.monotonic() + CHECK_S
        self.refusal: Problem | None = None

    async def holds(self) -> bool:
        """Return whether the caller's permission was confirmed at most CHECK_S ago."""
        now = self._clock.monotonic()
        if self.refusal is None and now >= self._check_at:
            self._check_at = now + CHECK_S
            self.refusal = await self._permits.refusal(self._request, self._scope)
        return self.refusal is None

    def check(self) -> None:
        """Raise Problem if the credentials were found invalid."""
        if self.refusal is not None:
            raise self.refusal
