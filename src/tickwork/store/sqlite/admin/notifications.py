"""Notifications on one SQLite file (see `store.admin.notifications`). The SQL is in sql/notifications.sql."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tickwork.core.notify.channels import Channel, decode_channel, encode_channel
from tickwork.core.notify.rule import JobEvent, Notification, encode_notification
from tickwork.core.notify.state import EndedMark, encode_watch, new_watch
from tickwork.store.admin.notifications import Missed, NotificationMove, NotificationView, check_channels, check_unused
from tickwork.store.rows.admin import notification_view
from tickwork.store.rows.instants import from_us, to_us
from tickwork.store.rows.jobs import job_event
from tickwork.store.sqlite import insert_jobs
from tickwork.store.sqlite.transactions import SqliteTransactions


class SqliteNotifications:
    """Notifications and channels, and the reads of jobs on which rules are evaluated."""

    def __init__(self, transactions: SqliteTransactions) -> None:
        self._transactions = transactions

    def put_channel(self, channel: Channel) -> None:
        with self._transactions.write() as transaction:
            transaction.run("put_channel", {"name": channel.name, "value": encode_channel(channel)})

    def delete_channel(self, name: str) -> bool:
        with self._transactions.write() as transaction:
            check_unused(name, [notification_view(row, from_us) for row in transaction.run("notifications")])
            return bool(transaction.run("delete_channel", (name,)))

    def list_channels(self) -> dict[str, Channel]:
        with self._transactions.read() as transaction:
            found = [decode_channel(value) for (value,) in transaction.run("channels")]
        return {channel.name: channel for channel in found}

    def put_notification(self, notification: Notification) -> None:
        with self._transactions.write() as transaction:
            check_channels(notification, [decode_channel(value) for (value,) in transaction.run("channels")])
            values = {"name": notification.name, "value": encode_notification(notification), "now": transaction.now}
            transaction.run("put_notification", {**values, "watch": encode_watch(new_watch(from_us(transaction.now)))})

    def delete_notification(self, name: str) -> bool:
        with self._transactions.write() as transaction:
            return bool(transaction.run("delete_notification", (name,)))

    def list_notifications(self) -> list[NotificationView]:
        with self._transactions.read() as transaction:
            return [notification_view(row, from_us) for row in transaction.run("notifications")]

    def due_notifications(self) -> list[NotificationView]:
        with self._transactions.read() as transaction:
            rows = transaction.run("due_notifications", (transaction.now,))
        return [notification_view(row, from_us) for row in rows]

    def move_notification(self, move: NotificationMove) -> bool:
        values = {"name": move.name, "version": move.version, "watch": encode_watch(move.watch)}
        with self._transactions.write() as transaction:
            moved = bool(transaction.run("move_notification", {**values, "look_at": to_us(move.look_at)}))
            if moved:
                insert_jobs.insert(transaction, move.jobs, known=False)
        if moved and move.jobs:
            self._transactions.wake()
        return moved

    def ended_jobs(
        self, after: EndedMark, until: datetime, limit: int, *, badly: bool, task: str | None = None
    ) -> list[JobEvent]:
        values = {"at": to_us(after.at), "id": after.job_id, "until": to_us(until), "limit": limit}
        if badly:
            return self._sightings("ended_badly", values)
        return self._sightings("ended_jobs", {**values, "task": task})

    def running_jobs(self, limit: int) -> list[JobEvent]:
        return self._sightings("running_jobs", (limit,))

    def waiting_jobs(self, after: datetime, until: datetime, limit: int) -> list[JobEvent]:
        return self._sightings("waiting_jobs", {"after": to_us(after), "until": to_us(until), "limit": limit})

    def _sightings(self, statement: str, values: Any) -> list[JobEvent]:
        """Run a statement that reads jobs for notifications; return them as events."""
        with self._transactions.read() as transaction:
            rows = transaction.run(statement, values)
        return [job_event(row, from_us) for row in rows]

    def missed_fires(self, after: datetime, until: datetime, limit: int) -> list[Missed]:
        with self._transactions.read() as transaction:
            rows = transaction.run("missed_fires", {"after": to_us(after), "until": to_us(until), "limit": limit})
        return [Missed(schedule, from_us(due), action, reason) for schedule, due, action, reason in rows]
