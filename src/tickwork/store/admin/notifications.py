"""What a store promises of notifications: the wishes and channels that it keeps, and what they look at.

What is looked at is read by indexes that end with what is new, or is as small as what runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from tickwork.core.job import NewJob
from tickwork.core.notify.channels import Channel
from tickwork.core.notify.matching import JobEvent
from tickwork.core.notify.rule import Notification
from tickwork.core.notify.state import AlertState, EndedMark
from tickwork.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class NotificationView:
    """A notification and how it stands. `version` is raised by every write, and named by every move."""

    notification: Notification
    watch: AlertState
    version: int
    look_at: datetime


@dataclass(frozen=True, slots=True)
class Missed:
    """An occurrence of a schedule that was missed, and what became of it."""

    schedule: str
    due_at: datetime
    action: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class NotificationMove:
    """From the version that was looked at to the next: how it stands then, when to look again, and messages."""

    name: str
    version: int
    watch: AlertState
    look_at: datetime
    jobs: tuple[NewJob, ...] = ()


class NotifyVerbs(Protocol):
    """The verbs of notifications. Each is safe to run twice."""

    def put_channel(self, channel: Channel) -> None:
        """Store a channel, in the place of one of that name."""

    def delete_channel(self, name: str) -> bool:
        """Delete a channel; False when there is none. Raises InvalidInput while a notification names it."""

    def channels(self) -> dict[str, Channel]:
        """Return the channels by name."""

    def put_notification(self, notification: Notification) -> None:
        """Store a notification, in the place of one of that name; one that says something else begins anew.

        Raises InvalidInput where it names a channel that is not there.
        """

    def delete_notification(self, name: str) -> bool:
        """Delete a notification; False when there is none."""

    def notifications(self) -> list[NotificationView]:
        """Return all of them by name."""

    def due_notifications(self) -> list[NotificationView]:
        """Return those that somebody has to look at now."""

    def move_notification(self, move: NotificationMove) -> bool:
        """Store how one stands after a look, and its messages, in one transaction; False: another look was first."""

    def ended_jobs(
        self, after: EndedMark, until: datetime, limit: int, *, badly: bool, task: str | None = None
    ) -> list[JobEvent]:
        """Return jobs that ended after a mark until an instant, in that order; `badly`: those that did not succeed."""

    def running_jobs(self, limit: int) -> list[JobEvent]:
        """Return jobs that run now."""

    def waiting_jobs(self, after: datetime, until: datetime, limit: int) -> list[JobEvent]:
        """Return jobs that wait in a queue, whatever holds them, and are due since that time."""

    def missed_fires(self, after: datetime, until: datetime, limit: int) -> list[Missed]:
        """Return occurrences that were judged after one instant and not after another, and had been missed."""


def check_channels(notification: Notification, known: Sequence[Channel]) -> None:
    """Raise InvalidInput where a notification names a channel that is not there."""
    names = [channel.name for channel in known]
    missing = next((name for name in notification.to if name not in names), None)
    if missing is not None:
        there = f"there are {', '.join(names)}" if names else "there are none yet"
        raise InvalidInput(f"there is no channel {missing!r}; {there}. Nothing was stored.")


def check_unused(channel: str, views: Sequence[NotificationView]) -> None:
    """Raise InvalidInput while a notification names a channel."""
    using = next((view.notification.name for view in views if channel in view.notification.to), None)
    if using is not None:
        raise InvalidInput(f"the notification {using!r} goes to the channel {channel!r}: delete or change it first.")
