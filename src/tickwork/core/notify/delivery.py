"""Messages of notifications: the number of cases, examples with their reasons, and links.

A job delivers a message to a channel. It has retries, and becomes a dead letter if they fail.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from tickwork.core.arguments.encode_by_schema import StoredSignature
from tickwork.core.ids import JobId
from tickwork.core.job import NewJob, Policy
from tickwork.core.notify.channels import Channel, Line, Message, job_of
from tickwork.core.notify.rule import FILTERS, OWN, Notification
from tickwork.core.notify.state import AlertDigest
from tickwork.core.retry import RetryPolicy
from tickwork.core.text.duration import format_duration

_ONE_MANY = {
    "failed": ("1 job failed", "{} jobs failed"),
    "dead": ("1 dead letter waits", "{} dead letters wait"),
    "late": ("1 job started late", "{} jobs started late"),
    "never_started": ("1 job has not started", "{} jobs have not started"),
    "sla_missed": ("1 job was not done in time", "{} jobs were not done in time"),
    "schedule_missed": ("1 occurrence was missed", "{} occurrences were missed"),
    "worker_lost": ("1 worker was lost", "{} workers were lost"),
    "queue_older_than": ("1 queue does not keep up", "{} queues do not keep up"),
    "silent": ("1 success is missing", "{} successes are missing"),
}


def message_of(digest: AlertDigest, whys: Mapping[str, str], link: str | None) -> Message:
    """Return a message. `whys` explains each example job; `link` is the public URL of the server."""
    notification = digest.notification
    subject = f"{_headline(notification, digest.count)} ({notification.name})"
    lines = tuple(_line(case.key, case.job, whys.get(case.key) or case.text, link) for case in digest.examples)
    items = [_item(case.job, line) for case, line in zip(digest.examples, lines, strict=True)]
    count = digest.count - len(lines)
    more = f"and {count:,} more since {digest.first_at:%Y-%m-%d %H:%M:%S} UTC" if count > 0 else None
    body = {
        "notification": notification.name,
        "on": notification.on,
        "count": digest.count,
        "first_at": digest.first_at.isoformat(),
        "told_at": digest.told_at.isoformat(),
        "text": subject,
        "items": items,
    }
    return Message(subject, body, lines, more)


def trial_message(notification: Notification, now: datetime) -> Message:
    """Return a test message, marked as a test."""
    text = f"this is a test of the notification {notification.name}; nothing has happened"
    body = {
        "notification": notification.name,
        "on": notification.on,
        "count": 0,
        "first_at": now.isoformat(),
        "told_at": now.isoformat(),
        "text": text,
        "items": [],
    }
    return Message(text, body)


def _headline(notification: Notification, count: int) -> str:
    """Return the subject line: how many events of which kind, and the filters of the notification."""
    one, many = _ONE_MANY[notification.on]
    said = one if count == 1 else many.format(f"{count:,}")
    which = [f"{field} {getattr(notification, field)}" for field in FILTERS if getattr(notification, field) is not None]
    if notification.after > timedelta(0):
        which.append(f"after {format_duration(notification.after)}")
    return f"{said}: {', '.join(which)}" if which else said


def _line(key: str, job: str | None, text: str, link: str | None) -> Line:
    where = None if job is None or link is None else f"{link.rstrip('/')}/#/jobs/{key}"
    return Line(text if text or job is None else f"job {job} is not there any more", where)


def _item(job: str | None, line: Line) -> dict[str, Any]:
    about = {} if job is None else {"job": job}
    return {**about, "text": line.text, **({} if line.link is None else {"link": line.link})}


DELIVERY = Policy(retry=RetryPolicy(retries=8, base=timedelta(seconds=5)))


def delivery(id: JobId, channel: Channel, message: Message, creator: str | None) -> NewJob:
    """Return a job of the built-in task that sends the message to the channel."""
    task, arguments = job_of(channel, message)
    args = StoredSignature(None).encode((), arguments, task)
    job = NewJob(id, task, args, queue=channel.queue, policy=DELIVERY, creator=creator)
    return msgspec.structs.replace(job, collection=OWN, labels=(f"channel:{channel.name}",))
