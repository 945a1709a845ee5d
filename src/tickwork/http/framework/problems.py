"""Error answers: problem details as in RFC 9457, in one shape for all routes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec
from starlette.responses import Response

from tickwork import errors
from tickwork.core.text.suggestions import guess

TYPE = "application/problem+json"
_PREFIX = "urn:tickwork:problem:"
T = TypeVar("T")
# Unauthenticated callers see this text, too: it tells neither where the database is nor which user the server has
# there.
_NO_STORE = (
    "the database did not answer, or refused; the log of the server says why, under the id of this request. The "
    "requested change may or may not be stored."
)


class ProblemDetail(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One error in a request. `pointer` is the JSON pointer of the invalid value in the body.

    If the body contains a text to parse, `line` is the line of the error in that text, and `start` (inclusive) and
    `end` (exclusive) are its character offsets.
    """

    detail: str
    pointer: str | None = None
    parameter: str | None = None
    line: int | None = None
    start: int | None = None
    end: int | None = None


class ProblemBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Why a request was refused. `code` is the end of `type`, for programs; `detail` is for people."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    request_id: str = ""
    errors: list[ProblemDetail] = []


def required(value: T | None, missing: Exception) -> T:
    """Return a value that was looked up. Raises `missing` if it is None."""
    if value is None:
        raise missing
    return value


class Problem(Exception):
    """Raised by a handler to answer with an error status."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        faults: list[ProblemDetail] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.faults = faults or []
        self.headers = dict(headers or {})

    def response(self, request_id: str) -> Response:
        """Return the HTTP response with this problem as its body."""
        title = HTTPStatus(self.status).phrase
        body = ProblemBody(f"{_PREFIX}{self.code}", title, self.status, self.code, self.detail, request_id, self.faults)
        return Response(msgspec.json.encode(body), self.status, self.headers, TYPE)


def problem_of(error: errors.TickworkError) -> Problem:
    """Return the problem that answers an error raised by the store or the client."""
    for kind, status, code in _STATUS:
        if isinstance(error, kind):
            headers = {"Retry-After": "1"} if status == HTTPStatus.SERVICE_UNAVAILABLE else {}
            said = _NO_STORE if kind is errors.StoreError else str(error)
            return Problem(status, code, said, headers=headers)
    return Problem(500, "internal", str(error))


_STATUS: tuple[tuple[type[errors.TickworkError], int, str], ...] = (
    (errors.InvalidInput, 422, "invalid"),
    (errors.KeyTaken, 409, "key-taken"),
    (errors.JobNotFound, 404, "not-found"),
    (errors.ScheduleNotFound, 404, "not-found"),
    (errors.DagNotFound, 404, "not-found"),
    (errors.HookNotFound, 404, "not-found"),
    (errors.UnknownTask, 404, "not-found"),
    (errors.NotificationNotFound, 404, "not-found"),
    (errors.LeaseLost, 409, "lease-lost"),
    (errors.SecretError, 503, "secrets-unavailable"),
    (errors.BlobError, 503, "result-unavailable"),
    (errors.StoreError, 503, "store-unavailable"),
)


def refused(error: msgspec.ValidationError, kind: Any, *, of_body: bool, inside: str = "$") -> Problem:
    """Return the problem for values of a wrong type or shape, with the place of each error.

    `inside` is the path of the decoded part within the whole body.
    """
    text, _, path = str(error).partition(" - at `")
    found = path.removesuffix("`")
    place = inside + found[1:] if found or inside != "$" else ""
    if unknown := _UNKNOWN.fullmatch(text):
        known = [] if found or not isinstance(kind, type) else [one.encode_name for one in msgspec.structs.fields(kind)]
        place = f"{place or '$'}.{unknown[1]}"
        text = f"there is no such {'field' if of_body else 'parameter'}{guess(unknown[1], known)}"
    if of_body:
        fault = ProblemDetail(text, pointer=pointer_of(place))
        where = fault.pointer or "the body"
    else:
        fault = ProblemDetail(text, parameter=place.removeprefix("$.") or None)
        where = fault.parameter or "the parameters"
    return Problem(422, "invalid", f"{where}: {text}. Nothing was done.", faults=[fault])


_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_PLACE = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")


def pointer_of(place: str) -> str:
    """Return a msgspec path such as `$.jobs[3].delay` as the JSON pointer `/jobs/3/delay`."""
    return pointer_to([name or number for name, number in _PLACE.findall(place)])


def pointer_to(path: Iterable[str | int]) -> str:
    """Return a path of keys and positions as a JSON pointer."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)
