"""The row of a picked job, which both stores read with the same columns, and the claimed job that it becomes."""

from __future__ import annotations

from typing import NamedTuple

from tickwork.core.ids import ClaimId, JobId
from tickwork.core.job import Claimed
from tickwork.core.limits.job_limits import JobLimits
from tickwork.store.rows.jobs import decode_policy

_NONE = "\x1e"  # Stands for NULL in `PickedRow.kind_text`.


class PickedRow(NamedTuple):
    """The row of a picked job: the columns of the statements that pick jobs of the queue, in their order.

    `attempt` is the number of its next attempt. `task` is its task in the queue, which is `@dag` for a run; `job_task`
    is the dag of a run, else the same task. Plain claims on SQLite read the columns up to `trace`. `ctid` is where
    PostgreSQL stores the row of the queue.
    """

    job_id: JobId
    attempt: int
    task: str
    lane: str
    priority: int
    args: str
    policy: str
    run_at_us: int
    failures: int
    crashes: int
    alone: bool
    occurrence: str | None
    keyed: bool
    expires_at_us: int | None
    losses: int
    run: str | None
    step: str | None
    inputs: str | None
    trace: str | None
    queue: str = ""
    collection: str | None = None
    labels: str = "[]"
    job_limits: str | None = None
    job_task: str = ""
    ctid: str = ""

    @property
    def kind_text(self) -> str:
        """Return the text by which equal jobs are grouped, in the form that the statement `lane_scan` builds."""
        kind = (self.job_task, self.queue, self.collection or _NONE, self.labels, self.job_limits or _NONE)
        return "\x1f".join(kind)


NOT_READ = tuple(PickedRow._field_defaults.values())  # The columns that plain claims on SQLite do not read.


def claimed_job(
    row: PickedRow,
    *,
    queue: str,
    claim: ClaimId,
    now_us: int,
    job_limits: JobLimits | None = None,
    is_probe: bool = False,
) -> Claimed:
    """Build the claimed job of a picked row, as it is handed to the worker.

    The fields are passed by position, since each claimed job is built here and names take three times as long.
    """
    return Claimed(
        row.job_id,
        row.attempt,
        claim,
        row.task,
        queue,
        row.priority,
        row.args.encode(),
        decode_policy(row.policy),
        row.run_at_us,
        now_us,
        row.failures,
        row.crashes,
        row.alone == 1,
        row.occurrence,
        job_limits,
        is_probe,
        row.run,
        row.step,
        row.inputs,
        row.trace,
        losses=row.losses,
    )
