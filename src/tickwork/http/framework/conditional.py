"""Answers that a caller has already: 304 and nothing else, by a digest of the body; and larger ones packed.

The answer is made all the same, and only not sent. What everybody with the scope `read` may see may be kept by their
browser, which asks each time whether it still holds; everything else is stored nowhere. No secret is among what is
packed, so nobody can find one by the size of an answer.
"""

from __future__ import annotations

import gzip
from hashlib import blake2s

from starlette.requests import Request
from starlette.responses import Response

from tickwork.http.framework.pagination import tags_of
from tickwork.http.framework.route import Route, Scope

_KEPT = {"Cache-Control": "private, no-cache", "Vary": "Authorization, Cookie, Accept-Encoding"}
_SMALL = 2048
_LEVEL = 1  # a hundred kilobytes take a millisecond, on the event loop, and become a tenth


def tells_unchanged(route: Route) -> bool:
    """Whether answers of a route have an ETag for those who ask again."""
    return route.method == "GET" and route.access is Scope.READ and route.streams is None


def unless_unchanged(route: Route, request: Request, answer: Response) -> Response:
    """The answer, or that it is the one which the caller named. An ETag that a handler gave is for edits, and stays."""
    is_plain = answer.status_code == 200 and answer.media_type == "application/json" and "etag" not in answer.headers
    if not (tells_unchanged(route) and is_plain):
        return answer
    tag = f'"{blake2s(answer.body, digest_size=16).hexdigest()}"'
    known = tags_of(request.headers.get("if-none-match")) or set()
    about = {**_KEPT, "ETag": f"W/{tag}"}
    if {tag, "*"} & {one.removeprefix("W/") for one in known}:
        return Response(status_code=304, headers=about)
    answer.headers.update(about)
    return _packed(request, answer)


def _packed(request: Request, answer: Response) -> Response:
    if len(answer.body) > _SMALL and "gzip" in request.headers.get("accept-encoding", ""):
        answer.body = gzip.compress(bytes(answer.body), _LEVEL, mtime=0)
        answer.headers.update({"Content-Encoding": "gzip", "Content-Length": str(len(answer.body))})
    return answer
