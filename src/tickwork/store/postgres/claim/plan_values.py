"""The values of the statements that write the plan of a round (see limited_round.py)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tickwork.core.ids import ClaimId, WorkerId
from tickwork.core.limits.job_limits import JobLimits, LimitKey, LimitUse, limit_key_text
from tickwork.core.limits.lanes import home_lane
from tickwork.store.claim import limit_state
from tickwork.store.claim.types import BULK_WALK, Candidate, ClaimPlan
from tickwork.store.postgres.params import array, text_array
from tickwork.store.rows.jobs import encode_job_limits

Wanted = tuple[str, dict[str, Any]]
"""A named statement with its values."""


def plan_writes(plan: ClaimPlan, worker: WorkerId, claim: ClaimId, now_us: int) -> list[Wanted]:
    """Return the statements that write a plan, in order.

    Bulk parks, starts, holds, diverts, parks, states of limits, counts.
    """
    wanted: list[Wanted] = [("park_alike", _alike(one, lane)) for one, lane in plan.bulk_parks]
    if plan.starts:
        started = {"worker": worker, "claim": str(claim), "now_us": str(now_us)}
        wanted.append(("start_picked", {**_places(one for one, _ in plan.starts), **started}))
    holds = [(one, slot) for one, slots in plan.starts for slot in slots]
    if holds:
        wanted.append(("take_holds", _holds(holds, plan.on_retry)))
    diverts = [(one, _diverted(one, queue)) for one, queue in plan.diverts]
    wanted += [("divert_job", values) for _, values in diverts]
    parks = [*plan.parks, *((one, values["lane"]) for one, values in diverts)]
    if parks:
        wanted.append(("park_picked", {**_places(one for one, _ in parks), **_moves(parks)}))
    wanted += _limit_states(plan)
    return [*wanted, *(("pass_on", {"name": name, "count": count}) for name, count in plan.passed_on.items())]


def _places(candidates: Iterable[Candidate]) -> dict[str, str]:
    """Return the ctids (physical row ids) of picked rows. The rows are locked, so their ctids cannot change."""
    return {"places": text_array([one.row.ctid for one in candidates])}


def _moves(moved: Sequence[tuple[Candidate, str]]) -> dict[str, str]:
    """Return picked jobs with their new lanes as the values of `park_picked`."""
    rows = [one.row for one, _ in moved]
    return {
        "ids": array([row.job_id for row in rows]),
        "attempts": array([row.attempt for row in rows]),
        "lanes": text_array([lane for _, lane in moved]),
        "priorities": array([row.priority for row in rows]),
        "tasks": text_array([row.task for row in rows]),
        "runs_us": array([row.run_at_us for row in rows]),
        "failures": array([row.failures for row in rows]),
        "crashes": array([row.crashes for row in rows]),
        "alone": array([row.alone for row in rows]),
        "keyed": array([row.keyed for row in rows]),
        "expires_us": array([row.expires_at_us for row in rows]),
        "losses": array([row.losses for row in rows]),
    }


def _alike(one: Candidate, lane: str) -> dict[str, Any]:
    """Return a job and the lane that it is parked in as the values of `park_alike`."""
    return {
        "place": one.lane,
        "priority": one.priority,
        "run_us": one.run_at_us,
        "job_id": one.job_id,
        "task": one.task,
        "queue": one.queue,
        "collection": one.collection,
        "labels": one.row.labels,
        "job_limits": one.row.job_limits,
        "lane": lane,
        "most": BULK_WALK,
    }


def _holds(holds: Sequence[tuple[Candidate, LimitUse]], on_retry: Mapping[LimitKey, str]) -> dict[str, str]:
    """Return the holds of started jobs as the values of `take_holds`."""
    return {
        "names": text_array([limit_key_text(slot.limit_key) for _, slot in holds]),
        "ids": array([one.job_id for one, _ in holds]),
        "attempts": array([one.row.attempt for one, _ in holds]),
        "weights": array([slot.weight for _, slot in holds]),
        "on_retry": array([on_retry.get(slot.limit_key) for _, slot in holds]),
    }


def _diverted(one: Candidate, queue: str) -> dict[str, Any]:
    """Return the values of `divert_job`: the job with its new queue, lane and job_limits."""
    job_limits = msgspec.structs.replace(one.job_limits or JobLimits(), diverted=True)
    lane = home_lane(queue, job_limits)
    return {"id": one.job_id, "queue": queue, "lane": lane, "job_limits": encode_job_limits(job_limits)}


def _limit_states(plan: ClaimPlan) -> list[Wanted]:
    """Return the statements that write the new states and openings of limit keys."""
    wanted: list[Wanted] = []
    if plan.states:
        states = text_array(map(limit_state.encode_state, plan.states.values()))
        wanted.append(("put_states", {**named(plan.states), "states": states}))
    openings = {**plan.opens, **dict.fromkeys(plan.emptied)}
    if openings:
        values = {
            **named(openings),
            "waits": array([limit_key not in plan.emptied for limit_key in openings]),
            "opens_us": array(openings.values()),
        }
        wanted.append(("put_openings", values))
    return wanted


def named(limit_keys: Iterable[LimitKey]) -> dict[str, str]:
    """Return the names of limit keys, and of their limits, as values of statements."""
    limit_keys = list(limit_keys)
    return {
        "names": text_array(map(limit_key_text, limit_keys)),
        "bounds": text_array([limit_key.limit for limit_key in limit_keys]),
    }
