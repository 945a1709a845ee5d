"""Convert batches to statement parameters: the values of each column as an array, or the rows as one JSON document.

Both are passed as texts, so the prepared statement is the same for every batch, means the same to every driver, and
needs no adaptation: psycopg dumps lists item by item. Arrays, which a statement reads with unnest, take the server half
the time of JSON, and are used for large batches. JSON, which it reads with json_to_recordset, is used for the rest;
omitted fields are NULL.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec
import psycopg

from tickwork.core.ids import JobId, is_id
from tickwork.core.job import JobState, NewJob, TaskDefinition
from tickwork.core.limits.lanes import home_lane
from tickwork.errors import check
from tickwork.store.attempt_types import Finish, NewLog, Progress
from tickwork.store.rows.instants import duration_us
from tickwork.store.rows.jobs import encode_job_limits, encode_labels, encode_policy, storable_text
from tickwork.store.rows.new_jobs import group_alike

_encoder = msgspec.json.Encoder()


def document(rows: Iterable[Any]) -> str:
    """Return rows, or plain texts, as the text of one JSON array."""
    return _encoder.encode(list(rows)).decode()


def id_document(ids: Iterable[JobId]) -> str:
    """Return ids as a JSON document.

    Texts that are not ids are left out: they name no job, and PostgreSQL refuses them.
    """
    return document(job_id for job_id in ids if is_id(job_id))


def mapping(values: Mapping[str, int]) -> str:
    """Return names with numbers as one JSON object."""
    return _encoder.encode(values).decode()


def array(values: Iterable[object]) -> str:
    """Return numbers, ids and names of states in PostgreSQL's array syntax: none of them needs quotes."""
    return "{" + ",".join(["NULL" if value is None else str(value) for value in values]) + "}"


def text_array(texts: Iterable[str | None]) -> str:
    """Return texts in PostgreSQL's array syntax. Raise DataError if one contains a zero byte.

    All of them are quoted at once, joined by zero bytes.
    """
    given = list(texts)
    whole = [text for text in given if text is not None]
    joined = "\0".join(whole)
    if joined.count("\0") >= max(1, len(whole)):
        raise psycopg.DataError("PostgreSQL cannot store a text with a zero byte")
    quoted = joined.replace("\\", r"\\").replace('"', r"\"")
    if len(whole) == len(given):
        return '{"' + quoted.replace("\0", '","') + '"}' if given else "{}"
    each = iter(quoted.split("\0"))
    return "{" + ",".join(["NULL" if text is None else f'"{next(each)}"' for text in given]) + "}"


def new_job(job: NewJob) -> dict[str, Any]:
    """Return the parameters of `insert_job`, for a job that was not made by a schedule."""
    return {"id": job.id, "args": job.args.decode(), **_shared(job)}


def new_jobs(jobs: Sequence[NewJob]) -> Iterator[dict[str, Any]]:
    """Yield the parameters of `insert_jobs` for each group of similar jobs; usually that is one group."""
    for group in group_alike(jobs):
        yield {
            "ids": array([job.id for job in group]),
            "args": text_array([job.args.decode() for job in group]),
            "keys": text_array([job.key for job in group]),
            "occurrence": group[0].occurrence,
            **_flows(group),
            **_shared(group[0]),
        }


def _flows(group: Sequence[NewJob]) -> dict[str, str | None]:
    """Return the parameters of limited jobs (lanes, limits) and of runs (version); nothing for plain jobs."""
    version = group[0].version
    if version is None and not any(job.job_limits for job in group):
        return {}
    return {
        "version": None if version is None else str(version),
        "lanes": text_array(
            [None if job.job_limits is None else home_lane(job.queue, job.job_limits) for job in group]
        ),
        "job_limits": text_array([encode_job_limits(job.job_limits) for job in group]),
    }


def _shared(job: NewJob) -> dict[str, Any]:
    """Return the columns that similar jobs share."""
    expires = job.policy.expires
    return {
        "task": job.task,
        "queue": job.queue,
        "priority": str(job.priority),
        "policy": encode_policy(job.policy),
        "collection": job.collection,
        "labels": encode_labels(job.labels),
        "parent": job.parent,
        "trace": job.trace,
        "creator": job.creator,
        "at": job.at,
        "delay_us": None if job.delay is None else str(duration_us(job.delay)),
        "expires_at": job.expires_at,
        "expires_us": None if expires is None else str(duration_us(expires)),
    }


