"""Notification rules: which events are cases of a notification, and which channels it sends to.

Cases are about jobs (failed, dead, late, never_started, sla_missed), or about schedules, workers, queues and successes
(schedule_missed, worker_lost, queue_older_than, silent). `after` is how long something may take before it is a case.
Jobs are matched here, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

import msgspec

from tickwork.core.ids import JobId
from tickwork.core.job_options import read_option, task_name
from tickwork.core.text.duration import parse_duration
from tickwork.errors import InvalidInput

Kind = Literal[
    "failed",
    "dead",
    "late",
    "never_started",
    "sla_missed",
    "schedule_missed",
    "worker_lost",
    "queue_older_than",
    "silent",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
FILTERS = ("task", "dag", "queue", "schedule")
WINDOW = timedelta(minutes=5)
SHORTEST, LONGEST = timedelta(seconds=1), timedelta(days=365)
NAME_LIMIT = 100

_OF_JOBS = {"failed", "dead", "late", "never_started", "sla_missed"}
_TAKES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_OF_JOBS, FILTERS),
    "schedule_missed": ("schedule",),
    "worker_lost": (),
    "queue_older_than": ("queue",),
    "silent": ("task", "dag", "schedule"),
}
_AFTER: dict[str, timedelta | None] = {
    "dead": timedelta(hours=1),
    "late": timedelta(minutes=5),
    "never_started": timedelta(minutes=15),
    "queue_older_than": timedelta(minutes=10),
    "sla_missed": None,
    "silent": None,
}


class Notification(msgspec.Struct, frozen=True, omit_defaults=True):
    """A notification rule. `to` lists channels; all cases within a `window` are sent as one message."""

    name: str
    on: Kind
    to: tuple[str, ...]
    task: str | None = None
    dag: str | None = None
    queue: str | None = None
    schedule: str | None = None
    after: timedelta = timedelta(0)
    window: timedelta = WINDOW


def new_notification(name: str, on: str, to: Any, **given: Any) -> Notification:
    """Return a notification from the arguments of a caller; None means not given. Raises InvalidInput."""
    said = {field: value for field, value in given.items() if value is not None}
    if on not in KINDS:
        raise InvalidInput(f"there is nothing to be told of called {on!r}; there are {', '.join(KINDS)}.")
    unknown = next((field for field in said if field not in (*FILTERS, "after", "window")), None)
    if unknown is not None:
        raise InvalidInput(f"a notification has no {unknown!r}; it has {', '.join((*FILTERS, 'after', 'window'))}.")
    channels = tuple(dict.fromkeys([to] if isinstance(to, str) else to))
    if not channels:
        raise InvalidInput("say where it is told: to=, the name of a channel.")
    return Notification(
        name=checked_name(name, "notification"),
        on=on,
        to=tuple(checked_name(one, "channel") for one in channels),
        after=_after(on, said),
        window=_duration(said.get("window", WINDOW), "window", timedelta(0)),
        **_filters(on, said),
    )


def checked_name(name: Any, what: str) -> str:
    """Return a name that can be part of a path and of a line of text. Raises InvalidInput."""
    fits = isinstance(name, str) and 0 < len(name) <= NAME_LIMIT and name.isprintable() and "/" not in name
    if not fits or name != name.strip():
        raise InvalidInput(f"{name!r} cannot be the name of a {what}: up to {NAME_LIMIT} characters, without slashes.")
    return str(name)


def _filters(on: str, said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the checked filters of a notification. Raises InvalidInput for filters that its kind does not take."""
    given = {field: said[field] for field in FILTERS if field in said}
    wrong = next((field for field in given if field not in _TAKES[on]), None)
    if wrong is not None:
        takes = ", ".join(_TAKES[on]) or "nothing"
        raise InvalidInput(f"{on} cannot be narrowed by {wrong}; it can by {takes}.")
    if "task" in given and "dag" in given:
        raise InvalidInput("task and dag both say whose jobs: give one of them.")
    if on == "silent" and len(given) != 1:
        raise InvalidInput("silent needs to know of whom a success is expected: one of task, dag and schedule.")
    return {field: _filter(field, value) for field, value in given.items()}


def _filter(field: str, value: Any) -> str:
    if field in ("task", "dag"):
        return task_name(value)
    return str(read_option("queue", value)) if field == "queue" else checked_name(value, "schedule")


def _after(on: str, said: Mapping[str, Any]) -> timedelta:
    """Return `after`, or the default of the kind. Raises InvalidInput if it is required, or not allowed."""
    if on not in _AFTER:
        if "after" in said:
            raise InvalidInput(f"{on} is told at once: leave after out.")
        return timedelta(0)
    value = said.get("after", _AFTER[on])
    if value is None:
        raise InvalidInput(f"{on} needs after, such as 1h: how long it may take.")
    return _duration(value, "after", SHORTEST)


def _duration(value: Any, what: str, least: timedelta) -> timedelta:
    duration = parse_duration(value, what=what)
    if not least <= duration <= LONGEST:
        raise InvalidInput(f"{what} must be from {least} to {LONGEST.days} days, not {value}.")
    return duration


def encode_notification(notification: Notification) -> str:
    return msgspec.json.encode(notification).decode()


def decode_notification(text: str) -> Notification:
    return msgspec.json.decode(text, type=Notification)


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
    """Return whether a notification applies to this job. It applies to a step only if it names the step's task."""
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
