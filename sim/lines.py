"""Sequences in a simulated world, which some seeds have, and the check of their order (SEQ).

SEQ: jobs with the same key run one at a time, in the order of (run_at, id). A job that has started keeps its position
until it reaches a final state, whatever happens to its worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING

import msgspec

from sim.mirror import FinishedRow, Move, QueueRow, RunningRow
from sim.trace import hold
from tickwork.core.job import NewJob
from tickwork.core.limits.breaker import Rule
from tickwork.core.limits.job_limits import JobLimits, LimitUse
from tickwork.core.limits.limits import sequence

if TYPE_CHECKING:
    from sim.account import Call, Story
    from sim.mirror import Mirror
    from sim.world import World

_LIMIT = "line"
_KEYS = 3
_SHARE = 0.7  # the share of jobs that are in a sequence, in worlds with sequences


class Lines:
    """Assigns jobs to sequences, and checks each start of such a job."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._is_used = world.stream("lines").random() < 0.3
        self._key_of: dict[str, str] = {}

    def __bool__(self) -> bool:
        return self._is_used

    def rules(self) -> dict[str, Rule]:
        return {_LIMIT: sequence("key")}

    def stamp(self, job: NewJob) -> NewJob:
        """Return a job, possibly assigned to a sequence. The draw depends only on the job's id."""
        rng = Random(f"{job.id}/line")
        if not self or job.key is not None or rng.random() > _SHARE:
            return job
        key = f"{job.task}-{job.queue}-{rng.randrange(_KEYS)}"
        self._key_of[job.id] = key
        return msgspec.structs.replace(job, job_limits=JobLimits((LimitUse(_LIMIT, key, 1),), sequence=True))

    def is_in_line(self, job_id: str) -> bool:
        return job_id in self._key_of

    def plan_round(self, call: Call, moves: Sequence[Move]) -> None:
        """Check the starts of a call by the positions of all jobs after it, and record jobs in a final state."""
        for move in moves:
            if not self.is_in_line(move.job_id):
                continue
            if isinstance(move.before, QueueRow) and isinstance(move.after, RunningRow):
                self._started(call, move.after)
            if isinstance(move.before, RunningRow) and isinstance(move.after, QueueRow):
                self._world.trace.count("a sequence's head came back")
            if isinstance(move.after, FinishedRow):
                self._stories[move.job_id].begun = False

    @property
    def _stories(self) -> dict[str, Story]:
        return self._world.plan_round.account.stories

    def _started(self, call: Call, row: RunningRow) -> None:
        """Check that a job that starts has no running, interrupted or earlier due job of its key before it."""
        mirror, key = self._world.plan_round.account.mirror, self._key_of[row.job_id]
        others = [job_id for job_id, other in self._key_of.items() if other == key and job_id != row.job_id]
        beside = [one for one in others if one in mirror.running]
        hold(not beside, "SEQ", f"{row} started beside {beside} of the key {key}")
        begun = [one for one in others if one in mirror.queue and self._stories[one].begun]
        hold(not begun, "SEQ", f"{row} passed {begun}, which started before it and has not ended")
        if not self._stories[row.job_id].begun:
            before = [one for one in others if self._is_before(mirror, one, row, call.now)]
            hold(not before, "SEQ", f"{row} passed {before}, which are due before it")
        self._stories[row.job_id].begun = True

    def _is_before(self, mirror: Mirror, job_id: str, row: RunningRow, now: int) -> bool:
        other = mirror.queue.get(job_id)
        if other is None or other.run_at > now or (other.expires_at is not None and other.expires_at <= now):
            return False
        return (other.run_at, other.job_id) < (row.run_at, row.job_id)
