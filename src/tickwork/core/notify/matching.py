"""Which of the jobs that were seen are cases of a notification."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from tickwork.core.ids import JobId
from tickwork.core.notify.rule import Notification

OWN = "@notify"  # the collection of our own messages: of these nobody is told, else one that fails would make another


class JobEvent(msgspec.Struct, frozen=True, gc=False):
    """A job as far as notifications look at it. `state` is None while it waits or runs."""

    job_id: JobId
    task: str
    queue: str
    state: str | None
    due_at: datetime
    run_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    schedule: str | None
    is_run: bool
    is_step: bool
    collection: str | None
    discarded: bool


class AlertCase(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something to be told. `job`: it is about this one, which is asked why when the message is written."""

    key: str
    text: str = ""
    job: str | None = None


def concerns(notification: Notification, seen: JobEvent) -> bool:
    """Whether a notification is about this job. Steps are their run's matter, unless their task is asked for."""
    if seen.collection == OWN:
        return False
    if notification.dag is not None and not (seen.is_run and seen.task == notification.dag):
        return False
    if notification.task is None and seen.is_step:
        return False
    pairs = ((notification.task, seen.task), (notification.queue, seen.queue), (notification.schedule, seen.schedule))
    return all(wanted is None or wanted == found for wanted, found in pairs)


def is_case(notification: Notification, seen: JobEvent, now: datetime) -> bool:
    """Whether what became of a job, or becomes of it, is what the notification is about."""
    match notification.on:
        case "failed":
            return seen.state == "failed"
        case "dead":
            return seen.state == "failed" and not seen.discarded
        case "never_started":
            return seen.state is None or (seen.state == "expired" and _took(seen, now) <= notification.after)
        case "late":
            return seen.started_at is not None and seen.started_at - seen.run_at > notification.after
        case "sla_missed":
            return (seen.ended_at or now) - seen.due_at > notification.after
        case _:
            return False


def _took(seen: JobEvent, now: datetime) -> timedelta:
    return (seen.ended_at or now) - seen.run_at


def cases_of(notification: Notification, sightings: Iterable[JobEvent], now: datetime) -> list[AlertCase]:
    """The jobs among these that are cases, in their order."""
    return [
        AlertCase(seen.job_id, job=seen.job_id)
        for seen in sightings
        if concerns(notification, seen) and is_case(notification, seen, now)
    ]
