"""Notifications and channels over REST."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

from tickwork.core.notify.channels import Channel
from tickwork.core.notify.rule import FILTERS, Kind, Notification
from tickwork.core.text.duration import format_duration
from tickwork.errors import NotificationNotFound
from tickwork.http.framework.route import HandlerResult, ListBody, Routes, Scope, Struct
from tickwork.http.request import Call
from tickwork.store.admin.notifications import NotificationView

routes = Routes("notifications")

ChannelKind = Literal["webhook", "slack", "smtp"]


class NotificationFields(Struct):
    """A notification. `after` is how long something may take; all cases within `window` are sent as one message."""

    on: Kind
    to: list[str]
    task: str | None = None
    dag: str | None = None
    queue: str | None = None
    schedule: str | None = None
    after: str | None = None
    window: str | None = None


class NotificationBody(Struct):
    """A notification, the time of its last message, and the number of cases that wait for the next message."""

    name: str
    on: Kind
    to: list[str]
    task: str | None
    dag: str | None
    queue: str | None
    schedule: str | None
    after: str | None
    window: str
    told_at: datetime | None
    waiting_count: int


class NotificationList(ListBody[NotificationBody]):
    """All notifications, by name."""


class ChannelFields(Struct):
    """A channel. `url` may be a reference to a secret; `secret` and `password` must be references: `${secret.NAME}`."""

    kind: ChannelKind
    url: str | None = None
    secret: str | None = None
    host: str | None = None
    port: int | None = None
    tls: Literal["starttls", "tls", "none"] | None = None
    sender: str | None = None
    to: list[str] | None = None
    user: str | None = None
    password: str | None = None
    queue: str | None = None


class ChannelBody(ChannelFields, kw_only=True):
    """A channel."""

    name: str


class ChannelList(ListBody[ChannelBody]):
    """All channels, by name."""


class TestBody(Struct):
    """The jobs that deliver a test message."""

    jobs: list[str]


@routes.get("/notifications", Scope.READ)
def list_notifications(call: Call) -> NotificationList:
    """List notifications, by name."""
    return NotificationList([_view(view) for view in call.app.notifications.all()], None)


@routes.get("/notifications/{name}", Scope.READ)
def get_notification(call: Call, name: str) -> NotificationBody:
    """Return a notification and its state."""
    return _view(call.app.notifications[name])


@routes.put("/notifications/{name}", Scope.OPERATE, also={201: NotificationBody})
def put_notification(call: Call, name: str, body: NotificationFields) -> NotificationBody | HandlerResult:
    """Store a notification, or replace the one of that name. Changing a notification resets its state."""
    before = _before(call, name)
    call.app.notifications.put(name, **msgspec.structs.asdict(body))
    after = call.app.notifications[name]
    call.changed(f"notification:{name}", before=before, after=_said(after.notification))
    return HandlerResult(_view(after), status=200 if before is not None else 201)


@routes.delete("/notifications/{name}", Scope.OPERATE)
def delete_notification(call: Call, name: str) -> None:
    """Delete a notification."""
    before = _before(call, name)
    if not call.app.notifications.delete(name):
        raise NotificationNotFound(f"there is no notification {name!r}.")
    call.changed(f"notification:{name}", before=before)


@routes.post("/notifications/{name}/test", Scope.OPERATE, status=202)
def test_notification(call: Call, name: str) -> TestBody:
    """Send a test message through all channels of a notification."""
    jobs = [job.id for job in call.app.notifications.test(name)]
    call.changed(f"notification:{name}", after={"test": jobs})
    return TestBody(list(jobs))


@routes.get("/channels", Scope.READ)
def list_channels(call: Call) -> ChannelList:
    """List channels by name. Their secrets are references."""
    return ChannelList([_channel(one) for one in call.app.notifications.channels().values()], None)


@routes.get("/channels/{name}", Scope.READ)
def get_channel(call: Call, name: str) -> ChannelBody:
    """Return a channel."""
    found = call.app.notifications.channels().get(name)
    if found is None:
        raise NotificationNotFound(f"there is no channel {name!r}.")
    return _channel(found)


@routes.put("/channels/{name}", Scope.ADMIN, also={201: ChannelBody})
def put_channel(call: Call, name: str, body: ChannelFields) -> ChannelBody | HandlerResult:
    """Store a channel, or replace the one of that name."""
    before = call.app.notifications.channels().get(name)
    after = call.app.notifications.put_channel(name, **msgspec.structs.asdict(body))
    known = None if before is None else msgspec.to_builtins(before)
    call.changed(f"channel:{name}", before=known, after=msgspec.to_builtins(after))
    return HandlerResult(_channel(after), status=200 if before is not None else 201)


@routes.delete("/channels/{name}", Scope.ADMIN)
def delete_channel(call: Call, name: str) -> None:
    """Delete a channel that no notification uses."""
    before = call.app.notifications.channels().get(name)
    if not call.app.notifications.delete_channel(name):
        raise NotificationNotFound(f"there is no channel {name!r}.")
    call.changed(f"channel:{name}", before=msgspec.to_builtins(before))


def _before(call: Call, name: str) -> dict[str, Any] | None:
    views = call.app.notifications.all()
    found = next((view.notification for view in views if view.notification.name == name), None)
    return None if found is None else _said(found)


def _said(notification: Notification) -> dict[str, Any]:
    """Return the fields of a notification as given when it was created."""
    return {
        "on": notification.on,
        "to": list(notification.to),
        **{field: getattr(notification, field) for field in FILTERS},
        "after": format_duration(notification.after) if notification.after else None,
        "window": format_duration(notification.window),
    }


def _view(view: NotificationView) -> NotificationBody:
    said = _said(view.notification)
    return NotificationBody(
        name=view.notification.name, **said, told_at=view.watch.told_at, waiting_count=view.watch.count
    )


def _channel(channel: Channel) -> ChannelBody:
    given = msgspec.to_builtins(channel)
    return ChannelBody(**{"kind" if name == "type" else name: value for name, value in given.items()})
