"""Re-check the credentials of open streams and long polls, which end soon after their credentials do."""

from __future__ import annotations

import asyncio

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from tickwork.clock import Clock
from tickwork.core.access.scopes import Scope
from tickwork.errors import StoreError
from tickwork.http.auth.access import Access, allowed, is_open
from tickwork.http.framework.problems import Problem

# An answer ends at most the sum of these after its credentials, plus the time between two checks by its sender.
CHECK_S = 2.0  # how often an answer re-checks its credentials
FRESH_S = 1.0  # how long the result is reused for answers with the same credentials
_KEPT = 1000

Credentials = tuple[str | None, str | None, Scope]


class CredentialWatch:
    """Asks the store whether credentials are valid, once a second for all answers with the same ones.

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
        """Return why a request would be refused now; None if it would not be, or if the store cannot be asked."""
        credentials = (request.headers.get("authorization"), request.headers.get("cookie"), scope)
        now = self._clock.monotonic()
        asked_at, asking = self._asked.get(credentials, (0.0, None))
        if asking is None or now - asked_at >= FRESH_S:
            self._forget(now)
            asking = asyncio.create_task(run_in_threadpool(self._ask, request, scope))
            self._asked[credentials] = now, asking
        return await asyncio.shield(asking)

    def _ask(self, request: Request, scope: Scope) -> Problem | None:
        """Return why a request would be refused now; None if it would not be, or if the store cannot be asked."""
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
    """The permission of one caller to receive a long answer. Receiving it is no use of a session: an idle one ends."""

    def __init__(self, credential_watch: CredentialWatch, request: Request, scope: Scope, clock: Clock) -> None:
        self._permits = credential_watch
        self._request = request
        self._scope = scope
        self._clock = clock
        self._check_at = clock.monotonic() + CHECK_S
        self.refusal: Problem | None = None

    async def holds(self) -> bool:
        """Return whether the caller was allowed to receive the answer at most CHECK_S ago."""
        now = self._clock.monotonic()
        if self.refusal is None and now >= self._check_at:
            self._check_at = now + CHECK_S
            self.refusal = await self._permits.refusal(self._request, self._scope)
        return self.refusal is None

    def check(self) -> None:
        """Raise Problem if the credentials were found invalid."""
        if self.refusal is not None:
            raise self.refusal
