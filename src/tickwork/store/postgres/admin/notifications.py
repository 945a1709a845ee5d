"""Notifications on PostgreSQL (see `store.admin.notifications`). The SQL is in sql/notifications.sql."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tickwork.core.notify.channels import Channel, decode_channel, encode_channel
from tickwork.core.notify.rule import JobEvent, Notification, encode_notification
from tickwork.core.notify.state import EndedMark, encode_watch, new_watch
from tickwork.store.admin.notifications import Missed, NotificationMove, NotificationView, check_channels, check_unused
from tickwork.store.postgres.caller_tx.statements import TxStatements
from tickwork.store.postgres.connection.session import Session, utc
from tickwork.store.postgres.transactions import PostgresTransactions
from tickwork.store.rows.admin import notification_view
from tickwork.store.rows.jobs import job_event


@dataclass(eq=False)
class PostgresNotifications:
    """Notifications, their channels and states, and the reads of jobs on which rules are evaluated."""

    transactions: PostgresTransactions
    tx_statements: TxStatements

    def put_channel(self, channel: Channel) -> None:
        value = encode_channel(channel)
        self.transactions.run("put_channel", name=channel.name, value=value)

    def delete_channel(self, name: str) -> bool:
        def delete(session: Session) -> bool:
            session.run("lock_channels")
            check_unused(name, [notification_view(row, utc) for row in session.run("notifications")])
            return bool(session.run("delete_channel", name=name))

        return self.transactions.perform(delete, single=False)

    def list_channels(self) -> dict[str, Channel]:
        found = [decode_channel(value) for (value,) in self.transactions.run("channels")]
        return {channel.name: channel for channel in found}

    def put_notification(self, notification: Notification) -> None:
        values = {"name": notification.name, "value": encode_notification(notification)}
        watch = encode_watch(new_watch(self.transactions.now()))

        def put(session: Session) -> None:
            check_channels(notification, [decode_channel(value) for (value,) in session.run("lock_channels")])
            session.run("put_notification", **values, watch=watch)

        self.transactions.perform(put, single=False)

    def delete_notification(self, name: str) -> bool:
        return bool(self.transactions.run("delete_notification", name=name))

    def list_notifications(self) -> list[NotificationView]:
        return self._notification_views("notifications")

    def due_notifications(self) -> list[NotificationView]:
        return self._notification_views("due_notifications")

    def _notification_views(self, statement: str) -> list[NotificationView]:
        """Run a statement that reads notifications; return their views."""
        rows = self.transactions.run(statement)
        return [notification_view(row, utc) for row in rows]

    def move_notification(self, move: NotificationMove) -> bool:
        values = {"name": move.name, "version": move.version, "watch": encode_watch(move.watch)}

        def carry_out(session: Session) -> bool:
            moved = bool(session.run("move_notification", **values, look_at=move.look_at))
            if moved and move.jobs:
                session.run_steps(self.tx_statements.insert(move.jobs, session.now, None, session.again))
            return moved

        moved = self.transactions.perform(carry_out, single=False)
        if moved and move.jobs:
            self.transactions.notifier.call()
        return moved

    def ended_jobs(
        self, after: EndedMark, until: datetime, limit: int, *, badly: bool, task: str | None = None
    ) -> list[JobEvent]:
        values = {"at": after.at, "id": after.job_id, "until": until, "limit": limit}
        if badly:
            return self._sightings("ended_badly", **values)
        return self._sightings("ended_jobs", **values, task=task)

    def running_jobs(self, limit: int) -> list[JobEvent]:
        return self._sightings("running_jobs", limit=limit)

    def waiting_jobs(self, after: datetime, until: datetime, limit: int) -> list[JobEvent]:
        return self._sightings("waiting_jobs", after=after, until=until, limit=limit)

    def _sightings(self, statement: str, **values: Any) -> list[JobEvent]:
        """Run a statement that reads jobs for notifications; return them as events."""
        rows = self.transactions.run(statement, **values)
        return [job_event(row, utc) for row in rows]

    def missed_fires(self, after: datetime, until: datetime, limit: int) -> list[Missed]:
        values = {"after": after, "until": until, "limit": limit}
        rows = self.transactions.run("missed_fires", **values)
        return [Missed(schedule, utc(due), action, reason) for schedule, due, action, reason in rows]
