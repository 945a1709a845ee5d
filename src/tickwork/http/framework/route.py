"""Route declarations: one table from which routes are served, authorized, documented and tested.

A handler is a function of a `Call`. Its other parameters are read from the request by their names and type hints: path
parameters, `query` (a Struct of query parameters) and `body` (a Struct of JSON). Both Structs refuse unknown fields.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, get_type_hints

import msgspec

from tickwork.core.access.scopes import Scope
from tickwork.errors import check

__all__ = [
    "ANY_CREDENTIALS",
    "NO_CREDENTIALS",
    "AnyCredentials",
    "HandlerResult",
    "ListBody",
    "NoCredentials",
    "Route",
    "RouteAccess",
    "Routes",
    "Scope",
    "Struct",
]

Item = TypeVar("Item")
API = "/api/v1"
BODY_LIMIT = 1024 * 1024
IDEMPOTENCY_HEADER = "Idempotency-Key"
IDEMPOTENCY_KEY_LIMIT = 255  # characters
_PARAMETER = re.compile(r"{(\w+)(?::path)?}")


class NoCredentials:
    """The access of a route that needs no credentials."""


class AnyCredentials:
    """The access of a route for every authenticated caller, with any scopes."""


NO_CREDENTIALS = NoCredentials()
ANY_CREDENTIALS = AnyCredentials()
RouteAccess = Scope | AnyCredentials | NoCredentials


class Struct(msgspec.Struct, forbid_unknown_fields=True):
    """The base class of all bodies and parameters. It refuses unknown fields, so that misspelled names are errors."""


class ListBody(Struct, Generic[Item]):
    """The base class of all lists: items, and the cursor of the next page, which is null on the last page."""

    items: list[Item]
    next_cursor: str | None


class HandlerResult(msgspec.Struct, frozen=True):
    """The answer of a handler that sets a status or headers itself."""

    body: Any = None
    status: int | None = None
    headers: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path: its access, its inputs and its outputs.

    `also` maps the other statuses of its answers to their bodies. `streams` is the media type of a body that is not
    JSON. `is_audited`: its calls make changes that an operator may want to find later; a change and its row in the
    audit log are one transaction. `is_repeatable`: a POST with an Idempotency-Key runs once and its answer is kept;
    false if the answer holds a secret or the handler waits. `takes_nul`: the handler escapes or digests texts with
    NUL characters, which other routes refuse. `reads` parses the handler's `body` argument from bytes, for bodies
    that would take too much memory when decoded as a whole.
    """

    method: str
    path: str
    access: RouteAccess
    handler: Callable[..., Any]
    summary: str
    group: str
    status: int = 200
    body: Any = None
    query: Any = None
    names: tuple[str, ...] = ()
    returns: Any = None
    also: Mapping[int, Any] = field(default_factory=dict)
    body_limit: int = BODY_LIMIT
    reads: Callable[[bytes], Any] | None = None
    streams: str | None = None
    is_audited: bool = False
    is_repeatable: bool = True
    takes_nul: bool = False

    @property
    def is_async(self) -> bool:
        """Whether the handler runs on the event loop. Other handlers call the store, and run on threads."""
        return inspect.iscoroutinefunction(self.handler)

    @property
    def takes_idempotency_key(self) -> bool:
        """Whether a repeated request gets the first answer: for a POST with credentials whose answer is kept."""
        return self.method == "POST" and self.is_repeatable and not isinstance(self.access, NoCredentials)

    @property
    def name(self) -> str:
        """The name of the operation in the OpenAPI document, the audit log and metrics."""
        return self.handler.__name__


Handler = TypeVar("Handler", bound=Callable[..., Any])


class Routes:
    """The routes of a resource, in the order of their declaration."""

    def __init__(self, group: str, prefix: str = API) -> None:
        self.group = group
        self.prefix = prefix
        self.all: list[Route] = []

    def get(self, path: str, access: RouteAccess, **more: Any) -> Callable[[Handler], Handler]:
        return self._add("GET", path, access, more)

    def post(self, path: str, access: RouteAccess, **more: Any) -> Callable[[Handler], Handler]:
        return self._add("POST", path, access, more)

    def put(self, path: str, access: RouteAccess, **more: Any) -> Callable[[Handler], Handler]:
        return self._add("PUT", path, access, more)

    def patch(self, path: str, access: RouteAccess, **more: Any) -> Callable[[Handler], Handler]:
        return self._add("PATCH", path, access, more)

    def delete(self, path: str, access: RouteAccess, **more: Any) -> Callable[[Handler], Handler]:
        return self._add("DELETE", path, access, more)

    def _add(self, method: str, path: str, access: RouteAccess, more: dict[str, Any]) -> Callable[[Handler], Handler]:
        """Return a decorator that adds a handler as a route, described by its signature and docstring."""

        def add(handler: Handler) -> Handler:
            check(isinstance(access, RouteAccess), f"The handler {handler.__name__} does not declare its access.")
            hints = get_type_hints(handler)
            names = tuple(_PARAMETER.findall(path))
            taken = [name for name in inspect.signature(handler).parameters if name not in ("call", "query", "body")]
            check(set(names) == set(taken), f"The handler {handler.__name__} takes {taken}, its path has {names}.")
            summary = inspect.getdoc(handler)
            check(summary, f"The handler {handler.__name__} does not say what it does.")
            about = {"body": hints.get("body"), "query": hints.get("query"), "returns": hints.get("return")}
            told = {"is_audited": method != "GET" and access in _CHANGES, **about, **more}
            if told["returns"] is type(None):
                told = {"status": 204, **told}
            is_async = inspect.iscoroutinefunction(handler)
            check(not (told["is_audited"] and is_async), f"The handler {handler.__name__} is audited, and async.")
            self.all.append(
                Route(method, self.prefix + path, access, handler, summary or "", self.group, names=names, **told)
            )
            return handler

        return add


_CHANGES = (Scope.OPERATE, Scope.ADMIN)
