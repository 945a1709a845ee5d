"""Hooks: endpoints for signed messages of other services, and the task or dag that they start.

A hook names the secret that messages are signed with, and maps their contents to the arguments of a task or the
parameters of a dag. `args` and `key` contain expressions, `${body.data.id}`: paths into the message, never code.

A signature is the HMAC-SHA256 of a message body, in one of three styles:

- github: `X-Hub-Signature-256: sha256=...`, over the body.
- stripe: `Stripe-Signature: t=...,v1=...`, over `t.body`; there may be several v1.
- generic: `X-Tickwork-Signature: t=...,v1=...`, as for stripe.

Signatures are compared in constant time, and an expected signature is computed even for a message without one.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec

from tickwork.errors import InvalidInput, InvalidOption

Style = Literal["github", "stripe", "generic"]
Outcome = Literal["accepted", "duplicate", "ignored", "refused"]

WINDOW = timedelta(days=1)
SHORTEST_WINDOW = timedelta(minutes=10)  # twice the allowed clock difference (see signature.py)
LONGEST_WINDOW = timedelta(days=30)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_VERSION = 1


class Hook(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The definition of a hook.

    `target` is the name of the task or dag that it starts, `secret` the name of the secret that messages are signed
    with. `events` are the types of messages that are accepted; empty means all. A message that was accepted is not
    accepted again for `window`.
    """

    name: str
    style: Style
    secret: str
    target: str
    kind: Literal["task", "dag"] = "task"
    args: str = "{}"
    key: str | None = None
    events: tuple[str, ...] = ()
    window: timedelta = WINDOW
    description: str | None = None

    def __post_init__(self) -> None:
        hook_name(self.name)
        if not SHORTEST_WINDOW <= self.window <= LONGEST_WINDOW:
            raise InvalidOption("window must be from 10m to 30d: so long a message is not taken twice.")


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A received message and its outcome, without its contents. `is_genuine`: its signature was valid."""

    id: str
    hook: str
    is_genuine: bool
    outcome: Outcome
    size: int
    event: str | None = None
    job_id: str | None = None
    reason: str | None = None
    received_at: datetime | None = None


def hook_name(value: Any) -> str:
    """Return the name of a hook, which is part of its URL. Raises InvalidOption."""
    if not isinstance(value, str) or _NAME.fullmatch(value) is None:
        raise InvalidOption(
            f"the name of a hook is a part of its address: letters, digits and _ . - (up to 100), not {value!r}."
        )
    return value


# -- JSON in the store


class _StoredHook(msgspec.Struct, frozen=True):
    version: int
    hook: Hook


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_StoredHook)


def encode_hook(hook: Hook) -> str:
    """Return a hook as JSON; equal hooks give the same text."""
    return _encoder.encode({"version": _VERSION, "hook": hook}).decode()


def decode_hook(text: str) -> Hook:
    """Return the hook that `encode_hook` encoded. Raises InvalidInput for anything else."""
    try:
        return _decoder.decode(text).hook
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"a stored hook cannot be read: {error}. Was it written by a newer Tickwork?") from None


TOLERANCE = timedelta(minutes=5)  # allowed difference between the clocks of sender and server, including the transfer
HEADERS: dict[Style, str] = {
    "github": "x-hub-signature-256",
    "stripe": "stripe-signature",
    "generic": "x-tickwork-signature",
}
_SIGNATURES_LIMIT = 8
_HEADER_LIMIT = 4096
_PARTS_LIMIT = 16  # of a header: parsing takes no measurable time, in any style
_SIGNATURE = re.compile(r"[0-9a-f]{64}", re.ASCII)
_TIME = re.compile(r"[0-9]{1,12}", re.ASCII)


class BadSignature(Exception):
    """The message was not signed with this secret."""


class TooOld(Exception):
    """The message was signed with this secret, but too long ago or in the future."""


def check_signature(style: Style, secret: bytes, headers: Mapping[str, str], body: bytes, now: datetime) -> str:
    """Verify a message and return its signature. Raises BadSignature, or TooOld for a wrong timestamp.

    The names in `headers` are lower-case.
    """
    time, given = _said(style, headers)
    if style == "github":
        return _matched(secret, body, given)
    signature = _matched(secret, b"%s.%s" % (time.encode(), body), given)
    if abs(now.timestamp() - int(time)) > TOLERANCE.total_seconds():
        raise TooOld("it was signed at another time than now: more than 5 minutes ago, or by a clock that is wrong")
    return signature


def brings_signature(style: Style, headers: Mapping[str, str]) -> bool:
    """Return whether the headers contain a well-formed signature. Without one, verification fails."""
    _, given = _said(style, headers)
    return any(_SIGNATURE.fullmatch(one) for one in given)


def _said(style: Style, headers: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return the timestamp and the signatures in the headers. GitHub sends no timestamp."""
    said = headers.get(HEADERS[style], "")[:_HEADER_LIMIT]
    if style == "github":
        return "0", [said.removeprefix("sha256=")] if said.startswith("sha256=") else []
    return _timed(said)


def _timed(said: str) -> tuple[str, list[str]]:
    """Return the timestamp and signatures in "t=1492774577,v1=5257a...,v0=..."; "0" and none without a timestamp."""
    parts = [part.strip().partition("=") for part in said.split(",", _PARTS_LIMIT)[:_PARTS_LIMIT]]
    times = [value for name, _, value in parts if name == "t"]
    if len(times) != 1 or _TIME.fullmatch(times[0]) is None:
        return "0", []
    return times[0], [value for name, _, value in parts if name == "v1"]


def _matched(secret: bytes, message: bytes, given: list[str]) -> str:
    """Return the signature of a message if it is among those given. The time taken does not depend on the result."""
    expected = _digest(secret, message)
    found = [
        hmac.compare_digest(one.encode("utf-8", "replace"), expected.encode()) for one in given[:_SIGNATURES_LIMIT]
    ]
    if not any(found):
        raise BadSignature("its signature does not hold" if given else "it brings no signature")
    return expected


def _digest(secret: bytes, message: bytes) -> str:
    return hmac.new(secret, message, hashlib.sha256).hexdigest()
