"""Who calls, and what they may do. Every route asks here; nothing is open that does not say so in the table."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import Protocol

from starlette.requests import Request

from tickwork.http.problems import Problem
from tickwork.http.route import Anybody, Scope

ROLES: dict[str, frozenset[Scope]] = {
    "viewer": frozenset({Scope.READ, Scope.METRICS}),
    "operator": frozenset({Scope.READ, Scope.METRICS, Scope.ENQUEUE, Scope.OPERATE}),
    "admin": frozenset(Scope),
}


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: a name for the audit log, and what they may do."""

    name: str
    scopes: frozenset[Scope]


NOBODY = Caller("nobody", frozenset())


class Access(Protocol):
    """Finds out who calls."""

    def caller(self, request: Request) -> Caller | None:
        """Who sent this request; None when it does not say so, or what it says does not hold. Runs on a thread."""


class TokenAccess:
    """One token for everything, as `tickwork dev` makes it."""

    def __init__(self, token: str) -> None:
        self._digest = hashlib.sha256(token.encode()).digest()

    def caller(self, request: Request) -> Caller | None:
        given = bearer(request)
        if given is None or not hmac.compare_digest(hashlib.sha256(given).digest(), self._digest):
            return None
        return Caller("dev", ROLES["admin"])


def bearer(request: Request) -> bytes | None:
    """The token of an Authorization header, as bytes: it may hold anything."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip().encode("latin-1", "replace") if scheme.lower() == "bearer" and token.strip() else None


def allowed(scope: Scope | Anybody, found: Caller | None) -> Caller:
    """The caller, if they may do that. Raises Problem: 401 when nobody said who asks, 403 when they may not."""
    if isinstance(scope, Anybody):
        return found or NOBODY
    if found is None:
        raise Problem(
            401,
            "not-authenticated",
            "say who you are: Authorization: Bearer and an API key (tickwork keys create).",
            headers={"WWW-Authenticate": 'Bearer realm="tickwork"'},
        )
    if scope not in found.scopes:
        raise Problem(403, "not-allowed", f"{found.name} may not do this: it takes the scope {scope.value!r}.")
    return found
