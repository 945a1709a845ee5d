"""Records of refused requests: calls (401, 403) in the audit log, and deliveries of hooks.

A client can be refused any number of times, so the number of rows is bounded: the first calls of each minute are
stored as rows, all others only as a count. Calls without valid credentials, calls without the scope, and failed
logins with an unknown user name have separate budgets, so a flood of one kind does not hide the others.

Refused deliveries are recorded after they were answered. A client can measure the time of a write, and only an
existing hook has a record, so a write before the answer would reveal which hooks exist. Requests queue their record
here, and a service of the server stores it within a second.
"""

from __future__ import annotations

import logging
import threading

from starlette.requests import Request

from tickwork.clock import Clock
from tickwork.core.arguments.payload import storable
from tickwork.core.hooks import Delivery
from tickwork.errors import StoreError
from tickwork.http.auth.access import NOBODY, Access, address_of
from tickwork.http.framework.problems import Problem
from tickwork.http.framework.route import Route
from tickwork.store.admin.audit import AuditRow, audit_value
from tickwork.store.base import Store

EACH_MINUTE = 30  # of each kind, which a server records as single rows
STATUSES = (401, 403)
ACTION, LOGIN = "refused", "failed_login"
_MINUTE_S = 60.0
_PATH_LIMIT = 200  # characters
# Failed logins and deliveries of hooks have records of their own, and each page of the web UI calls get_session.
_NOT_RECORDED = ("create_session", "deliver", "get_session")
_log = logging.getLogger("tickwork.http")
INTERVAL_S = 1.0
HOOKS_LIMIT = 1000  # with a record that waits
TOLD_EVERY_S = 60.0  # seconds between two log records about one hook that cannot work


class _Budget:
    """A budget of rows per minute, and the count of calls that exceeded it since the count was last taken."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._began = float("-inf")
        self._count = 0
        self._left_out = 0

    def admits(self) -> bool:
        """Return whether to record a call as a row; if the budget is used up, count the call instead."""
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
        """Return how many calls exceeded the budget since the last call of this method."""
        with self._lock:
            left_out, self._left_out = self._left_out, 0
        return left_out


class RefusedCalls:
    """Records refused calls. As a service, it also adds rows with the count of calls over the budget."""

    def __init__(self, store: Store, access: Access, clock: Clock) -> None:
        self._store = store
        self._access = access
        self._of_status = {status: _Budget(clock) for status in STATUSES}
        self._logins = _Budget(clock)

    def admits(self, route: Route, problem: Problem) -> bool:
        """Return whether to record a refused call as a row; if the budget is used up, count the call instead."""
        if problem.status not in STATUSES or route.name in _NOT_RECORDED:
            return False
        return self._of_status[problem.status].admits()

    def admits_login(self) -> bool:
        """Return whether to record a failed login with an unknown user name; if the budget is used up, count it."""
        return self._logins.admits()

    def record(self, route: Route, request: Request, problem: Problem, request_id: str) -> None:
        """Add a refused call to the audit log. An error of the store does not change the answer."""
        path = storable(request.url.path)[:_PATH_LIMIT]
        said = {"status": problem.status, "code": problem.code, "method": request.method, "path": path}
        about = {"request_id": request_id, "address": address_of(request)}
        try:
            who = storable(self._name(request))
            self._store.audit.record_changes([AuditRow(who, ACTION, route.name, None, audit_value(said), **about)])
        except StoreError as error:
            _log.error("request %s was refused, and that could not be recorded: %s", request_id, error)

    def _name(self, request: Request) -> str:
        try:
            found = self._access.caller(request, uses=False)
        except Problem:  # a page of another site used a session of the browser
            found = None
        return (found or NOBODY).name

    def tick(self, now: float) -> float:
        """Once a minute, add audit rows that report how many calls exceeded each budget."""
        left_out = {status: budget.take() for status, budget in self._of_status.items()}
        found = [_counted(ACTION, "other calls", {"status": one, "count": left_out[one]}) for one in STATUSES]
        found.append(_counted(LOGIN, "others", {"count": self._logins.take()}))
        if rows := [row for row in found if row is not None]:
            self._store.audit.record_changes(rows)
        return _MINUTE_S


def _counted(action: str, target: str, said: dict[str, int]) -> AuditRow | None:
    """Return the audit row that reports how many calls exceeded the budget, or None if none did."""
    return AuditRow("server", action, target, None, audit_value(said)) if said["count"] else None


_log = logging.getLogger("tickwork.http")


class RefusedDeliveries:
    """Refused deliveries that wait to be recorded: the latest of each hook."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._waiting: dict[str, Delivery] = {}
        self._faults: dict[str, str] = {}
        self._told: dict[str, float] = {}

    def add(self, delivery: Delivery, fault: str | None) -> None:
        """Queue a delivery to be recorded within a second. `fault` says what is wrong with the hook on this server."""
        with self._lock:
            if len(self._waiting) < HOOKS_LIMIT or delivery.hook in self._waiting:
                self._waiting[delivery.hook] = delivery
                if fault is not None:
                    self._faults[delivery.hook] = fault

    def tick(self, now: float) -> float:
        """Store the queued deliveries, and log what is wrong with each hook at most once a minute."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
            faults, self._faults = self._faults, {}
        for hook, fault in faults.items():
            if now - self._told.get(hook, -TOLD_EVERY_S) >= TOLD_EVERY_S:
                self._told[hook] = now
                _log.error("Hook %r refuses all messages: %s.", hook, fault.removesuffix("."))
        for delivery in waiting.values():
            self._store.hooks.record_delivery(delivery)
        return INTERVAL_S
