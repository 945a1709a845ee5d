"""The body of a leased job: everything that a remote worker needs to run it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

import msgspec

from tickwork.blobs import READ_LIMIT, TooMuch
from tickwork.core.blob_ref import MARK
from tickwork.core.ids import ClaimId
from tickwork.core.job import MapIndex
from tickwork.core.occurrence import decode_occurrence
from tickwork.core.outcome import Failed
from tickwork.errors import BlobError, InvalidArguments
from tickwork.http.framework.route import Struct
from tickwork.http.remote.claim_and_finish import LeasedAttempt
from tickwork.http.request import Call
from tickwork.http.resources.jobs.job_bodies import IntervalBody, occurrence_fields
from tickwork.store.rows.instants import from_us

_CLAIM = re.compile("[0-9a-f]{16}")
ARGS_LIMIT = 16 * 1024 * 1024  # with the results of earlier steps in them


class LeasedJobBody(Struct):
    """A job to run. Every call about it sends `attempt` and `claim`. `state` is the checkpoint of an earlier attempt.

    `timeout` is how many seconds the attempt may take; a heartbeat after that ends it. `map_index` (from 0) and
    `map_count` identify the instance of a mapped step.

    If a schedule created the job, or the run of this step, `scheduled_for` is the occurrence, `interval` the period
    of that, and `is_catchup` is true if the occurrence was missed or backfilled. Otherwise `schedule` and these are
    null or false.
    """

    id: str
    task: str
    args: msgspec.Raw
    attempt: int
    claim: str
    lease_until: datetime
    queue: str
    priority: int
    run_at: datetime
    timeout: float | None
    state: msgspec.Raw | None
    run_id: str | None
    step: str | None
    map_index: int | None
    map_count: int | None
    schedule: str | None
    scheduled_for: datetime | None
    is_catchup: bool
    interval: IntervalBody | None


def claim_text(claim: ClaimId) -> str:
    """Return a claim as text, since JSON numbers lose the last digits of a claim in many languages."""
    return f"{claim:016x}"


def read_claim(text: str | None) -> ClaimId | None:
    """Return the claim that `claim_text` encoded; for any other text, a claim that no attempt has."""
    if text is None:
        return None
    return ClaimId(int(text, 16)) if _CLAIM.fullmatch(text) else ClaimId(-1)


def shown(call: Call, leased: Sequence[LeasedAttempt]) -> list[LeasedJobBody]:
    """Return the bodies of leased jobs, without jobs whose arguments cannot be read; their attempts end as failed."""
    steps = [one.job.job_id for one in leased if one.job.step is not None]
    places = call.app.store.dags.map_places(steps) if steps else {}
    bodies = (_shown(call, one, places.get(one.job.job_id)) for one in leased)
    return [body for body in bodies if body is not None]


def _shown(call: Call, one: LeasedAttempt, place: MapIndex | None) -> LeasedJobBody | None:
    """Return the body of a leased job; None if its arguments cannot be read."""
    job = one.job
    args = _args(call, one)
    if args is None:
        return None
    state = call.app.store.saved_state(job.job_id) if job.attempt > 1 else None
    return LeasedJobBody(
        id=job.job_id,
        task=job.task,
        args=msgspec.Raw(args),
        attempt=job.attempt,
        claim=claim_text(job.claim),
        lease_until=one.lease_until,
        queue=job.queue,
        priority=job.priority,
        run_at=from_us(job.run_at_us),
        timeout=None if job.policy.timeout is None else job.policy.timeout.total_seconds(),
        state=None if state is None else msgspec.Raw(state),
        run_id=job.run,
        step=job.step,
        map_index=None if place is None else place.index,
        map_count=None if place is None else place.count,
        **occurrence_fields(None if job.occurrence is None else decode_occurrence(job.occurrence)),
    )


def _args(call: Call, one: LeasedAttempt) -> bytes | None:
    """Return the arguments with values from blobs. If they cannot be read, end the attempt and return None."""
    try:
        args = call.app.large_results.whole(one.job.args, READ_LIMIT) if MARK in one.job.args else one.job.args
    except (BlobError, InvalidArguments) as error:
        call.parts.long_polls.ends.end(one.job, Failed(str(error)), one.worker)
        return None
    except TooMuch as error:
        flaw = f"its arguments are made of results of {error} or more; over REST {READ_LIMIT:,} are the most."
    else:
        if len(args) <= ARGS_LIMIT:
            return args
        size = f"{len(args):,} bytes"
        flaw = f"its arguments are {size} with the results in them; over REST {ARGS_LIMIT:,} are the most."
    call.parts.long_polls.ends.end(one.job, Failed(flaw, fatal=True), one.worker)
    return None
