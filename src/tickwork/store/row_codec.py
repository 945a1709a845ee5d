"""Convert between database rows and core values; shared by both stores.

A store selects the columns of a job under the names of `JobView`'s fields. Values in a form of the database (instants,
text for bytes) are converted here, with the store's own `instant` function.
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
from tickwork.core.limits.lanes import JobLimits, limit_key_text
from tickwork.core.limits.limits import Concurrency, Rate
from tickwork.core.notify.matching import JobEvent
from tickwork.core.notify.rule import decode_notification
from tickwork.core.notify.state import decode_watch
from tickwork.core.occurrence import decode_occurrence
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
    """Return an aware instant as microseconds since the epoch, exactly."""
    return (instant - _EPOCH) // _MICROSECOND


def from_us(us: int) -> datetime:
    """Return the instant this many microseconds after the epoch."""
    return _EPOCH + timedelta(microseconds=us)


def duration_us(duration: timedelta) -> int:
    """Return a duration in microseconds, exactly."""
    return duration // _MICROSECOND


@lru_cache(maxsize=1024)
def encode_policy(policy: Policy) -> str:
    """Encode a policy as JSON; equal policies give the same text.

    Jobs of one task share a policy, so results are cached.

    Defaults are omitted. msgspec omits a default only if it is the very object of the field, hence the copy.
    """
    defaults = msgspec.structs.asdict(_PLAIN_POLICY)
    said = {name: value for name, value in msgspec.structs.asdict(policy).items() if value != defaults[name]}
    return msgspec.json.encode(Policy(**said)).decode()


@lru_cache(maxsize=1024)
def decode_policy(text: str) -> Policy:
    """Decode a policy that `encode_policy` wrote."""
    return msgspec.json.decode(text, type=Policy)


def task_definition(row: Sequence[Any]) -> TaskDefinition:
    """Decode the row of a task's latest definition."""
    name, queue, priority, policy, schema, job_limits, version = row
    return TaskDefinition(name, queue, priority, decode_policy(policy), schema.encode(), job_limits, version)


@lru_cache(maxsize=256)
def decode_offer(text: str) -> Offer:
    return msgspec.json.decode(text, type=Offer)


@lru_cache(maxsize=1024)
def decode_names(text: str) -> tuple[str, ...]:
    """Decode the names of queues, tasks or schedules in a worker's row."""
    return msgspec.json.decode(text, type=tuple[str, ...])


def neighbour(worker: str, queues: str, offer: str) -> ClaimingWorker:
    """Decode the row of a worker that claims jobs."""
    return ClaimingWorker(worker, decode_names(queues), decode_offer(offer))


def encode_offer(offer: Offer) -> str:
    return msgspec.json.encode(offer).decode()


@lru_cache(maxsize=1024)
def decode_job_limits(text: str | None) -> JobLimits | None:
    return None if text is None else msgspec.json.decode(text, type=JobLimits)


def encode_job_limits(job_limits: JobLimits | None) -> str | None:
    return None if job_limits is None else msgspec.json.encode(job_limits).decode()


def limit_keys_of(text: str | None) -> list[str]:
    """Return the names of the limit keys that a job with this job_limits uses."""
    job_limits = decode_job_limits(text)
    return [] if job_limits is None else [limit_key_text(slot.limit_key) for slot in job_limits.slots]


@lru_cache(maxsize=1024)
def encode_labels(labels: tuple[str, ...]) -> str:
    return msgspec.json.encode(labels).decode()


def encode_label(label: str) -> str:
    """Encode one label as it appears in the encoded labels of a job."""
    return msgspec.json.encode(label).decode()


@lru_cache(maxsize=1024)
def decode_labels(text: str) -> tuple[str, ...]:
    return tuple(msgspec.json.decode(text, type=list[str]))


def checked_id(job_id: JobId) -> JobId:
    """Return an id that a caller passed as a page cursor. Raise InvalidInput if it is none."""
    if not is_id(job_id):
        raise InvalidInput(f"{job_id!r} is not a place in a list of jobs; pass the next_cursor of the page before.")
    return job_id


def notification_view(row: Sequence[Any], instant: Callable[[Any], datetime]) -> NotificationView:
    """Decode the row of a notification and its state."""
    value, watch, version, look_at = row
    return NotificationView(decode_notification(value), decode_watch(watch), version, instant(look_at))


def sighting(row: Sequence[Any], instant: Callable[[Any], datetime]) -> JobEvent:
    """Decode the row of a job as notifications see it."""
    job_id, task, queue, state, due, run, started, ended, occurrence, version, of_run, collection, discarded = row
    return JobEvent(
        JobId(job_id),
        task,
        queue,
        state,
        due_at=instant(due),
        run_at=instant(run),
        started_at=None if started is None else instant(started),
        ended_at=None if ended is None else instant(ended),
        schedule=None if occurrence is None else decode_occurrence(occurrence).schedule,
        is_run=version is not None,
        is_step=of_run is not None,
        collection=collection,
        discarded=discarded is not None,
    )


