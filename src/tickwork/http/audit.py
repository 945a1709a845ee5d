"""What goes into the audit log: who did what to what, with how it was before and after. Never a secret."""

from __future__ import annotations

from typing import Any

import msgspec

from tickwork.core.payload import storable
from tickwork.http.call import Call
from tickwork.store.access import Change

TARGET_LIMIT = 500  # characters
ADDRESS_LIMIT = 100  # characters
VALUE_LIMIT = 16 * 1024  # bytes of what was before, and of what was after


def record(call: Call, action: str) -> None:
    """Add what a call did to the audit log."""
    target = storable(call.target or call.request.url.path)[:TARGET_LIMIT]
    values = (_encoded(call.before), _encoded(call.after))
    change = Change(storable(call.who.name), action, target, *values, call.request_id, address_of(call))
    call.app.store.record_change(change)


def address_of(call: Call) -> str:
    """Return the address that a call came from, by the word of the proxies that the settings trust."""
    return "" if call.request.client is None else storable(call.request.client.host)[:ADDRESS_LIMIT]


def _encoded(value: Any) -> bytes | None:
    if value is None:
        return None
    data = msgspec.json.encode(value, enc_hook=str)
    if len(data) <= VALUE_LIMIT:
        return data
    return msgspec.json.encode({"truncated": data[:VALUE_LIMIT].decode("utf-8", "ignore")})
