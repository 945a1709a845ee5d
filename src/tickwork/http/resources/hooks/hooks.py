"""Hooks over REST: store, list and delete them, list their deliveries, and receive webhooks of other services.

A message that is signed as its hook requires becomes a job. Senders without the secret learn nothing: an unknown
hook, a secret that is not set on this server, and a wrong signature get the same answer, after the same work. The
recorded deliveries of the hook contain the reason. A message is kept in memory only if its signature may be valid.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

import msgspec
from msgspec import Raw
from starlette.concurrency import run_in_threadpool

from tickwork.app import Tickwork
from tickwork.context import creating_as
from tickwork.core.access.scopes import is_secret_name
from tickwork.core.access.secret_policy import secret_variables
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
    encode_hook,
)
from tickwork.core.ids import JobId
from tickwork.core.limits.task_limits import decode_task_limits
from tickwork.declare.dag_fields import HookFields
from tickwork.declare.document_nodes import BadFile
from tickwork.declare.export import declared_hook
from tickwork.declare.hooks import arguments_of, hook_of, key_of
from tickwork.errors import HookNotFound, InvalidInput, KeyTaken, SecretError
from tickwork.http.connections.bodies import CapacityShare, capacity_share, check_head, read_bytes, skip_bytes
from tickwork.http.declared_bodies import refused_text
from tickwork.http.framework.conditional import changed_meanwhile, etag_of, is_conditional
from tickwork.http.framework.duplicate_keys import repeated_key
from tickwork.http.framework.params import PageQuery, is_storable_name, name_after
from tickwork.http.framework.problems import Problem, required
from tickwork.http.framework.route import BODY_LIMIT, NO_CREDENTIALS, HandlerResult, ListBody, Routes, Scope, Struct
from tickwork.http.request import Call
from tickwork.http.resources.jobs.jobs import warning_of
from tickwork.store.admin.hooks import HookView

routes = Routes("hooks")
_NOBODY = Hook(name="nobody", style="generic", secret="nobody", target="nobody")


class HookBody(Struct):
    """A hook. `spec` is its definition, as in declaration files; it contains the name of the secret, not its value."""

    name: str
    url: str
    spec: HookFields
    created_at: datetime
    edited_at: datetime


class HookPage(ListBody[HookBody]):
    """Some hooks, by name."""


class DeliveryBody(Struct):
    """A delivery and its outcome: accepted, duplicate, ignored or refused. The message itself is not stored."""

    id: str
    received_at: datetime | None
    is_genuine: bool
    outcome: str
    event: str | None
    job_id: str | None
    reason: str | None
    size: int


class DeliveryPage(ListBody[DeliveryBody]):
    """Recent deliveries, newest first."""


@routes.get("/hooks", Scope.READ)
def list_hooks(call: Call, query: PageQuery) -> HookPage:
    """List hooks by name."""
    views = call.app.store.hooks.list_hooks(query.limit, name_after(query))
    return HookPage([_body(view) for view in views], views[-1].hook.name if len(views) == query.limit else None)


@routes.get("/hooks/{name}", Scope.READ)
def get_hook(call: Call, name: str) -> HookBody | HandlerResult:
    """Return a hook. Send its ETag back as If-Match with an edit."""
    return _answer(_found(call, name))


@routes.put("/hooks/{name}", Scope.ADMIN, also={201: HookBody})
def put_hook(call: Call, name: str, body: HookFields) -> HookBody | HandlerResult:
    """Store a hook, or replace the one of that name. Fields that are left out get their defaults.

    412 if the condition in If-Match (an ETag) or If-None-Match (*) does not hold.
    """
    store = call.app.store
    try:
        hook = hook_of(name, msgspec.to_builtins(body), store.reads.task_definition)
    except BadFile as error:
        raise refused_text(error, lines=False) from None
    old = store.hooks.get_hook(name)
    if not is_conditional(call.request, None if old is None else etag_of(encode_hook(old.hook))):
        store.hooks.put_hooks([hook])
    elif not store.hooks.replace_hook(hook, None if old is None else old.hook):
        raise changed_meanwhile()
    call.changed(f"hook {name}", None if old is None else declared_hook(old.hook), declared_hook(hook))
    target = [hook.target]
    warning = warning_of(call, target) if hook.kind == "task" else warning_of(call, [], dags=target)
    return _answer(_found(call, name), 201 if old is None else 200, warning)


@routes.delete("/hooks/{name}", Scope.ADMIN)
def delete_hook(call: Call, name: str) -> None:
    """Delete a hook and its recorded deliveries. Jobs that it has started continue."""
    view = _found(call, name)
    call.app.store.hooks.delete_hooks([name])
    call.changed(f"hook {name}", declared_hook(view.hook))


@routes.get("/hooks/{name}/deliveries", Scope.READ)
def list_deliveries(call: Call, name: str) -> DeliveryPage:
    """List recent deliveries of a hook: the last 50 with a valid signature, and some of the others."""
    _found(call, name)
    return DeliveryPage([_delivery(one) for one in call.app.store.hooks.deliveries(name)], None)


def _found(call: Call, name: str) -> HookView:
    return required(
        call.app.store.hooks.get_hook(name) if is_storable_name(name) else None,
        HookNotFound(f"there is no hook {name!r} in this store."),
    )


def _answer(view: HookView, status: int | None = None, headers: Mapping[str, str] | None = None) -> HandlerResult:
    return HandlerResult(_body(view), status, {"ETag": etag_of(encode_hook(view.hook)), **(headers or {})})


def _body(view: HookView) -> HookBody:
    said: Any = declared_hook(view.hook)
    name = view.hook.name
    return HookBody(name, f"/hooks/{name}", cast("HookFields", said), view.created_at, view.edited_at)


def _delivery(one: Delivery) -> DeliveryBody:
    return DeliveryBody(**{name: getattr(one, name) for name in DeliveryBody.__struct_fields__})


delivery_routes = Routes("hooks", prefix="")

_NO_SECRET = secrets.token_bytes(32)
_HIDDEN = {"authorization", "cookie", "proxy-authorization", *HEADERS.values()}
_PLAIN = re.compile(r"[\w.:-]{1,80}", re.ASCII)


class ReceivedBody(Struct):
    """The outcome of a message: accepted, a duplicate of an earlier one, or ignored because of its type."""

    id: str
    outcome: str
    job_id: str | None


@delivery_routes.post("/hooks/{name}", NO_CREDENTIALS, status=202)
async def deliver(call: Call, name: str) -> ReceivedBody:
    """Receive a signed message of another service, and start the task or dag of the hook with it.

    404 if there is no such hook, its secret is not set here, or the signature is wrong. A repeated message returns
    its first job.
    """
    check_head(call.request, BODY_LIMIT)
    view = await run_in_threadpool(_find, call, name)
    with capacity_share(call.parts.unauthenticated_bodies) as share:
        data = await _delivery_body(call, view, share)
        return await run_in_threadpool(_take, call, view, data)


def _find(call: Call, name: str) -> HookView | None:
    return call.app.store.hooks.get_hook(name) if is_storable_name(name) else None


async def _delivery_body(call: Call, view: HookView | None, share: CapacityShare) -> bytes:
    """Read a message; keep it only if the hook exists and the message has a signature of the hook's style.

    Without any signature, nothing is read. Otherwise all of it is read, and the answer comes after the same work as
    for a kept message, so the sender cannot tell whether the hook exists.
    """
    headers = call.request.headers
    if not any(brings_signature(style, headers) for style in HEADERS):
        return b""
    if view is not None and brings_signature(view.hook.style, headers):
        return await read_bytes(call.request, BODY_LIMIT, share)
    return bytes(await skip_bytes(call.request, BODY_LIMIT, call.parts.unauthenticated_bodies))


@dataclass(slots=True)
class _Message:
    """One message for a hook, while it is processed."""

    call: Call
    hook: Hook
    is_known: bool
    headers: Mapping[str, str]
    data: bytes
    id: str
    event: str | None = None

    def record(self, outcome: Outcome, *, job_id: str | None = None, reason: str | None = None) -> None:
        """Record the outcome of a message whose signature is valid."""
        self.call.app.store.hooks.record_delivery(self._delivery(outcome, job_id, reason, is_genuine=True))

    def refuse_stranger(self, reason: str, fault: str | None) -> None:
        """Queue a record of a refused message whose signature is missing or wrong; it is stored after the answer."""
        if self.is_known:
            delivery = self._delivery("refused", None, fault or reason, is_genuine=False)
            self.call.parts.refusals.add(delivery, fault)

    def refused(self, status: int, code: str, reason: str) -> Problem:
        """Record that a message with a valid signature was refused, and return the answer to its sender."""
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

    An unknown hook, a secret that is not set here, and a wrong signature get the same answer, after the same work: in
    each case a secret is looked up and a signature is computed.
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
    """Return the values for expressions.

    The body is encoded again, so that no part of it can look like Tickwork's own JSON.
    """
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
    """Enqueue the job of a hook.

    A message is accepted once while its job is live and for the hook's window afterwards.
    """
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


def hook_secret(app: Tickwork, name: str) -> bytes:
    """Return a secret of the store, or a variable that `secret_env` allows. Raises SecretError if neither is set.

    A stored secret that this server cannot decrypt counts as not set, even if the environment has one. The work is
    the same whether the store has the secret or not, because unauthenticated callers can measure how long it takes.
    """
    value = app.vault.get_evenly(name) if is_secret_name(name) else None
    value = secret_variables(os.environ, app.settings.secret_env).get(name) if value is None else value
    if not value:
        raise SecretError(f"the secret {name} is not set on this server")
    return value.encode()