def clean(text: str | None) -> str | None:
    """Return a handler's text without what a store cannot hold: NUL and lone surrogates become U+FFFD.

    A finish whose error could not be stored would be retried for ever.
    """
    if text is None or (text.isascii() and "\0" not in text):
        return text
    return text.replace("\0", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def one_for_each_key(jobs: Sequence[NewJob]) -> tuple[list[NewJob], list[int]]:
    """Merge jobs of one batch that share a key.

    Return the jobs to store, and for each job of the batch its index there.

    The first job of a key gives the id, as if they came one by one; the last one that replaces gives everything else.
    Raises KeyTaken for two tasks with one key, and for a second job of a key with if_exists="error".
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
    "occurrence",
    "version",
    "at",
    "delay",
    "expires_at",
)


def alike(jobs: Sequence[NewJob]) -> Iterable[Sequence[NewJob]]:
    """Group consecutive jobs that differ only in id, arguments and key, so that the rest is encoded once per group.

    Duplicate ids are dropped.
    """
    if len(jobs) == 1:
        return (jobs,)
    once = {job.id: job for job in jobs}
    return (list(group) for _, group in groupby(once.values(), _shared))


def due_us(job: NewJob, now: int) -> tuple[int, int, int | None]:
    """Return the requested time of a new job, when it may be claimed, and when it expires.

    A past time is kept as the job's own, but its queue row gets the present time: claims remember how far they have
    read, and need not look further back.
    """
    asked = to_us(job.at) if job.at is not None else now + duration_us(job.delay or timedelta(0))
    run_at = max(asked, now)
    if job.expires_at is not None:
        return asked, run_at, to_us(job.expires_at)
    expires = None if job.policy.expires is None else asked + duration_us(job.policy.expires)
    return asked, run_at, expires


def job_view(row: Mapping[str, Any], instant: Callable[[Any], datetime]) -> JobView:
    """Decode a row of the `job_columns` select."""

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
        occurrence=None if row["occurrence"] is None else decode_occurrence(row["occurrence"]),
        job_limits=decode_job_limits(row["job_limits"]),
        version=row["version"],
        run=None if row["run"] is None else str(row["run"]),
        step=row["step"],
        idx=row["idx"],
    )


# -- schedules


def merged(declared: ScheduleSpec, stored: str | None, base: str | None) -> ScheduleSpec:
    """Return the spec of a declared schedule, merged with its stored spec and with what code declared before."""
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
    """Build the state of a schedule from its columns."""
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
    """Build a due schedule from its row and its runs.

    Live runs are counted each time, so that the count cannot drift.
    """
    live = tuple(JobId(job_id) for job_id, ended, *_ in runs if not ended)
    ended = tuple(JobId(job_id) for job_id, ended, *_ in runs if ended)
    failed = frozenset(JobId(job_id) for job_id, *_, failed in runs if failed)
    ends = [at for at in (standing.last_ended_at, *(at for _, _, at, _ in runs)) if at is not None]
    if ended and not ends:  # The run was pruned, so it is not known when it ended.
        ends = [standing.handled_at]
    counted = msgspec.structs.replace(standing, live_count=len(live), last_ended_at=max(ends, default=None))
    return DueSchedule(name, version, spec, counted, live, ended, paused_until, failed)


def trouble(row: Sequence[Any], instant: Callable[[Any], datetime]) -> FailedEnd:
    """Decode a row of `failed_lately` or `retried_lately`."""
    job_id, task, queue, state, error, ended_at, is_run, is_dead = row
    return FailedEnd(JobId(job_id), task, queue, state, error, instant(ended_at), bool(is_run), bool(is_dead))


def schedule_view(row: Mapping[str, Any], instant: Callable[[Any], datetime]) -> ScheduleView:
    """Decode a row of the `schedule_columns` select."""

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
    """Return the recorded values of a delivery, except its hook and whether it is genuine."""
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

RULES = VersionedJson("rule", msgspec.json.Decoder(Concurrency | Rate | Breaker))


@lru_cache(maxsize=4096)
def decode_rule(text: str | None) -> Rule | None:
    return None if text is None else RULES.decode(text.encode())


def encode_rule(rule: Rule) -> str:
    return RULES.encode(rule).decode()


# -- operations


def encode_change(change: BulkChange, now: datetime) -> str:
    """Encode a bulk change. Its filter ends now: jobs that are created later are not affected."""
    until = now if change.which.until is None else min(now, change.which.until)
    return msgspec.json.encode(msgspec.structs.replace(change, which=replace(change.which, until=until))).decode()


def operation(row: Sequence[Any], instant: Callable[[Any], datetime]) -> BulkOperation:
    """Decode a row of the `operation_columns` select."""
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
    """Return the values of the statement `step_operation`."""
    return {**msgspec.structs.asdict(step), "state": step.state.value, "error": clean(step.error), **more}


# -- blobs


BLOB_MARK = MARK.decode()


def own_blobs(rows: Iterable[tuple[str, str | None]]) -> list[str]:
    """Return the keys of the blobs that these jobs have written, from their results.

    A run may return a blob that one of its steps wrote; that one is not included.
    """
    found = ((job_id, reference_in(result.encode())) for job_id, result in rows if result is not None)
    return [one.key for job_id, one in found if one is not None and owner_of(one.key) == job_id]


def blob_owners(keys: Iterable[str]) -> list[tuple[str, str]]:
    """Return blobs with the jobs that wrote them; keys that are not of a job are left out."""
    owners = ((owner_of(key), key) for key in keys)
    return [(owner, key) for owner, key in owners if owner is not None]
