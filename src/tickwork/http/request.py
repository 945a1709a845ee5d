"""A request: parse it into a handler's arguments, turn the result into a response, and record changes.

Rows of the audit log say who changed what, with the values before and after, and never contain secrets. A change and
its row are stored in one transaction.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from tickwork.app import Tickwork
from tickwork.core.arguments.payload import storable
from tickwork.core.arguments.unstorable import brief, find_flaw
from tickwork.http.auth.access import Caller, address_of
from tickwork.http.connections.bodies import CapacityShare, read_json
from tickwork.http.framework.duplicate_keys import repeated_key
from tickwork.http.framework.problems import Problem, ProblemDetail, pointer_of, refused
from tickwork.http.framework.route import HandlerResult, Route
from tickwork.http.server_context import ServerContext
from tickwork.store.admin.audit import AuditRow, audit_value

TARGET_LIMIT = 500  # characters
T = TypeVar("T")


class RequestChange(NamedTuple):
    """A change that a call made: its target, and the values of the target before and after."""

    target: str
    before: Any = None
    after: Any = None


@dataclass(slots=True)
class Call:
    """One request, for its handler: the app, the caller, and the changes to write to the audit log."""

    app: Tickwork
    parts: ServerContext
    who: Caller
    request: Request
    request_id: str
    changes: list[RequestChange] = field(default_factory=list)
    is_idle: bool = False

    def changed(self, target: str, before: Any = None, after: Any = None) -> None:
        """Add a change to the audit log of this call."""
        self.changes.append(RequestChange(target, before, after))

    def changed_nothing(self) -> None:
        """Record that the call changed nothing: it gets no row in the audit log. For dry runs and unchanged values."""
        self.is_idle = True


async def body_of(route: Route, request: Request, share: CapacityShare | None) -> bytes:
    """Return the raw body of a request; empty if the route takes none."""
    return b"" if route.body is None else await read_json(request, route.body_limit, share)


def arguments(route: Route, request: Request, data: bytes) -> dict[str, Any]:
    """Return the validated arguments for the handler of a route."""
    found: dict[str, Any] = {name: request.path_params[name] for name in route.names}
    if any("\0" in value for value in found.values()):
        status, code = (422, "invalid") if route.method == "PUT" else (404, "not-found")
        raise Problem(status, code, "nothing has a name with a zero byte in it, nor such an id.")
    if route.query is not None:
        found["query"] = _query(route.query, request, takes_nul=route.takes_nul)
    elif request.query_params:
        raise Problem(422, "invalid", f"{request.url.path} takes no parameters. Nothing was done.")
    if route.body is not None:
        found["body"] = decoded(data, route.body) if route.reads is None else route.reads(data)
        _check_soundness(data, takes_nul=route.takes_nul)
    return found


def _check_soundness(data: bytes, *, takes_nul: bool) -> None:
    """Raise Problem for duplicate keys, which parsers read differently, and for NUL, which PostgreSQL cannot store."""
    try:
        key = repeated_key(data)
    except RecursionError:
        said = "too many values are in one another"
        raise Problem(400, "malformed", f"the body cannot be read as JSON: {said}. Nothing was done.") from None
    if key is not None:
        said = f"an object in it has the key {brief(key)} twice"
        raise Problem(400, "malformed", f"the body cannot be read as JSON: {said}. Nothing was done.")
    if b"\\u0000" in data and not takes_nul and (flaw := find_flaw(msgspec.json.decode(data))) is not None:
        pointer = pointer_of(flaw.path)
        raise Problem(
            422,
            "invalid",
            f"{pointer or 'the body'}: {flaw.reason}. Nothing was done.",
            faults=[ProblemDetail(flaw.reason, pointer=pointer)],
        )


def _query(kind: Any, request: Request, *, takes_nul: bool) -> Any:
    """Return the query parameters as a Struct. Raises Problem."""
    given = request.query_params
    bad = next((name for name, value in given.multi_items() if "\0" in name + value), None)
    if bad is not None and not takes_nul:
        said = "it holds a NUL character, which PostgreSQL cannot store"
        raise Problem(
            422, "invalid", f"{brief(bad)}: {said}. Nothing was done.", faults=[ProblemDetail(said, parameter=bad)]
        )
    many = {one.encode_name for one in msgspec.structs.fields(kind) if _is_list(one.type)}
    values: dict[str, Any] = {name: given.getlist(name) if name in many else given[name] for name in given}
    twice = next((name for name in values if name not in many and len(given.getlist(name)) > 1), None)
    if twice is not None:
        raise Problem(422, "invalid", f"the parameter {twice} is given twice. Nothing was done.")
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise refused(error, kind, of_body=False) from None


def _is_list(kind: Any) -> bool:
    if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
        return any(_is_list(one) for one in typing.get_args(kind))
    if typing.get_origin(kind) is typing.Annotated:
        return _is_list(kind.__origin__)
    return typing.get_origin(kind) in (list, tuple)


def decoded(data: bytes | msgspec.Raw, kind: Any, place: str = "$") -> Any:
    """Decode a body, or the part of it at `place`, as a type. Raises Problem if it is not JSON or not of that type."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        raise refused(error, kind, of_body=True, inside=place) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(400, "malformed", f"the body cannot be read as JSON: {error}. Nothing was done.") from None


def response(route: Route, given: Any) -> Response:
    """Return the result of a handler as a response."""
    if isinstance(given, Response):
        return given
    answer = given if isinstance(given, HandlerResult) else HandlerResult(given)
    status = answer.status or route.status
    if answer.body is None:
        return Response(status_code=status, headers=answer.headers)
    return Response(msgspec.json.encode(answer.body), status, answer.headers, "application/json")


def recorded(call: Call, action: str, change: Callable[[], T]) -> T:
    """Carry out a change and add it to the audit log in one transaction; return the result of `change`.

    If the handler reports no change, the row names the path of the call, unless the handler called `changed_nothing`.
    """

    def both() -> T:
        call.changes, call.is_idle = [], False
        result = change()
        record(call, action)
        return result

    return call.app.store.in_one_transaction(both)


def record(call: Call, action: str) -> None:
    """Add a row to the audit log for each change that the handler reported, or else one row for the call."""
    told = call.changes or ([] if call.is_idle else [RequestChange(call.request.url.path)])
    call.app.store.audit.record_changes([_row(call, action, one) for one in told])


def _row(call: Call, action: str, one: RequestChange) -> AuditRow:
    return AuditRow(
        who=storable(call.who.name),
        action=action,
        target=storable(one.target)[:TARGET_LIMIT],
        before=audit_value(one.before),
        after=audit_value(one.after),
        request_id=call.request_id,
        address=address_of(call.request),
    )
