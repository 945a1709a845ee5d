"""Check liveness in the phase without faults.

L1: every job ends within a bound. There are three checks: some job moves in each sufficiently long period, no job has
more attempts than it can need, and the run ends.
L2: an attempt that no process works on is reclaimed within lease + reap interval + poll interval.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.mirror import RunningRow
from sim.trace import Broken, hold
from tickwork.core.outcome import CRASH_BUDGET
from tickwork.services.reaper import INTERVAL_S
from tickwork.services.runner import LAST_BACKOFF_S
from tickwork.store.rows.jobs import decode_policy
from tickwork.worker.child_events import KILL_GRACE_S
from tickwork.worker.claimer import OWN_LOOK_LEASES
from tickwork.worker.run.executor import CANCEL_GRACE_S, STUCK_GRACE_S

if TYPE_CHECKING:
    from sim.world import World

LONGEST_TIMEOUT_S = 5.0
_SECOND = 1_000_000
_SLACK_S = 2.0
_SPARE_ATTEMPTS = 16  # additional attempts: after snoozes, and after the death of a shared child
_LOOK_EVERY_US = _SECOND


class Liveness:
    """Checks that jobs make progress after the end of the faults."""

    def __init__(self, world: World) -> None:
        config = world.config
        self._world = world
        self._began_us: int | None = None
        self._looked_us = 0
        self._orphans: dict[tuple[str, int], int] = {}
        self._attempts: dict[str, int] = {}
        handler_s = max(config.longest_s, LONGEST_TIMEOUT_S) + KILL_GRACE_S + CANCEL_GRACE_S + STUCK_GRACE_S
        patience_s = config.lease_s + INTERVAL_S + config.poll_s + LAST_BACKOFF_S + _SLACK_S
        if world.is_lossy:  # the interval at which a worker looks for ends that the store has lost
            patience_s += OWN_LOOK_LEASES * config.lease_s
        self._orphan_us = int(patience_s * _SECOND)
        self._still_us = int((patience_s + 2 * handler_s) * _SECOND)

    def begin(self) -> None:
        """Start the checks: there are no more faults."""
        self._began_us = self._world.now_us
        self._attempts = {job_id: story.attempt for job_id, story in self._world.plan_round.account.stories.items()}

    def over(self) -> bool:
        """Return whether every job has ended, every client has its answer, and no schedule is due."""
        mirror = self._world.plan_round.account.mirror
        if self._began_us is None or mirror.queue or mirror.running:
            return False
        return all(client.idle for client in self._world.clients) and self._world.ticks.over()

    def look(self) -> None:
        """Run the checks, at most once in `_LOOK_EVERY_US`. Raises Broken."""
        now = self._world.now_us
        if self._began_us is not None and now - self._looked_us >= _LOOK_EVERY_US:
            self._looked_us = now
            self._look_for_orphans(now)
            self._look_for_standstill(now)
            self._look_for_endless_jobs()

    def _look_for_orphans(self, now: int) -> None:
        running = self._world.plan_round.account.mirror.running
        unowned = {(row.job_id, row.attempt): row for row in running.values() if not self._owned(row)}
        self._orphans = {key: self._orphans.get(key, now) for key in unowned}
        for key, since in self._orphans.items():
            waited_s = (now - since) / _SECOND
            hold(now - since <= self._orphan_us, "L2", f"for {waited_s:g} s nobody has had {unowned[key]}")

    def _owned(self, row: RunningRow) -> bool:
        """Return whether a living process knows that it holds this attempt or has to store its end."""
        owner = self._world.plan_round.account.identities[row.worker]
        if owner.dead or owner.lease.worker != row.worker:
            return False
        # The simulator compares memory with rows; a worker has no public view of it.
        if owner.worker._held.attempt(row.job_id, row.claim) is not None:
            return True
        return any((one.job_id, one.claim) == (row.job_id, row.claim) for one in owner.worker._finisher)

    def _look_for_standstill(self, now: int) -> None:
        """Check that a job has moved recently, unless all jobs wait for a later run time."""
        account = self._world.plan_round.account
        since = max(self._world.plan_round.moved_at_us, self._began_us or 0)
        if now - since <= self._still_us:
            return
        queue = account.mirror.queue
        if queue and not account.mirror.running:
            due_us = (min(row.run_at for row in queue.values()) - account.store_now()) + now
            if now - due_us <= self._still_us:
                return
        stuck = [*account.mirror.running.values(), *queue.values()]
        if stuck:
            raise Broken(
                "L1", f"nothing has moved for {(now - since) / _SECOND:g} s; left are {len(stuck)}: {stuck[0]}"
            )

    def _look_for_endless_jobs(self) -> None:
        account = self._world.plan_round.account
        for job_id in [*account.mirror.queue, *account.mirror.running]:
            story = account.stories[job_id]
            retries = decode_policy(account.mirror.jobs[job_id].policy).retry.retries
            most = retries + 1 + CRASH_BUDGET + _SPARE_ATTEMPTS
            made = story.attempt - self._attempts.get(job_id, 0)
            hold(made <= most, "L1", f"job {job_id} was tried {made} times since all is well, and has not ended")
