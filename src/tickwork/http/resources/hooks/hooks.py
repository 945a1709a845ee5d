"""Hooks over REST: which there are, and what came in at them. What comes in is taken in deliveries.py."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

import msgspec

from tickwork.core.hooks.hook import Delivery, encode_hook
from tickwork.declare.dag_fields import HookFields
from tickwork.declare.export import declared_hook
from tickwork.declare.hooks import hook_of
from tickwork.declare.problems import BadFile
from tickwork.errors import HookNotFound
from tickwork.http.declared_bodies import refused_text
from tickwork.http.framework.conditional import changed_meanwhile, etag_of, is_conditional
from tickwork.http.framework.pagination import PageQuery, is_sayable, name_after
from tickwork.http.framework.route import HandlerResult, Routes, Scope, Struct
from tickwork.http.request import Call
from tickwork.http.resources.jobs.jobs import warning_of
from tickwork.store.admin.hooks import HookView

routes = Routes("hooks")


class HookBody(Struct):
    """A hook. `spec` is what defines it, as files say it; its secret is there by name alone."""

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
    """What came in, and what became of it: accepted, duplicate, ignored or refused. Nothing of what it said."""

    id: str
    received_at: datetime | None
    is_genuine: bool
    outcome: str
    event: str | None
    job_id: str | None
    reason: str | None
    size: int


class DeliveryPage(Struct):
    """What came in lately, the newest first."""

    items: list[DeliveryBody]
    next_cursor: str | None


@routes.get("/hooks", Scope.READ)
def list_hooks(call: Call, query: PageQuery) -> HookPage:
    """List hooks by name."""
    views = call.app.store.list_hooks(query.limit, name_after(query))
    return HookPage([_body(view) for view in views], views[-1].hook.name if len(views) == query.limit else None)


@routes.get("/hooks/{name}", Scope.READ)
def get_hook(call: Call, name: str) -> HookBody | HandlerResult:
    """Return a hook. Its ETag is for edits: send it back as If-Match."""
    return _answer(_found(call, name))


@routes.put("/hooks/{name}", Scope.ADMIN, also={201: HookBody})
def put_hook(call: Call, name: str, body: HookFields) -> HookBody | HandlerResult:
    """Store a hook, or change the one of that name. What it does not say is as it is by default.

    With If-Match (an ETag) or If-None-Match (*) only where that holds, and otherwise 412.
    """
    store = call.app.store
    try:
        hook = hook_of(name, msgspec.to_builtins(body), store.task_definition)
    except BadFile as error:
        raise refused_text(error, lines=False) from None
    old = store.get_hook(name)
    if not is_conditional(call.request, None if old is None else etag_of(encode_hook(old.hook))):
        store.put_hooks([hook])
    elif not store.replace_hook(hook, None if old is None else old.hook):
        raise changed_meanwhile()
    call.changed(f"hook {name}", None if old is None else declared_hook(old.hook), declared_hook(hook))
    target = [hook.target]
    warning = warning_of(call, target) if hook.kind == "task" else warning_of(call, [], dags=target)
    return _answer(_found(call, name), 201 if old is None else 200, warning)


@routes.delete("/hooks/{name}", Scope.ADMIN)
def delete_hook(call: Call, name: str) -> None:
    """Delete a hook and what is recorded of its deliveries. Jobs that it has started go on."""
    view = _found(call, name)
    call.app.store.delete_hooks([name])
    call.changed(f"hook {name}", declared_hook(view.hook))


@routes.get("/hooks/{name}/deliveries", Scope.READ)
def list_deliveries(call: Call, name: str) -> DeliveryPage:
    """List what came in lately at a hook: the last 50 that were genuine, and some of those that were not."""
    _found(call, name)
    return DeliveryPage([_delivery(one) for one in call.app.store.deliveries(name)], None)


def _found(call: Call, name: str) -> HookView:
    view = call.app.store.get_hook(name) if is_sayable(name) else None
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
