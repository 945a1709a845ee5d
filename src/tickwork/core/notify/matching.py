"""Matching: which jobs are cases of a notification."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from tickwork.core.ids import JobId
from tickwork.core.notify.rule import Notification

OWN = "@notify"  # the collection of delivery jobs: they are never cases, or a failing notification would cause another


class JobEvent(msgspec.Struct, frozen=True, gc=False):
    """The facts of a job that notifications look at. `state` is None while it waits or runs."""

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
    """A case to report. `job` is set if it is about a job, whose state is explained when the message is written."""

    key: str
    text: str = ""
    job: str | None = None


def concerns(notification: Notification, seen: JobEvent) -> bool:
    """Return whether a notification is about this job. Steps are left out, unless it names their task."""
    if seen.collection == OWN:
        return False
    if notification.dag is not None and not (seen.is_run and seen.task == notification.dag):
        return False
    if notification.task is None and seen.is_step:
        return False
    pairs = ((notification.task, seen.task), (notification.queue, seen.queue), (notification.schedule, seen.schedule))
    return all(wanted is None or wanted == found for wanted, found in pairs)


def is_case(notification: Notification, seen: JobEvent, now: datetime) -> bool:
    """Return whether the state of a job is what the notification reports."""
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
    """Return the cases among these jobs, in their order."""
    return [
        AlertCase(seen.job_id, job=seen.job_id)
        for seen in sightings
        if concerns(notification, seen) and is_case(notification, seen, now)
    ]
