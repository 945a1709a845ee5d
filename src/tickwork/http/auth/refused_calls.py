"""Calls that were refused (401, 403), for the audit log: some in each minute one by one, the others as a count.

Anybody can be refused as often as they like, so what they cause to be written is bounded. Strangers, callers who are
known but may not, and logins of nobody we know are counted apart: no flood of one hides the others.
"""

from __future__ import annotations

import logging
import threading

from starlette.requests import Request

from tickwork.clock import Clock
from tickwork.core.arguments.payload import storable
from tickwork.errors import StoreError
from tickwork.http.auth.access import NOBODY, Access, address_of
from tickwork.http.framework.problems import Problem
from tickwork.http.framework.route import Route
from tickwork.store.admin.access import AuditRow, audit_value
from tickwork.store.base import Store

EACH_MINUTE = 30  # of each kind, which a server records one by one
STATUSES = (401, 403)
ACTION, LOGIN = "refused", "failed_login"
_MINUTE_S = 60.0
_PATH_LIMIT = 200  # characters
# Failed logins have rows of their own, hooks have deliveries, and each page asks who uses it.
_NOT_RECORDED = ("create_session", "deliver", "get_session")
_log = logging.getLogger("tickwork.http")


class _Budget:
    """How many of one kind were recorded in this minute, and how many were left out since their count was."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._began = float("-inf")
        self._count = 0
        self._left_out = 0

    def admits(self) -> bool:
        """Return whether another one is to be recorded; count it where it is one too many."""
        with self._lock:
            now = self._clock.monotonic()
            if now - self._began >= _MINUTE_S:
                self._began, self._count = now, 0
            if self._count == EACH_MINUTE:
                self._left_out += 1
                return False
            self._count += 1
            return True

    def take(self) -> int:
        """Return how many were left out since the last time."""
        with self._lock:
            left_out, self._left_out = self._left_out, 0
        return left_out


class RefusedCalls:
    """Records refused calls. It is also a service, which adds rows with the count of those that were left out."""

    def __init__(self, store: Store, access: Access, clock: Clock) -> None:
        self._store = store
        self._access = access
        self._of_status = {status: _Budget(clock) for status in STATUSES}
        self._logins = _Budget(clock)

    def admits(self, route: Route, problem: Problem) -> bool:
        """Return whether a refused call is to be recorded; count it where it is one too many in this minute."""
        if problem.status not in STATUSES or route.name in _NOT_RECORDED:
            return False
        return self._of_status[problem.status].admits()

    def admits_login(self) -> bool:
        """Return whether a failed login of nobody we know is to be recorded; count it where it is one too many."""
        return self._logins.admits()

    def record(self, route: Route, request: Request, problem: Problem, request_id: str) -> None:
        """Add a refused call to the audit log. A store that cannot be written does not change the answer."""
        path = storable(request.url.path)[:_PATH_LIMIT]
        said = {"status": problem.status, "code": problem.code, "method": request.method, "path": path}
        about = {"request_id": request_id, "address": address_of(request)}
        try:
            who = storable(self._name(request))
            self._store.record_changes([AuditRow(who, ACTION, route.name, None, audit_value(said), **about)])
        except StoreError as error:
            _log.error("request %s was refused, and that could not be recorded: %s", request_id, error)

    def _name(self, request: Request) -> str:
        try:
            found = self._access.caller(request, uses=False)
        except Problem:  # a page of another site used somebody's session
            found = None
        return (found or NOBODY).name

    def tick(self, now: float) -> float:
        left_out = {status: budget.take() for status, budget in self._of_status.items()}
        found = [_counted(ACTION, "other calls", {"status": one, "count": left_out[one]}) for one in STATUSES]
        found.append(_counted(LOGIN, "others", {"count": self._logins.take()}))
        if rows := [row for row in found if row is not None]:
            self._store.record_changes(rows)
        return _MINUTE_S


def _counted(action: str, target: str, said: dict[str, int]) -> AuditRow | None:
    """The row that tells how many were left out; None: there were none."""
    return AuditRow("server", action, target, None, audit_value(said)) if said["count"] else None
