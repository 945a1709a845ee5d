"""Conditional requests: 304 for an answer that the caller has cached, and If-Match for edits.

The answer is always computed; a 304 only saves sending it. A browser may cache answers to the scope `read`, and
revalidates them with every request; it stores no other answers of the API. No compressed answer contains a secret, so
its size reveals none.
"""

from __future__ import annotations

import gzip
import hashlib
from hashlib import blake2s

from starlette.requests import Request
from starlette.responses import Response

from tickwork.http.framework.problems import Problem
from tickwork.http.framework.route import Route, Scope

_KEPT = {"Cache-Control": "private, no-cache", "Vary": "Authorization, Cookie, Accept-Encoding"}
_SMALL = 2048
_LEVEL = 1  # 100 kB take 1 ms on the event loop, and shrink to a tenth


def has_etag(route: Route) -> bool:
    """Return whether answers of a route have an ETag for revalidation."""
    return route.method == "GET" and route.access is Scope.READ and route.streams is None


def conditional_response(route: Route, request: Request, answer: Response) -> Response:
    """Return the answer, or 304 if the caller has it cached.

    An ETag set by a handler is for edits and is kept unchanged.
    """
    is_plain = answer.status_code == 200 and answer.media_type == "application/json" and "etag" not in answer.headers
    if not (has_etag(route) and is_plain):
        return answer
    tag = f'"{blake2s(answer.body, digest_size=16).hexdigest()}"'
    known = tags_of(request.headers.get("if-none-match")) or set()
    about = {**_KEPT, "ETag": f"W/{tag}"}
    if {tag, "*"} & {one.removeprefix("W/") for one in known}:
        return Response(status_code=304, headers=about)
    answer.headers.update(about)
    return _packed(request, answer)


def _packed(request: Request, answer: Response) -> Response:
    """Compress an answer that is large enough, if the client accepts gzip."""
    if len(answer.body) > _SMALL and "gzip" in request.headers.get("accept-encoding", ""):
        answer.body = gzip.compress(bytes(answer.body), _LEVEL, mtime=0)
        answer.headers.update({"Content-Encoding": "gzip", "Content-Length": str(len(answer.body))})
    return answer


def etag_of(text: str) -> str:
    """Return the ETag of a resource that is stored as this text."""
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'


def is_conditional(request: Request, etag: str | None) -> bool:
    """Return whether the request has If-Match or If-None-Match. Raises Problem (412) if `etag` does not satisfy them.

    `etag` is the ETag of the stored resource, or None if the resource does not exist.
    """
    headers = request.headers
    wanted, unwanted = tags_of(headers.get("if-match")), tags_of(headers.get("if-none-match"))
    if wanted is not None and (etag is None or not ({"*", etag} & wanted)):
        raise changed_meanwhile()
    if unwanted is not None and etag is not None and {"*", etag} & unwanted:
        raise changed_meanwhile()
    return wanted is not None or unwanted is not None


def changed_meanwhile() -> Problem:
    return Problem(412, "changed", "it was changed since you read it. Nothing was stored.")


def tags_of(header: str | None) -> set[str] | None:
    """Return the ETags in a header; None if it was not sent."""
    return None if header is None else {tag.strip() for tag in header.split(",")}
