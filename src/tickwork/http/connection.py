"""A connection that gives up: uvicorn waits for the head of a request for ever, and keeps as much of it as comes.

So does it read on, for as long as a client likes, what was sent after an answer that did not wait for it. Bodies of
requests that are being handled have bounds of their own (call.py).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import H11Protocol as Protocol
else:
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as Protocol
    except ImportError:
        from uvicorn.protocols.http.h11_impl import H11Protocol as Protocol

HEAD_WAIT_S = 15.0  # from the first byte of a request, or from the connection on
HEAD_LIMIT = 64 * 1024  # bytes
REST_LIMIT = 8 * 1024 * 1024  # of a body that was answered before it had come: who sends it shall hear the answer


class BoundedProtocol(Protocol):
    """Closes a connection on which no whole head of a request arrives in time, or only one that is too large."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_size = 0
        self._giving_up: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_came()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        before = cast("Any", self.cycle)  # none before the first request, whatever uvicorn's hint says
        handled = before is not None and not before.response_complete
        is_rest = before is not None and before.more_body
        super().data_received(data)
        if self.cycle is not before:
            self._head_came()
        elif not handled and not self.transport.is_closing():
            self._await_head()
            self._head_size += len(data)
            if self._head_size > (REST_LIMIT if is_rest else HEAD_LIMIT):
                self._refuse()

    def _await_head(self) -> None:
        if self._giving_up is None:
            self._giving_up = self.loop.call_later(HEAD_WAIT_S, self.timeout_keep_alive_handler)

    def _head_came(self) -> None:
        self._head_size = 0
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None

    def _refuse(self) -> None:
        """Say why, unless an answer was given: what comes now may be the rest of what it was for."""
        if cast("Any", self.cycle) is None:
            self.send_400_response("The head of this request is too large.")
        else:
            self.transport.close()
