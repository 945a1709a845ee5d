"""Notifications of an app: rules that send events to channels."""

from __future__ import annotations

from typing import Any

from tickwork.api.async_twins import twin
from tickwork.api.client import Client, Job
from tickwork.context import current_creator
from tickwork.core.ids import IdMaker, JobId
from tickwork.core.notify.channels import Channel, new_channel
from tickwork.core.notify.delivery import delivery, trial_message
from tickwork.core.notify.rule import Notification, new_notification
from tickwork.errors import NotificationNotFound
from tickwork.store.admin.notifications import NotificationView


class Notifications:
    """The notifications of a store by name: `app.notifications.put("night", "failed", to="ops", task="report")`."""

    def __init__(self, client: Client, ids: IdMaker) -> None:
        self._client = client
        self._store = client.store
        self._ids = ids

    def put(self, /, name: str, on: str, to: str | list[str], **given: Any) -> Notification:
        """Store a notification; a notification of the same name is replaced. Raises InvalidInput.

        `on` is failed, dead, late, never_started, sla_missed, schedule_missed, worker_lost, queue_older_than or
        silent. `task=`, `dag=`, `queue=` and `schedule=` restrict it, `after="1h"` is how long something may take,
        and all events within `window="5m"` are sent as one message.
        """
        made = new_notification(name, on, to, **given)
        self._store.notifications.put_notification(made)
        return made

    def all(self) -> list[NotificationView]:
        """Return all notifications, by name, with their state."""
        return self._store.notifications.list_notifications()

    def __getitem__(self, name: str) -> NotificationView:
        """Return one notification. Raises NotificationNotFound."""
        found = next((view for view in self.all() if view.notification.name == name), None)
        if found is None:
            raise NotificationNotFound(f"there is no notification {name!r}. See which there are: tickwork notify list")
        return found

    def delete(self, name: str) -> bool:
        """Delete a notification; return False if there is none of that name."""
        return self._store.notifications.delete_notification(name)

    def test(self, name: str) -> list[Job]:
        """Send a test message to all channels of a notification; return the jobs that deliver it."""
        notification, channels = self[name].notification, self.channels()
        message = trial_message(notification, self._store.now())
        to = [channels[one] for one in notification.to if one in channels]
        creator = current_creator()
        jobs = [delivery(JobId(self._ids.new_id()), channel, message, creator) for channel in to]
        return self._client.enqueue(jobs)

    def put_channel(self, /, name: str, kind: str, **given: Any) -> Channel:
        """Store a channel, to which messages are sent; a channel of the same name is replaced. Raises InvalidInput.

        `kind` is webhook (`url=`, `secret="${secret.NAME}"`), slack (`url=`) or smtp (`host=`, `port=`, `tls=`,
        `sender=`, `to=`, `user=`, `password="${secret.NAME}"`). `queue=` is the queue of its delivery jobs.
        """
        made = new_channel(name, kind, **given)
        self._store.notifications.put_channel(made)
        return made

    def channels(self) -> dict[str, Channel]:
        """Return the channels by name."""
        return self._store.notifications.list_channels()

    def delete_channel(self, name: str) -> bool:
        """Delete a channel; return False if there is none. Raises InvalidInput while a notification uses it."""
        return self._store.notifications.delete_channel(name)

    put_async = twin(put)
    all_async = twin(all)
    delete_async = twin(delete)
    test_async = twin(test)
    put_channel_async = twin(put_channel)
    channels_async = twin(channels)
    delete_channel_async = twin(delete_channel)
