"""Store new jobs in the queue of a SQLite file. The caller begins and commits the transaction.

Batches use one statement for many rows. The SQL is in sql/insert_jobs.sql.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import repeat
from typing import Any

from tickwork.core.ids import JobId
from tickwork.core.job import RUN, NewJob, StepInstance, TaskDefinition
from tickwork.core.key_conflict import KeyOwner, check_holder
from tickwork.core.limits.lanes import home_lane, row_priority
from tickwork.store.rows.jobs import (
    encode_job_limits,
    encode_labels,
    encode_policy,
)
from tickwork.store.rows.new_jobs import due_us, group_alike, merge_keys
from tickwork.store.sqlite.transactions import Transaction, as_json


def task_row(task: TaskDefinition) -> tuple[Any, ...]:
    """Return the row of a task definition."""
    rules = (encode_policy(task.policy), task.schema.decode(), task.task_limits)
    return (task.name, task.queue, task.priority, *rules, task.version)


def insert(transaction: Transaction, jobs: Sequence[NewJob], *, known: bool) -> list[JobId]:
    """Store jobs; return for each the id of the job that represents it.

    With `known`, ids that exist are left as they are.
    """
    if known:
        stored = set(transaction.column("stored_jobs", (as_json([job.id for job in jobs]),)))
        inserted = insert(transaction, [job for job in jobs if job.id not in stored], known=False)
        stands = iter(inserted)
        return [job.id if job.id in stored else next(stands) for job in jobs]
    if not any(job.key for job in jobs):
        _insert_new(transaction, jobs)
        return [job.id for job in jobs]
    kept, places = merge_keys(jobs)
    ids = [_insert_keyed(transaction, job) for job in kept]
    return [ids[place] for place in places]


def _insert_new(transaction: Transaction, jobs: Sequence[NewJob]) -> None:
    """Store jobs whose keys, if any, are already taken for them."""
    for group in group_alike(jobs):
        first, now = group[0], transaction.now
        asked, run_at, expires_at = due_us(first, now)
        task, queue, priority = first.task, first.queue, first.priority
        rules = (encode_policy(first.policy),)
        around = (
            first.collection,
            encode_labels(first.labels),
            first.parent,
            first.trace,
            first.creator,
            first.occurrence,
            now,
            asked,
            expires_at,
        )
        if first.part is not None:
            row_of = partial(_step_row, now=now, asked=asked, expires_at=expires_at)
            transaction.insert_many("insert_step_job", [row_of(job, job.part) for job in group if job.part])
        else:
            transaction.insert_many(
                "insert_job",
                [(job.id, task, queue, priority, job.args.decode(), *rules, job.key, *around) for job in group],
            )
        if first.version is not None:
            transaction.run_many("set_version", [(job.version, job.id) for job in group])
            task = RUN
        places: Iterable[tuple[str, int]] = repeat((queue, priority), len(group))
        if any(job.job_limits for job in group):
            places = [(stamp(transaction, job), row_priority(job.priority, job.job_limits)) for job in group]
        transaction.insert_many(
            "insert_queue",
            [
                (*place, run_at, job.id, task, int(job.key is not None), expires_at)
                for job, place in zip(group, places, strict=True)
            ],
        )


def _step_row(job: NewJob, part: StepInstance, now: int, asked: int, expires_at: int | None) -> tuple[Any, ...]:
    """Return the row of a job that is a step of a run."""
    what = (job.id, job.task, job.queue, job.priority, job.args.decode(), encode_policy(job.policy))
    around = (job.collection, encode_labels(job.labels), job.parent, job.trace, job.creator)
    inputs = None if part.inputs is None else part.inputs.decode()
    return (*what, *around, part.run, part.step, part.idx, inputs, now, asked, expires_at)


def stamp(transaction: Transaction, job: NewJob) -> str:
    """Store the lane and the limits of a job; return the lane."""
    lane = home_lane(job.queue, job.job_limits)
    transaction.run("stamp_job", (lane, encode_job_limits(job.job_limits), job.id))
    return lane


def _insert_keyed(transaction: Transaction, job: NewJob) -> JobId:
    """Store a job with a key, or return the id of the live job that holds the key and represents it.

    Raise KeyTaken if that job cannot represent it.
    """
    if job.key is not None:
        if transaction.run("stored_jobs", (as_json([job.id]),)):
            return job.id  # The job exists already. Its key may be another job's by now.
        holder = transaction.first("key_holder", (job.key, transaction.now))
        if holder is not None:
            found = KeyOwner(*holder)
            check_holder(job, found)
            replaced = job.if_exists in ("replace", "follow") and _replace(transaction, found.job_id, job)
            if replaced or job.if_exists != "follow":
                return found.job_id
        transaction.run("take_key", (job.key, job.id))
    _insert_new(transaction, [job])
    return job.id


def _replace(transaction: Transaction, holder: JobId, job: NewJob) -> bool:
    """Replace a queued job by a new one; return False if the job is not queued."""
    asked, run_at, expires_at = due_us(job, transaction.now)
    values = {
        "job_id": holder,
        "task": job.task,
        "queue": job.queue,
        "lane": home_lane(job.queue, job.job_limits),
        "job_limits": encode_job_limits(job.job_limits),
        "priority": job.priority,
        "row_priority": row_priority(job.priority, job.job_limits),
        "run_at": run_at,
        "due_at": asked,
        "expires_at": expires_at,
        "args": job.args.decode(),
        "policy": encode_policy(job.policy),
        "collection": job.collection,
        "labels": encode_labels(job.labels),
        "parent": job.parent,
        "trace": job.trace,
        "creator": job.creator,
        "occurrence": job.occurrence,
        "version": job.version,
        "stands_as": job.task if job.version is None else RUN,
    }
    waits = bool(transaction.run("replace_queue", values))
    if waits:
        transaction.run("replace_job", values)
    return waits
