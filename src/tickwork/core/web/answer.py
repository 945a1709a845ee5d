"""HTTP responses: expected statuses, retryable statuses, Retry-After, redirects, and headers to keep."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from tickwork.errors import InvalidArguments

EXPECTED = ("2xx",)
WORTH_A_RETRY = frozenset({408, 425, 429, 500, 502, 503, 504})
REDIRECTS = frozenset({301, 302, 303, 307, 308})
REDIRECT_LIMIT = 5
LONGEST_WAIT = timedelta(days=1)  # caps any Retry-After
SIGNATURE = "X-Tickwork-Signature"
HEADER_LIMIT = 1000  # characters of a header that is kept

_KEPT = frozenset(
    [
        "age",
        "cache-control",
        "content-disposition",
        "content-encoding",
        "content-language",
        "content-length",
        "content-type",
        "date",
        "etag",
        "expires",
        "last-modified",
        "link",
        "location",
        "retry-after",
        "server",
        "x-request-id",
    ]
)
_KEPT_BEGINNINGS = ("ratelimit", "x-ratelimit-")
# The headers that may be sent to another origin after a redirect. All others may be credentials.
_FOR_ANYBODY = frozenset({"accept", "accept-language", "content-type", "user-agent"})


def is_expected(status: int, expect: Sequence[int | str]) -> bool:
    """Return whether a status matches 200, "2xx" or "200-204". Raises InvalidArguments for another notation."""
    return any(low <= status <= high for low, high in map(_range, expect or EXPECTED))


def _range(said: int | str) -> tuple[int, int]:
    """Return the lowest and highest status of an entry. Raises InvalidArguments."""
    text = str(said).strip().lower()
    low, dash, high = text.partition("-")
    if len(text) == 3 and text[0] in "12345" and text[1:] == "xx":
        return int(text[0]) * 100, int(text[0]) * 100 + 99
    if low.isdecimal() and (high.isdecimal() if dash else True) and 100 <= int(low) <= int(high or low) <= 599:
        return int(low), int(high or low)
    raise InvalidArguments(f"expect has {said!r}, which is no status: say 200, '2xx' or '200-204'.")


def retry_after(text: str | None, now: datetime) -> timedelta | None:
    """Return the wait that a Retry-After header asks for, at most a day; None if it cannot be parsed."""
    text = (text or "").strip()
    if text.isascii() and text.isdigit():
        return min(timedelta(seconds=int(text[:9])), LONGEST_WAIT)
    try:
        instant = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    wait = (instant if instant.tzinfo else instant.replace(tzinfo=UTC)) - now
    return min(max(wait, timedelta(0)), LONGEST_WAIT)


def after_redirect(status: int, method: str) -> str:
    """Return the method of the request after a redirect. A POST is repeated only for 307 and 308."""
    if status == 303 and method != "HEAD":
        return "GET"
    return "GET" if status in (301, 302) and method == "POST" else method


def for_another_origin(headers: dict[str, str]) -> dict[str, str]:
    """Return the headers that may be sent to another origin."""
    return {name: value for name, value in headers.items() if name.lower() in _FOR_ANYBODY}


def kept_headers(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the response headers to keep: useful ones without credentials."""
    found = ((name.lower(), value[:HEADER_LIMIT]) for name, value in headers)
    return {name: value for name, value in found if name in _KEPT or name.startswith(_KEPT_BEGINNINGS)}


def signature(secret: str, body: bytes, at_s: int) -> str:
    """Return the signature of a body with its timestamp, `t=...,v1=...`, as proof that the sender knows the secret."""
    signed = hmac.new(secret.encode(), f"{at_s}.".encode() + body, hashlib.sha256)
    return f"t={at_s},v1={signed.hexdigest()}"