def replacement(job: NewJob) -> dict[str, Any]:
    """Return a job that replaces a queued one as a row for JSON; the database computes its times."""
    row: dict[str, Any] = {
        "id": job.id,
        "task": job.task,
        "queue": job.queue,
        "priority": job.priority,
        "args": job.args.decode(),
        "policy": encode_policy(job.policy),
        "collection": job.collection,
        "labels": encode_labels(job.labels),
        "parent": job.parent,
        "trace": job.trace,
        "creator": job.creator,
        "occurrence": job.occurrence,
        "lane": None if job.job_limits is None else home_lane(job.queue, job.job_limits),
        "job_limits": encode_job_limits(job.job_limits),
        "version": job.version,
    }
    if job.at is not None:
        row["at"] = job.at
    elif job.delay is not None:
        row["delay_us"] = duration_us(job.delay)
    if job.expires_at is not None:
        row["expires_at"] = job.expires_at
    elif job.policy.expires is not None:
        row["expires_us"] = duration_us(job.policy.expires)
    return row


def endings(finishes: Sequence[Finish]) -> dict[str, str]:
    """Return the parameters of finishes, sorted by job, so that overlapping batches lock jobs in the same order."""
    finishes = sorted(finishes, key=_job_id)
    outcomes = [finish.transition for finish in finishes]
    return {
        "job_ids": array([finish.job_id for finish in finishes]),
        "claims": array([finish.claim for finish in finishes]),
        "waits_us": array([finish.waited_us for finish in finishes]),
        "job_states": array([outcome.job for outcome in outcomes]),
        "attempt_states": array([outcome.attempt for outcome in outcomes]),
        "failures": array([outcome.failures for outcome in outcomes]),
        "crashes": array([outcome.crashes for outcome in outcomes]),
        "delays_us": array([_delay_us(finish) for finish in finishes]),
        "alone": array([outcome.alone for outcome in outcomes]),
        "losses": array([outcome.losses for outcome in outcomes]),
        "results": text_array([None if one.result is None else one.result.decode() for one in outcomes]),
        "errors": text_array([storable_text(outcome.error) for outcome in outcomes]),
        **_progress([finish.progress for finish in finishes]),
    }


def _progress(reports: Sequence[Progress | None]) -> dict[str, str]:
    """Return the last progress reports as parameters: empty arrays if there are none, which unnest pads with NULL."""
    if not any(reports):
        return {"progress": "{}", "progress_notes": "{}"}
    return {
        "progress": array([None if one is None else one.fraction for one in reports]),
        "progress_notes": text_array([None if one is None else storable_text(one.note) for one in reports]),
    }


_job_id = attrgetter("job_id")


def _delay_us(finish: Finish) -> int | None:
    """Return the delay of a finish; None if its job has ended. A job that is queued again must have a delay."""
    again = finish.transition.job is JobState.QUEUED
    delay = finish.transition.delay
    check(not again or delay is not None, f"Job {finish.job_id} is to be queued again without a time.")
    return None if delay is None else duration_us(delay)


def new_logs(logs: Sequence[NewLog]) -> str:
    """Return log chunks as JSON."""
    return document({**_place(x), "text": storable_text(x.text), "shared": x.shared} for x in logs)


def _place(log: NewLog) -> dict[str, object]:
    return {"job_id": log.job_id, "claim": log.claim, "seq": log.seq}


def progress(reports: Sequence[Progress]) -> str:
    """Return the latest progress report of each attempt as JSON, because one statement changes a row only once."""
    latest = {(x.job_id, x.claim): x for x in reports}
    return document(
        {"job_id": x.job_id, "claim": x.claim, "fraction": x.fraction, "note": storable_text(x.note)}
        for _, x in sorted(latest.items())
    )


def task_definitions(definitions: Sequence[TaskDefinition]) -> str:
    """Return task definitions as JSON, of each name the last one."""
    latest = {task.name: task for task in definitions}
    return document(
        {
            "name": task.name,
            "queue": task.queue,
            "priority": task.priority,
            "policy": encode_policy(task.policy),
            "schema": task.schema.decode(),
            "task_limits": task.task_limits,
            "version": task.version,
        }
        for task in latest.values()
    )
