"""Hooks over REST: store, list and delete them, and list their deliveries. Messages are received in deliveries.py."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

import msgspec

from tickwork.core.hooks import Delivery, encode_hook
from tickwork.declare.dag_fields import HookFields
from tickwork.declare.export import declared_hook
from tickwork.declare.hooks import hook_of
from tickwork.declare.reader import BadFile
from tickwork.errors import HookNotFound
from tickwork.http.declared_bodies import refused_text
from tickwork.http.framework.conditional import changed_meanwhile, etag_of, is_conditional
from tickwork.http.framework.pagination import PageQuery, is_storable_name, name_after
from tickwork.http.framework.route import HandlerResult, Routes, Scope, Struct
from tickwork.http.request import Call
from tickwork.http.resources.jobs.jobs import warning_of
from tickwork.store.admin.hooks import HookView

routes = Routes("hooks")


class HookBody(Struct):
    """A hook. `spec` is its definition, as in files; it contains only the name of the secret."""

    name: str
    url: str
    spec: HookFields
    created_at: datetime
    edited_at: datetime


class HookPage(Struct):
    """Some hooks, by name."""

    items: list[HookBody]
    next_cursor: str | None


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


class DeliveryPage(Struct):
    """Recent deliveries, the newest first."""

    items: list[DeliveryBody]
    next_cursor: str | None


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
    """Store a hook, or replace the one of that name. Fields that are left out have their defaults.

    With If-Match (an ETag) or If-None-Match (*), 412 if the condition is not met.
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
    """List recent deliveries of a hook: the last 50 genuine ones, and some of the others."""
    _found(call, name)
    return DeliveryPage([_delivery(one) for one in call.app.store.hooks.deliveries(name)], None)


def _found(call: Call, name: str) -> HookView:
    view = call.app.store.hooks.get_hook(name) if is_storable_name(name) else None
    if view is None:
        raise HookNotFound(f"there is no hook {name!r} in this store.")
    return view


def _answer(view: HookView, status: int | None = None, headers: Mapping[str, str] | None = None) -> HandlerResult:
    return HandlerResult(_body(view), status, {"ETag": etag_of(encode_hook(view.hook)), **(headers or {})})


def _body(view: HookView) -> HookBody:
    said: Any = declared_hook(view.hook)
    name = view.hook.name
    return HookBody(name, f"/hooks/{name}", cast("HookFields", said), view.created_at, view.edited_at)


def _delivery(one: Delivery) -> DeliveryBody:
    return DeliveryBody(**{name: getattr(one, name) for name in DeliveryBody.__struct_fields__})
