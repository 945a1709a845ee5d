"""Idempotency keys: a POST with an Idempotency-Key runs once, and a repeated request gets the stored answer.

A request is identified by its caller and its key. The ids of the jobs that it enqueues are derived from the key. So
if it runs again because its outcome is unknown, it finds the jobs of the first run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from itertools import count

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from tickwork.core.access.scopes import digest_of
from tickwork.core.ids import IdMaker
from tickwork.errors import StoreError, TickworkError
from tickwork.http.framework.problems import Problem, problem_of
from tickwork.http.framework.route import IDEMPOTENCY_HEADER, IDEMPOTENCY_KEY_LIMIT, Route
from tickwork.http.request import Call
from tickwork.store.admin.access import BegunRequest, KeptAnswer
from tickwork.store.rows.instants import to_us
from tickwork.task import ids_from

IN_FLIGHT_LIMIT = timedelta(seconds=60)  # a request in flight for longer was interrupted
_KEPT_HEADERS = ("content-type", "etag", "location")


def repeat_key(route: Route, request: Request) -> str | None:
    """Return the Idempotency-Key of a request, or None if it has none or the route accepts none. Raises Problem."""
    key = request.headers.get(IDEMPOTENCY_HEADER)
    if key is None or not route.takes_idempotency_key:
        return None
    if not 0 < len(key) <= IDEMPOTENCY_KEY_LIMIT or not (key.isascii() and key.isprintable()):
        raise Problem(
            422,
            "invalid",
            f"an {IDEMPOTENCY_HEADER} has 1 to {IDEMPOTENCY_KEY_LIMIT} printable ASCII characters. Nothing was done.",
        )
    return key


async def once(call: Call, key: str, data: bytes, carry_out: Callable[[], Awaitable[Response]]) -> Response:
    """Carry out a request and keep its answer; if the request was carried out before, return the kept answer."""
    store, who = call.app.store, call.who.name
    digest = await run_in_threadpool(_digest, call.request, data)
    begun = await run_in_threadpool(store.access.begin_answer, who, key, digest, IN_FLIGHT_LIMIT)
    if isinstance(begun, KeptAnswer):
        return _repeated(begun, digest)
    try:
        with ids_from(_ids(begun, who, key)):
            answer = await carry_out()
    except Exception as error:
        with suppress(StoreError):
            await run_in_threadpool(_not_kept, call, key, begun, _status(error))
        raise
    await run_in_threadpool(_keep, call, key, begun, answer)
    return answer


def _digest(request: Request, data: bytes) -> str:
    return digest_of(b"\n".join([request.url.path.encode(), request.url.query.encode(), data]))


def _status(error: Exception) -> int:
    if isinstance(error, Problem):
        return error.status
    return problem_of(error).status if isinstance(error, TickworkError) else 500


def _repeated(kept: KeptAnswer, digest: str) -> Response:
    """Return a kept answer.

    Raises Problem if it belongs to a different request, or the first request is still running.
    """
    if kept.digest != digest:
        raise Problem(422, "key-reused", f"this {IDEMPOTENCY_HEADER} was sent with another request. Nothing was done.")
    if kept.status is None:
        said = f"the request with this {IDEMPOTENCY_HEADER} is being carried out. Ask again in a moment."
        raise Problem(409, "in-flight", said, headers={"Retry-After": "1"})
    return Response(kept.body, kept.status, {**kept.headers, "Idempotent-Replayed": "true"})


def _keep(call: Call, key: str, begun: BegunRequest, answer: Response) -> None:
    """Store an answer for repeated requests, unless it is an error or a stream."""
    if answer.status_code >= 400 or isinstance(answer, StreamingResponse):
        _not_kept(call, key, begun, answer.status_code)
        return
    headers = {name: answer.headers[name] for name in _KEPT_HEADERS if name in answer.headers}
    known = (call.who.name, key, begun.began_at)
    call.app.store.access.keep_answer(*known, answer.status_code, headers, bytes(answer.body))


def _not_kept(call: Call, key: str, begun: BegunRequest, status: int) -> None:
    """Forget a request that was refused. After a server error, which may follow a commit, let it run again."""
    store = call.app.store
    let_go = store.access.release_answer if status >= 500 else store.access.drop_answer
    let_go(call.who.name, key, begun.began_at)


def _ids(begun: BegunRequest, who: str, key: str) -> IdMaker:
    """Return an id maker that makes the same ids each time this request runs."""
    seed, drawn = f"{who}\n{key}\n".encode(), count()

    def randbits(bits: int) -> int:
        size = -(-bits // 8)
        data = hashlib.shake_256(seed + str(next(drawn)).encode()).digest(size)
        return int.from_bytes(data, "big") >> (size * 8 - bits)

    return IdMaker(lambda: to_us(begun.first_at) // 1000, randbits)
