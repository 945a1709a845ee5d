"""The store verbs of notifications: alert rules, channels, and the reads that rules are evaluated on.

These reads use indexes that end with the newest rows, or tables as small as the number of running jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from tickwork.core.job import NewJob
from tickwork.core.notify.channels import Channel
from tickwork.core.notify.rule import JobEvent, Notification
from tickwork.core.notify.state import AlertState, EndedMark
from tickwork.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class NotificationView:
    """A notification and its state. Every write raises `version`, and every move names it."""

    notification: Notification
    watch: AlertState
    version: int
    look_at: datetime


@dataclass(frozen=True, slots=True)
class Missed:
    """A missed occurrence of a schedule, and its outcome."""

    schedule: str
    due_at: datetime
    action: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class NotificationMove:
    """The change of a notification after an evaluation: its next state, when to evaluate again, and messages."""

    name: str
    version: int
    watch: AlertState
    look_at: datetime
    jobs: tuple[NewJob, ...] = ()


class NotifyVerbs(Protocol):
    """The verbs of notifications. Each is safe to run twice."""

    def put_channel(self, channel: Channel) -> None:
        """Store a channel; it replaces a channel of that name."""

    def delete_channel(self, name: str) -> bool:
        """Delete a channel; False when there is none. Raises InvalidInput while a notification names it."""

    def list_channels(self) -> dict[str, Channel]:
        """Return the channels by name."""

    def put_notification(self, notification: Notification) -> None:
        """Store a notification; it replaces one of that name. A changed rule begins with a new state.

        Raises InvalidInput if it names a channel that does not exist.
        """

    def delete_notification(self, name: str) -> bool:
        """Delete a notification; False when there is none."""

    def list_notifications(self) -> list[NotificationView]:
        """Return all notifications by name."""

    def due_notifications(self) -> list[NotificationView]:
        """Return the notifications that are due to be evaluated."""

    def move_notification(self, move: NotificationMove) -> bool:
        """Store a notification's new state and its messages in one transaction; False: another process was first."""

    def ended_jobs(
        self, after: EndedMark, until: datetime, limit: int, *, badly: bool, task: str | None = None
    ) -> list[JobEvent]:
        """Return jobs that ended after a mark until an instant, in that order; `badly`: only those without success."""

    def running_jobs(self, limit: int) -> list[JobEvent]:
        """Return jobs that run now."""

    def waiting_jobs(self, after: datetime, until: datetime, limit: int) -> list[JobEvent]:
        """Return queued jobs, held or not, that have been due since a time between these two."""

    def missed_fires(self, after: datetime, until: datetime, limit: int) -> list[Missed]:
        """Return missed occurrences that were decided after `after` and not after `until`."""


def check_channels(notification: Notification, known: Sequence[Channel]) -> None:
    """Raise InvalidInput if a notification names a channel that does not exist."""
    names = [channel.name for channel in known]
    missing = next((name for name in notification.to if name not in names), None)
    if missing is not None:
        there = f"there are {', '.join(names)}" if names else "there are none yet"
        raise InvalidInput(f"there is no channel {missing!r}; {there}. Nothing was stored.")


def check_unused(channel: str, views: Sequence[NotificationView]) -> None:
    """Raise InvalidInput if a notification uses a channel."""
    using = next((view.notification.name for view in views if channel in view.notification.to), None)
    if using is not None:
        raise InvalidInput(f"the notification {using!r} goes to the channel {channel!r}: delete or change it first.")
