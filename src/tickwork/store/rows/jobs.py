"""Convert the rows of jobs to core values, and values of jobs to columns; shared by both stores.

A store selects the columns of a job under the names of `JobView`'s fields. Values in a form of the database (instants,
text for bytes) are converted here, with the store's own `instant` function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec

from tickwork.core.blob_ref import MARK, owner_of, reference_in
from tickwork.core.ids import JobId, is_id
from tickwork.core.job import JobState, JobView, Policy, TaskDefinition
from tickwork.core.limits.job_limits import JobLimits, limit_key_text
from tickwork.core.notify.rule import JobEvent
from tickwork.core.occurrence import decode_occurrence
from tickwork.core.stats.error_groups import FailedEnd
from tickwork.errors import InvalidInput

_PLAIN_POLICY = Policy()


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


def read_task_definition(row: Sequence[Any]) -> TaskDefinition:
    """Decode the row of a task's latest definition."""
    name, queue, priority, policy, schema, job_limits, version = row
    return TaskDefinition(name, queue, priority, decode_policy(policy), schema.encode(), job_limits, version)


@lru_cache(maxsize=1024)
def decode_job_limits(text: str | None) -> JobLimits | None:
    """Decode the job limits of a row; None for a plain job."""
    return None if text is None else msgspec.json.decode(text, type=JobLimits)


def encode_job_limits(job_limits: JobLimits | None) -> str | None:
    """Encode job limits as JSON; None for a plain job."""
    return None if job_limits is None else msgspec.json.encode(job_limits).decode()


def limit_keys_of(text: str | None) -> list[str]:
    """Return the names of the limit keys that a job with this job_limits uses."""
    job_limits = decode_job_limits(text)
    return [] if job_limits is None else [limit_key_text(slot.limit_key) for slot in job_limits.uses]


@lru_cache(maxsize=1024)
def encode_labels(labels: tuple[str, ...]) -> str:
    """Encode the labels of a job as a JSON array."""
    return msgspec.json.encode(labels).decode()


def encode_label(label: str) -> str:
    """Encode one label as it appears in the encoded labels of a job."""
    return msgspec.json.encode(label).decode()


@lru_cache(maxsize=1024)
def decode_labels(text: str) -> tuple[str, ...]:
    """Decode a JSON array of labels."""
    return tuple(msgspec.json.decode(text, type=list[str]))


def checked_id(job_id: JobId) -> JobId:
    """Return an id that a caller passed as a page cursor. Raise InvalidInput if it has not the form of an id."""
    if not is_id(job_id):
        raise InvalidInput(f"{job_id!r} is not a place in a list of jobs; pass the next_cursor of the page before.")
    return job_id


def job_event(row: Sequence[Any], instant: Callable[[Any], datetime]) -> JobEvent:
    """Build a JobEvent, the view of a job on which notifications are evaluated, from its row."""
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


def storable_text(text: str | None) -> str | None:
    """Return a handler's text without what a store cannot hold: NUL and lone surrogates become U+FFFD.

    A finish whose error could not be stored would be retried for ever.
    """
    if text is None or (text.isascii() and "\0" not in text):
        return text
    return text.replace("\0", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


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


def failed_end(row: Sequence[Any], instant: Callable[[Any], datetime]) -> FailedEnd:
    """Decode a row of `failed_lately` or `retried_lately`."""
    job_id, task, queue, state, error, ended_at, is_run, is_dead = row
    return FailedEnd(
        id=JobId(job_id),
        task=task,
        queue=queue,
        state=state,
        error=error,
        ended_at=instant(ended_at),
        is_run=bool(is_run),
        is_dead=bool(is_dead),
    )


BLOB_MARK = MARK.decode()


def own_blobs(rows: Iterable[tuple[str, str | None]]) -> list[str]:
    """Return the keys of the blobs that these jobs have written. `rows` are (job id, result that refers to a blob, or
    None).

    A run may return a blob that one of its steps wrote; that one is not included.
    """
    found = ((job_id, reference_in(result.encode())) for job_id, result in rows if result is not None)
    return [one.key for job_id, one in found if one is not None and owner_of(one.key) == job_id]


def blob_owners(keys: Iterable[str]) -> list[tuple[str, str]]:
    """Return (job, blob key) for each key, with the job that wrote the blob; keys of another form are left out."""
    owners = ((owner_of(key), key) for key in keys)
    return [(owner, key) for owner, key in owners if owner is not None]
