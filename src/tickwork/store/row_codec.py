"""Rows <-> core values; shared by both stores.

A store selects the columns of a job under the names of `JobView`'s fields; what is in the database's own form
(instants, text for bytes) is turned here, with the store's own `instant` function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from typing import Any

import msgspec

from tickwork.core.blob_ref import MARK, owner_of, reference_in
from tickwork.core.bulk_operation import BulkChange, BulkOperation, OperationState
from tickwork.core.hooks.hook import Delivery
from tickwork.core.ids import JobId, is_id
from tickwork.core.job import JobState, JobView, NewJob, Policy, TaskDefinition
from tickwork.core.key_conflict import check_beside
from tickwork.core.limits.breaker import Breaker
from tickwork.core.limits.lanes import Flow, turnstile_name
from tickwork.core.limits.limits import Concurrency, Rate
from tickwork.core.notify.matching import JobEvent
from tickwork.core.notify.rule import decode_notification
from tickwork.core.notify.state import decode_watch
from tickwork.core.occurrence import decode_tick
from tickwork.core.placement.needs import Offer
from tickwork.core.placement.sticky import ClaimingWorker
from tickwork.core.schedule.declared_merge import merge
from tickwork.core.schedule.spec import ScheduleSpec, decode_spec
from tickwork.core.schedule.state import ScheduleState, WaitingOccurrence
from tickwork.core.stats.error_groups import FailedEnd
from tickwork.core.versioned_json import VersionedJson
from tickwork.errors import InvalidInput
from tickwork.store.admin.notifications import NotificationView
from tickwork.store.admin.operations import OperationStep
from tickwork.store.limits import Rule
from tickwork.store.schedules import DueSchedule, ScheduleView

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_PLAIN_POLICY = Policy()


def to_us(instant: datetime) -> int:
    """An aware instant as microseconds since the epoch, exactly."""
    return (instant - _EPOCH) // _MICROSECOND


def from_us(us: int) -> datetime:
    """The instant so many microseconds after the epoch."""
    return _EPOCH + timedelta(microseconds=us)


def duration_us(duration: timedelta) -> int:
    """A duration in microseconds, exactly."""
    return duration // _MICROSECOND


@lru_cache(maxsize=1024)
def encode_policy(policy: Policy) -> str:
    """A policy as JSON, the same text for equal ones. Jobs of one task share theirs, so each is encoded once.

    Defaults are left out, and for that they have to be the very ones that the fields have.
    """
    defaults = msgspec.structs.asdict(_PLAIN_POLICY)
    said = {name: value for name, value in msgspec.structs.asdict(policy).items() if value != defaults[name]}
    return msgspec.json.encode(Policy(**said)).decode()


@lru_cache(maxsize=1024)
def decode_policy(text: str) -> Policy:
    """The policy that `encode_policy` wrote."""
    return msgspec.json.decode(text, type=Policy)


def task_definition(row: Sequence[Any]) -> TaskDefinition:
    """What workers last said of a task, from its row."""
    name, queue, priority, policy, schema, flow, version = row
    return TaskDefinition(name, queue, priority, decode_policy(policy), schema.encode(), flow, version)


@lru_cache(maxsize=256)
def decode_offer(text: str) -> Offer:
    return msgspec.json.decode(text, type=Offer)


@lru_cache(maxsize=1024)
def decode_names(text: str) -> tuple[str, ...]:
    """The names of queues, tasks or schedules in a worker's row."""
    return msgspec.json.decode(text, type=tuple[str, ...])


def neighbour(worker: str, queues: str, offer: str) -> ClaimingWorker:
    """Return a worker that claims jobs, as its row tells of it."""
    return ClaimingWorker(worker, decode_names(queues), decode_offer(offer))


def encode_offer(offer: Offer) -> str:
    return msgspec.json.encode(offer).decode()


@lru_cache(maxsize=1024)
def decode_flow(text: str | None) -> Flow | None:
    return None if text is None else msgspec.json.decode(text, type=Flow)


def encode_flow(flow: Flow | None) -> str | None:
    return None if flow is None else msgspec.json.encode(flow).decode()


def turnstiles_of(text: str | None) -> list[str]:
    """The names of the turnstiles on the way of a job with this flow."""
    flow = decode_flow(text)
    return [] if flow is None else [turnstile_name(slot.passage) for slot in flow.slots]


