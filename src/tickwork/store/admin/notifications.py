"""The store verbs of notifications: alert rules, the channels that receive them, and the reads that evaluate rules.

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
    """A notification (an alert rule and its channels) and its state.

    Every write increments `version`, and a NotificationMove is stored only if it names the present version. `look_at`
    is when the rule is evaluated next.
    """

    notification: Notification
    watch: AlertState
    version: int
    look_at: datetime


@dataclass(frozen=True, slots=True)
class Missed:
    """An occurrence of a schedule that was missed, and what the schedule's policy made of it."""

    schedule: str
    due_at: datetime
    action: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class NotificationMove:
    """The result of an evaluation: the new state, when to evaluate again, and the jobs that send its messages."""

    name: str
    version: int
    watch: AlertState
    look_at: datetime
    jobs: tuple[NewJob, ...] = ()


class NotifyVerbs(Protocol):
    """The verbs of notifications and channels. Each is safe to run twice."""

    def put_channel(self, channel: Channel) -> None:
        """Store a channel, and replace the channel of the same name."""

    def delete_channel(self, name: str) -> bool:
        """Delete a channel; return False if there is none of this name. Raise InvalidInput while a notification uses
        it.
        """

    def list_channels(self) -> dict[str, Channel]:
        """Return the channels by name."""

    def put_notification(self, notification: Notification) -> None:
        """Store a notification, and replace the one of the same name. A changed rule starts with a new state.

        Raise InvalidInput if it names a channel that does not exist.
        """

    def delete_notification(self, name: str) -> bool:
        """Delete a notification; return False if there is none of this name."""

    def list_notifications(self) -> list[NotificationView]:
        """Return all notifications, sorted by name."""

    def due_notifications(self) -> list[NotificationView]:
        """Return the notifications whose rules are to be evaluated now."""

    def move_notification(self, move: NotificationMove) -> bool:
        """Store a notification's new state and enqueue its messages, in one transaction.

        Return False, and store nothing, if another process has changed the notification since it was read.
        """

    def ended_jobs(
        self, after: EndedMark, until: datetime, limit: int, *, badly: bool, task: str | None = None
    ) -> list[JobEvent]:
        """Return up to `limit` jobs that ended after the position `after` and until `until`, ordered by when they
        ended.

        `badly`: only jobs that did not succeed. `task`: only jobs of this task.
        """

    def running_jobs(self, limit: int) -> list[JobEvent]:
        """Return up to `limit` jobs that are running."""

    def waiting_jobs(self, after: datetime, until: datetime, limit: int) -> list[JobEvent]:
        """Return up to `limit` queued jobs, held ones included, whose run_at is after `after` and not after `until`."""

    def missed_fires(self, after: datetime, until: datetime, limit: int) -> list[Missed]:
        """Return up to `limit` missed occurrences that were decided after `after` and not after `until`."""


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
