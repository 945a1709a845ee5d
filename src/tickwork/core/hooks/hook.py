"""A hook: an endpoint for messages of another service, and the task or dag that they start.

It names the secret that messages are signed with, and maps their contents to the arguments of a task or the parameters
of a dag. `args` and `key` contain expressions, `${body.data.id}`: paths into the message, never code.
"""

from __future__ import annotations

import re
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