@lru_cache(maxsize=1024)
def encode_labels(labels: tuple[str, ...]) -> str:
    return msgspec.json.encode(labels).decode()


def encode_label(label: str) -> str:
    """A label as it stands in the text of all labels of a job."""
    return msgspec.json.encode(label).decode()


@lru_cache(maxsize=1024)
def decode_labels(text: str) -> tuple[str, ...]:
    return tuple(msgspec.json.decode(text, type=list[str]))


def checked_id(job_id: JobId) -> JobId:
    """A place in a list of jobs; anything but an id is refused."""
    if not is_id(job_id):
        raise InvalidInput(f"{job_id!r} is not a place in a list of jobs; pass the next_cursor of the page before.")
    return job_id


def notification_view(row: Sequence[Any], instant: Callable[[Any], datetime]) -> NotificationView:
    """A notification and how it stands, from its row."""
    value, watch, version, look_at = row
    return NotificationView(decode_notification(value), decode_watch(watch), version, instant(look_at))


def sighting(row: Sequence[Any], instant: Callable[[Any], datetime]) -> JobEvent:
    """A job as far as notifications look at it, from its row."""
    job_id, task, queue, state, due, run, started, ended, tick, version, of_run, collection, discarded = row
    return JobEvent(
        JobId(job_id),
        task,
        queue,
        state,
        due_at=instant(due),
        run_at=instant(run),
        started_at=None if started is None else instant(started),
        ended_at=None if ended is None else instant(ended),
        schedule=None if tick is None else decode_tick(tick).schedule,
        is_run=version is not None,
        is_step=of_run is not None,
        collection=collection,
        discarded=discarded is not None,
    )


