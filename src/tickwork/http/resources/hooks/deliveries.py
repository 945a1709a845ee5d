"""Receive webhooks of other services: a message signed as its hook requires becomes a job.

Senders without the secret learn nothing: an unknown hook, a secret that is not set on this server, and a wrong
signature get the same answer, after the same work. The deliveries of the hook say why. A message is kept in memory only
if it may turn out to be genuine.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Raw
from starlette.concurrency import run_in_threadpool

from tickwork.context import creating_as
from tickwork.core.arguments.unstorable import brief
from tickwork.core.blob_ref import Unfillable
from tickwork.core.dag.step_inputs import Values
from tickwork.core.hooks import (
    HEADERS,
    BadSignature,
    Delivery,
    Hook,
    Outcome,
    TooOld,
    brings_signature,
    check_signature,
)
from tickwork.core.ids import JobId
from tickwork.core.limits.task_limits import decode_task_limits
from tickwork.declare.hooks import arguments_of, key_of
from tickwork.errors import InvalidInput, KeyTaken, SecretError
from tickwork.http.connections.bodies import check_head, read_bytes, skip_bytes
from tickwork.http.connections.capacity import CapacityShare, capacity_share
from tickwork.http.framework.duplicate_keys import repeated_key
from tickwork.http.framework.pagination import is_storable_name
from tickwork.http.framework.problems import Problem
from tickwork.http.framework.route import BODY_LIMIT, NO_CREDENTIALS, Routes, Struct
from tickwork.http.hook_secrets import hook_secret
from tickwork.http.request import Call
from tickwork.store.admin.hooks import HookView

routes = Routes("hooks", prefix="")

_NOBODY = Hook(name="nobody", style="generic", secret="nobody", target="nobody")
_NO_SECRET = secrets.token_bytes(32)
_HIDDEN = {"authorization", "cookie", "proxy-authorization", *HEADERS.values()}
_PLAIN = re.compile(r"[\w.:-]{1,80}", re.ASCII)


class ReceivedBody(Struct):
    """The outcome of a message: accepted, a duplicate of an earlier one, or ignored because of its type."""

    id: str
    outcome: str
    job_id: str | None


@routes.post("/hooks/{name}", NO_CREDENTIALS, status=202)
async def deliver(call: Call, name: str) -> ReceivedBody:
    """Receive a message of another service, signed as the hook requires, and start the hook's task or dag with it.

    404 if there is no such hook, its secret is not set here, or the signature is wrong. A repeated message returns its
    first job.
    """
    check_head(call.request, BODY_LIMIT)
    view = await run_in_threadpool(_find, call, name)
    with capacity_share(call.parts.unauthenticated_bodies) as share:
        data = await _body(call, view, share)
        return await run_in_threadpool(_take, call, view, data)


def _find(call: Call, name: str) -> HookView | None:
    return call.app.store.hooks.get_hook(name) if is_storable_name(name) else None


async def _body(call: Call, view: HookView | None, share: CapacityShare) -> bytes:
    """Read a message; keep it only if the hook exists and the message has a signature of the hook's style.

    Without any signature, nothing is read. Otherwise all of it is read, and the answer comes after as much work as if
    it had been kept: the sender cannot tell whether there is such a hook.
    """
    headers = call.request.headers
    if not any(brings_signature(style, headers) for style in HEADERS):
        return b""
    if view is not None and brings_signature(view.hook.style, headers):
        return await read_bytes(call.request, BODY_LIMIT, share)
    return bytes(await skip_bytes(call.request, BODY_LIMIT, call.parts.unauthenticated_bodies))


@dataclass(slots=True)
class _Message:
    """One message at a hook, while it is processed."""

    call: Call
    hook: Hook
    is_known: bool
    headers: Mapping[str, str]
    data: bytes
    id: str
    event: str | None = None

    def record(self, outcome: Outcome, *, job_id: str | None = None, reason: str | None = None) -> None:
        """Record the outcome of a genuine message."""
        self.call.app.store.hooks.record_delivery(self._delivery(outcome, job_id, reason, is_genuine=True))

    def refuse_stranger(self, reason: str, fault: str | None) -> None:
        """Record, after the answer, that a message of an unknown sender was refused."""
        if self.is_known:
            delivery = self._delivery("refused", None, fault or reason, is_genuine=False)
            self.call.parts.refusals.add(delivery, fault)

    def refused(self, status: int, code: str, reason: str) -> Problem:
        """Record that a genuine message was refused, and return the answer to its sender."""
        self.record("refused", reason=reason)
        return Problem(status, code, f"{reason}. Nothing was started.")

    def _delivery(self, outcome: Outcome, job_id: str | None, reason: str | None, *, is_genuine: bool) -> Delivery:
        return Delivery(
            id=self.id,
            hook=self.hook.name,
            is_genuine=is_genuine,
            outcome=outcome,
            size=len(self.data),
            event=self.event,
            job_id=job_id,
            reason=reason,
        )


def _take(call: Call, view: HookView | None, data: bytes) -> ReceivedBody:
    """Check a message and start its job; return the outcome."""
    headers = {key.lower(): value for key, value in call.request.headers.items()}
    (id,) = call.app.schedules.new_ids(1)
    message = _Message(call, _NOBODY if view is None else view.hook, view is not None, headers, data, id)
    signature = _check(message)
    values = _values(message)
    hook, event = message.hook, message.event
    if (hook.events and event not in hook.events) or (hook.style == "github" and event == "ping" and not hook.events):
        message.record("ignored", reason=f"its type is {event}")
        return ReceivedBody(id, "ignored", None)
    return _start(message, values, signature)


def _check(message: _Message) -> str:
    """Return the signature of a message. Raises Problem if it is wrong.

    An unknown hook, a secret that is not set here, and a wrong signature get the same answer, after the same work: a
    secret is looked up and a signature is computed in each case.
    """
    secret, fault = _NO_SECRET, None
    try:
        found = hook_secret(message.call.app, message.hook.secret)
        secret = found if message.is_known else _NO_SECRET
    except SecretError as error:
        fault = str(error)
    now = message.call.app.store.now()
    try:
        return check_signature(message.hook.style, secret, message.headers, message.data, now)
    except BadSignature as error:
        message.refuse_stranger(str(error), fault)
        raise Problem(
            404, "not-found", "there is no such hook, or this message is not signed as it asks. Nothing was started."
        ) from None
    except TooOld as error:  # its sender knows the secret, or has seen a genuine message
        message.refuse_stranger(str(error), None)
        raise Problem(401, "too-old", f"{error}. Nothing was started.") from None


def _values(message: _Message) -> Values:
    """Return the values for expressions. The body is encoded again, so that none of it can pass for Tickwork's own."""
    try:
        body = msgspec.json.decode(message.data)
        key = repeated_key(message.data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise message.refused(400, "malformed", "the body cannot be read as JSON") from None
    if key is not None:
        raise message.refused(400, "malformed", f"an object in the body has the key {brief(key)} twice")
    message.event = _event(message.hook, message.headers, body)
    shown = {name: value for name, value in message.headers.items() if name not in _HIDDEN}
    values = {"body": body, "event": message.event, "headers": shown}
    return {name: Raw(msgspec.json.encode(value)) for name, value in values.items()}


def _event(hook: Hook, headers: Mapping[str, str], body: Any) -> str | None:
    """Return the type of a message: GitHub sends it in a header, others in the body."""
    if hook.style == "github":
        found = headers.get("x-github-event")
    else:
        found = body.get("type") if isinstance(body, dict) else None
    return found[:200] if isinstance(found, str) else None


def _start(message: _Message, values: Values, signature: str) -> ReceivedBody:
    """Enqueue the job of a hook. A message is taken once while its job lives, and within the window after that."""
    call, hook = message.call, message.hook
    definition = call.parts.registrations.task_definition(hook.target)
    if hook.kind == "dag" and (definition is None or definition.version is None):
        raise message.refused(409, "no-such-dag", f"there is no dag {hook.target!r} in this store")
    debounced = definition is not None and decode_task_limits(definition.task_limits).merging is not None
    try:
        key = _key(hook, values, signature)
        options = {} if debounced else {"key": f"hook/{hook.name}/{key}", "key_for": hook.window}
        with creating_as(f"hook:{hook.name}"):
            new = call.app.named(hook.target).options(**options).new_job((), arguments_of(hook, values))
        (job,) = call.app.client.enqueue([new])
    except KeyTaken as taken:  # by a job of the task that the hook started before it was changed
        return _taken(message, "duplicate", taken.job_id)
    except (Unfillable, InvalidInput) as error:
        raise message.refused(422, "invalid", str(error).removesuffix(".")) from None
    return _taken(message, "accepted" if job.is_new else "duplicate", job.id)


def _taken(message: _Message, outcome: Outcome, job_id: str) -> ReceivedBody:
    message.record(outcome, job_id=JobId(job_id))
    return ReceivedBody(message.id, outcome, job_id)


def _key(hook: Hook, values: Values, signature: str) -> str:
    """Return the identity of a message: the hook's `key`, the event id of Stripe, or else the signature.

    Headers that name a delivery are not signed: an attacker with a copy of a message could send it again with another
    name.
    """
    said = key_of(hook, values)
    if said is None and hook.style == "stripe":
        body = msgspec.json.decode(values["body"])
        found = body.get("id") if isinstance(body, dict) else None
        said = found if isinstance(found, str) else None
    if said is None:
        return signature[:40]
    return said if _PLAIN.fullmatch(said) else hashlib.sha256(said.encode()).hexdigest()[:40]