def clean(text: str | None) -> str | None:
    """What handlers wrote, without what a store cannot hold: NUL characters and lone surrogates show as \ufffd.

    An ending whose error could not be stored would come back for ever.
    """
    if text is None or (text.isascii() and "\0" not in text):
        return text
    return text.replace("\0", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def one_for_each_key(jobs: Sequence[NewJob]) -> tuple[list[NewJob], list[int]]:
    """Fold jobs of one batch that share a key: what to store, and which of it each job of the batch stands for.

    The first of a key gives the id, as if they came one by one; the last one that replaces gives everything else.
    Raises KeyTaken for two tasks with one key, and for a second job of a key that says if_exists="error".
    """
    kept: list[NewJob] = []
    stands: list[int] = []
    places: dict[str, int] = {}
    for job in jobs:
        place = len(kept) if job.key is None else places.setdefault(job.key, len(kept))
        stands.append(place)
        if place == len(kept):
            kept.append(job)
            continue
        if job.id != kept[place].id:
            check_beside(job, kept[place])
        if job.if_exists in ("replace", "follow"):
            kept[place] = msgspec.structs.replace(job, id=kept[place].id)
    return kept, stands


_shared = attrgetter(
    "task",
    "queue",
    "priority",
    "policy",
    "collection",
    "labels",
    "parent",
    "trace",
    "creator",
    "tick",
    "version",
    "at",
    "delay",
    "expires_at",
)


def alike(jobs: Sequence[NewJob]) -> Iterable[Sequence[NewJob]]:
    """Runs of jobs that differ only in id, arguments and key, so that the rest is worked out once for all of them.

    The same id twice is one job.
    """
    if len(jobs) == 1:
        return (jobs,)
    once = {job.id: job for job in jobs}
    return (list(group) for _, group in groupby(once.values(), _shared))


def due_us(job: NewJob, now: int) -> tuple[int, int, int | None]:
    """When a new job was asked for, when it may be claimed, and when it expires.

    A time in the past is kept as the job's own, but stands in the queue as of now: claims may remember how far they
    have read and need not look further back.
    """
    asked = to_us(job.at) if job.at is not None else now + duration_us(job.delay or timedelta(0))
    run_at = max(asked, now)
    if job.expires_at is not None:
        return asked, run_at, to_us(job.expires_at)
    expires = None if job.policy.expires is None else asked + duration_us(job.policy.expires)
    return asked, run_at, expires


def job_view(row: Mapping[str, Any], instant: Callable[[Any], datetime]) -> JobView:
    """A job from a row of the `job_columns` select."""

    def at(name: str) -> datetime | None:
        return None if row[name] is None else instant(row[name])

    return JobView(
        id=JobId(str(row["id"])),
        task=row["task"],
        queue=row["queue"],
        priority=row["priority"],
        state=JobState(row["state"]),
        args=row["args"].encode(),
        policy=decode_policy(row["policy"]),
        key=row["key"],
        collection=row["collection"],
        labels=decode_labels(row["labels"]),
        parent=row["parent"],
        trace=row["trace"],
        creator=row["creator"],
        created_at=instant(row["created_at"]),
        run_at=instant(row["run_at"]),
        expires_at=at("expires_at"),
        attempt=row["attempt"],
        failures=row["failures"],
        crashes=row["crashes"],
        losses=row["losses"],
        alone=bool(row["alone"]),
        worker=row["worker"],
        started_at=at("started_at"),
        ended_at=at("ended_at"),
        cancel_requested=bool(row["cancel_requested"]),
        progress=row["progress"],
        progress_note=row["progress_note"],
        result=None if row["result"] is None else row["result"].encode(),
        error=row["error"],
        discarded=bool(row["discarded"]),
        tick=None if row["tick"] is None else decode_tick(row["tick"]),
        flow=decode_flow(row["flow"]),
        version=row["version"],
        run=None if row["run"] is None else str(row["run"]),
        step=row["step"],
        idx=row["idx"],
    )


# -- schedules


def merged(declared: ScheduleSpec, stored: str | None, base: str | None) -> ScheduleSpec:
    """What a schedule becomes when code declares it, given its stored form and what code said of it before."""
    if stored is None:
        return declared
    return merge(None if base is None else decode_spec(base), decode_spec(stored), declared)


def standing(
    handled_at: datetime,
    active_since: datetime,
    run_count: int,
    last_ended_at: datetime | None,
    waiting: str,
    *,
    paused: bool,
    live_count: int = 0,
) -> ScheduleState:
    """How a schedule stands, from its columns."""
    return ScheduleState(
        handled_at=handled_at,
        active_since=active_since,
        run_count=run_count,
        live_count=live_count,
        last_ended_at=last_ended_at,
        waiting=decode_waiting(waiting),
        paused=paused,
    )


@lru_cache(maxsize=1024)
def decode_waiting(text: str) -> tuple[WaitingOccurrence, ...]:
    return msgspec.json.decode(text, type=tuple[WaitingOccurrence, ...])


def seen(
    name: str,
    version: int,
    spec: str,
    standing: ScheduleState,
    runs: Sequence[tuple[str, bool, datetime | None, bool]],
    paused_until: datetime | None = None,
) -> DueSchedule:
    """A schedule at a look. How many of its runs live is counted each time, so that no count can go wrong."""
    live = tuple(JobId(job_id) for job_id, ended, *_ in runs if not ended)
    ended = tuple(JobId(job_id) for job_id, ended, *_ in runs if ended)
    failed = frozenset(JobId(job_id) for job_id, *_, failed in runs if failed)
    ends = [at for at in (standing.last_ended_at, *(at for _, _, at, _ in runs)) if at is not None]
    if ended and not ends:  # it was pruned, so nobody knows when it ended
        ends = [standing.handled_at]
    counted = msgspec.structs.replace(standing, live_count=len(live), last_ended_at=max(ends, default=None))
    return DueSchedule(name, version, spec, counted, live, ended, paused_until, failed)


def trouble(row: Sequence[Any], instant: Callable[[Any], datetime]) -> FailedEnd:
    """An end that was no success, from a row of `failed_lately` or `retried_lately`."""
    job_id, task, queue, state, error, ended_at, is_run, is_dead = row
    return FailedEnd(JobId(job_id), task, queue, state, error, instant(ended_at), bool(is_run), bool(is_dead))


def schedule_view(row: Mapping[str, Any], instant: Callable[[Any], datetime]) -> ScheduleView:
    """A schedule from a row of the `schedule_columns` select."""

    def at(name: str) -> datetime | None:
        return None if row[name] is None else instant(row[name])

    return ScheduleView(
        name=row["name"],
        spec=decode_spec(row["spec"]),
        standing=standing(
            instant(row["handled_at"]),
            instant(row["active_since"]),
            row["run_count"],
            at("last_ended_at"),
            row["waiting"],
            paused=row["paused_at"] is not None,
            live_count=row["live_count"],
        ),
        is_declared=bool(row["is_declared"]),
        paused_at=at("paused_at"),
        paused_until=at("paused_until"),
        paused_by=row["paused_by"],
        paused_why=row["paused_why"],
        wake_at=at("wake_at"),
        created_at=instant(row["created_at"]),
        edited_at=instant(row["edited_at"]),
    )


def dag_in_use(name: str, schedule: str) -> InvalidInput:
    return InvalidInput(
        f"dag {name!r} is started by schedule {schedule!r}, so it was not deleted. Change or delete that first."
    )


def calendar_in_use(name: str, schedule: str) -> InvalidInput:
    return InvalidInput(
        f"calendar {name!r} is heeded by schedule {schedule!r}, so it was not deleted. Change or delete that first."
    )


# -- hooks


def delivery_values(one: Delivery) -> dict[str, Any]:
    """What is recorded of a delivery, but for its hook and whether it is genuine."""
    reason, event = clean(one.reason), clean(one.event)
    what = {"id": one.id, "outcome": one.outcome, "size": one.size}
    return {**what, "event": event, "job_id": one.job_id, "reason": reason}


def delivery(row: Sequence[Any], instant: Callable[[Any], datetime]) -> Delivery:
    id, hook, is_genuine, outcome, event, job_id, reason, size, received_at = row
    return Delivery(
        id=id,
        hook=hook,
        is_genuine=bool(is_genuine),
        outcome=outcome,
        size=size,
        event=event,
        job_id=job_id,
        reason=reason,
        received_at=instant(received_at),
    )


# -- flow control

_NONE = "\x1e"


def kind_text(row: Any) -> str:
    """All that a picked job is judged by, as `scout` puts it together."""
    queue, collection, labels, flow, task = row[14:19]
    return "\x1f".join((task, queue, collection or _NONE, labels, flow or _NONE))


RULES = VersionedJson("rule", msgspec.json.Decoder(Concurrency | Rate | Breaker))


@lru_cache(maxsize=4096)
def decode_rule(text: str | None) -> Rule | None:
    return None if text is None else RULES.decode(text.encode())


def encode_rule(rule: Rule) -> str:
    return RULES.encode(rule).decode()


# -- operations


def encode_change(change: BulkChange, now: datetime) -> str:
    """A change that is asked for now, as JSON: jobs that are made later are none of its."""
    until = now if change.which.until is None else min(now, change.which.until)
    return msgspec.json.encode(msgspec.structs.replace(change, which=replace(change.which, until=until))).decode()


def operation(row: Sequence[Any], instant: Callable[[Any], datetime]) -> BulkOperation:
    """An operation from a row of the `operation_columns` select."""
    id, what, by, state, phase, place, step, looked, changed, error, created_at, ended_at = row
    return BulkOperation(
        id=id,
        change=msgspec.json.decode(what, type=BulkChange),
        by=by,
        state=OperationState(state),
        phase=phase,
        place=place,
        step=step,
        looked=looked,
        changed=changed,
        error=error,
        created_at=instant(created_at),
        ended_at=None if ended_at is None else instant(ended_at),
    )


def step_row(step: OperationStep, **more: Any) -> dict[str, Any]:
    """What step_operation takes."""
    return {**msgspec.structs.asdict(step), "state": step.state.value, "error": clean(step.error), **more}


# -- blobs


BLOB_MARK = MARK.decode()


def own_blobs(rows: Iterable[tuple[str, str | None]]) -> list[str]:
    """The blobs that jobs have written, of jobs with their results. What a run returns may be a blob of its step."""
    found = ((job_id, reference_in(result.encode())) for job_id, result in rows if result is not None)
    return [one.key for job_id, one in found if one is not None and owner_of(one.key) == job_id]


def blob_owners(keys: Iterable[str]) -> list[tuple[str, str]]:
    """Blobs with the jobs that wrote them; without what is none."""
    owners = ((owner_of(key), key) for key in keys)
    return [(owner, key) for owner, key in owners if owner is not None]
