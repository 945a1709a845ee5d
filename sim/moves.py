"""Check the state transitions of jobs: which call may make which transition, and what it must preserve.

These are S1, S3-S7, S14, S19, S21, S22 and S26 of RELIABILITY.md 3a, as far as a changed row shows them.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from sim.account import CHARGED, Account, Call, Claim, Key, Story
from sim.mirror import FinishedRow, Move, QueueRow, RunningRow
from sim.trace import Broken, hold
from tickwork.core.job import JobState
from tickwork.core.outcome import CRASH_BUDGET
from tickwork.store.base import AHEAD_LIMIT
from tickwork.store.rows.instants import duration_us
from tickwork.store.rows.jobs import decode_policy
from tickwork.worker.retry_budget import BUDGET

AHEAD_US = duration_us(AHEAD_LIMIT)
_NEAR_S = 1e-5
_SECOND_US = 1_000_000


class Moves:
    """Checks every state transition of a job, and updates the job's history."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._mirror = account.mirror
        self._count = account.world.trace.count
        self._retries_due: defaultdict[tuple[str, str], list[int]] = defaultdict(list)  # by worker and queue

    def plan_round(self, call: Call, move: Move) -> None:
        """Check a transition by its kind. Raises Broken."""
        story = self._account.stories[move.job_id]
        match move.before, move.after:
            case None, QueueRow() as row:
                self._by(call, move, "S1", "insert_jobs", "move_schedules")
                hold(row.attempt == row.failures == row.crashes == 0, "S3", f"job {move.job_id} is not new: {row}")
            case QueueRow() as old, QueueRow() as row:
                self._changed_while_waiting(call, move, old, row)
            case QueueRow() as old, RunningRow() as row:
                self._by(call, move, "S1", "claim_jobs")
                self._claimed(call, story, row)
            case RunningRow() as old, RunningRow() as row:
                self._changed_while_running(call, story, old, row)
            case RunningRow() as old, QueueRow() | FinishedRow() as row:
                self._attempt_ended(call, move, story, old, row)
            case QueueRow() as old, FinishedRow() as row:
                self._ended_unstarted(call, move, story, old, row)
            case FinishedRow() as old, QueueRow() as row:
                self._by(call, move, "S7", "retry_jobs")
                self._retried(story, old, row)
            case FinishedRow() as old, FinishedRow() as row:
                self._by(call, move, "S7", "discard_jobs")
                hold(old._replace(discarded_at=row.discarded_at) == row, "S7", f"an ended job changed: {old} {row}")
            case FinishedRow(), None:
                self._by(call, move, "S7", "prune")
                story.pruned = True
            case _:
                raise Broken("S1", _told(call, move))

    def _by(self, call: Call, move: Move, invariant: str, *verbs: str) -> None:
        hold(call.verb in verbs, invariant, _told(call, move))

    # -- queued jobs

    def _changed_while_waiting(self, call: Call, move: Move, old: QueueRow, row: QueueRow) -> None:
        if call.verb == "claim_jobs" and self._account.world.lines.is_in_line(row.job_id):
            hold(old._replace(queue=row.queue) == row, "S6", f"what was put aside was changed: {old} {row}")
            return
        self._by(call, move, "S6", "insert_jobs", "retry_jobs")
        same = (old.attempt, old.failures, old.crashes) == (row.attempt, row.failures, row.crashes)
        hold(same, "S3", f"a waiting job lost its count: {old} {row}")
        if call.verb == "insert_jobs":
            key = self._mirror.jobs[row.job_id].key
            asked = any(job.if_exists == "replace" and job.key == key for job in call.arg("jobs"))
            hold(asked, "S1", f"nobody asked to replace job {row.job_id}")
            self._count("replaced")

    def _ended_unstarted(self, call: Call, move: Move, story: Story, old: QueueRow, row: FinishedRow) -> None:
        self._by(call, move, "S6", "cancel_jobs", "expire_jobs", "move_schedules")
        if call.verb == "expire_jobs":
            due = old.expires_at is not None and old.expires_at <= call.now
            hold(due and row.state == "expired", "S14", f"a job expired before its deadline: {old} {row}")
            self._count("expired")
        else:
            hold(_asks_to_cancel(call, row.job_id), "S16", f"{call.verb} ended {row.job_id}, which no schedule cancels")
            hold(row.state == "cancelled", "S19", f"a cancelled job is {row.state}")
            story.cancelled = True
        same = (old.attempt, old.failures, old.crashes) == (row.attempt, row.failures, row.crashes)
        hold(same, "S3", f"an ended job lost its counts: {old} {row}")

    def _retried(self, story: Story, old: FinishedRow, row: QueueRow) -> None:
        """Check a manual retry: it resets the count of failures, but not the count of attempts."""
        hold(old.state != "succeeded", "S7", f"job {row.job_id} had succeeded, and runs again")
        hold(row.attempt == old.attempt, "S3", f"a retry gave attempt {old.attempt} back: {row}")
        hold(row.failures == row.crashes == row.losses == 0, "S21", f"a retry kept old failures: {row}")
        story.generation += 1
        story.failures = 0
        story.cancelled = False
        self._count("retried by hand")

    # -- running jobs

    def _claimed(self, call: Call, story: Story, row: RunningRow) -> None:
        """Check a claimed job, and record its attempt."""
        what = _attempt(row)
        early_s = (row.run_at - call.now) / 1e6
        worker = self._mirror.workers.get(row.worker)
        hold(row.attempt == story.attempt + 1, "S3", f"{what} follows attempt {story.attempt}")
        hold((row.job_id, row.attempt) not in self._account.claims, "S3", f"{what} was claimed before")
        hold(not story.open, "S4", f"{what} was claimed while attempt {story.attempt} is open")
        hold(not story.cancelled, "S19", f"{what} was claimed after the job was cancelled")
        hold(row.run_at <= call.now + AHEAD_US, "S14", f"{what} was claimed {early_s:g} s early")
        hold(row.expires_at is None or row.expires_at > call.now, "S14", f"{what} was claimed after its deadline")
        hold(row.claimed_at == call.now, "S26", f"{what} was not claimed at the store's time")
        hold(worker is not None and worker.lease_until > call.now, "S4", f"{what} went to a worker without a lease")
        hold(row.worker == call.arg("worker"), "S4", f"{what} went to another worker than asked")
        story.attempt, story.open = row.attempt, True
        policy = decode_policy(self._mirror.jobs[row.job_id].policy)
        self._account.claims[row.job_id, row.attempt] = Claim(self._account.world.now_us, policy)
        self._count("claims")

    def _changed_while_running(self, call: Call, story: Story, old: RunningRow, row: RunningRow) -> None:
        rest = row._replace(cancel_at=old.cancel_at, progress=old.progress, begun=old.begun)
        hold(row.begun == old.begun or call.verb == "begin_alone", "S6", f"{call.verb} changed {old} to {row}")
        hold(rest == old, "S6", f"a running job was changed: {old} {row}")
        if row.progress != old.progress:
            told = [one.claim for one in call.arg("progress") if one.job_id == row.job_id]
            hold(row.claim in told, "S6", f"progress of claims {told} was taken for {_attempt(row)}")
        if row.cancel_at != old.cancel_at:
            asked = _asks_to_cancel(call, row.job_id) and row.cancel_at == call.now
            hold(asked, "S19", f"{call.verb} changed {old} to {row}")
            story.cancelled = True
            self._count("cancelled while running")

    # -- the end of an attempt

    def _attempt_ended(
        self, call: Call, move: Move, story: Story, old: RunningRow, row: QueueRow | FinishedRow
    ) -> None:
        """Check the end of an attempt: it is closed once, by its worker or the reaper, and counted by its kind."""
        self._by(call, move, "S5", "finish_attempts", "reclaim_attempts")
        self._close(call, story, old)
        self._count_failures(story, old, row)
        self._count_losses(call, old, row)
        ended = row.state if isinstance(row, FinishedRow) else "queued"
        hold(old.cancel_at is None or ended == "cancelled", "S19", f"{_attempt(old)} was cancelled; its job is {ended}")
        hold(row.attempt == old.attempt, "S3", f"{_attempt(old)} left its job at attempt {row.attempt}")
        if call.verb == "reclaim_attempts":
            self._reclaimed(call, old)
        if isinstance(row, QueueRow):
            self._queued_again(call, story, old, row)
        else:
            hold(row.ended_at == call.now, "S26", f"job {row.job_id} ended at another time than the store's")

    def _close(self, call: Call, story: Story, old: RunningRow) -> None:
        """Check that an attempt is closed by its own claim and for the first time, and record its end."""
        key, what = (old.job_id, old.attempt), _attempt(old)
        named = [one.claim for one in call.arg("endings") if one.job_id == old.job_id]
        hold(old.claim in named, "S6", f"{call.verb} named claims {named}, and closed {what}")
        hold(key not in self._account.closed, "S5", f"{what} was closed before, as {self._account.closed.get(key)}")
        hold(story.open and story.attempt == old.attempt, "S3", f"{what} was closed; {story.attempt} was claimed last")
        self._account.closed[key] = self._recorded(key)
        story.open = False

    def _recorded(self, key: Key) -> str:
        """Return the recorded end of an attempt."""
        row = self._mirror.attempts.get(key)
        if row is not None:
            return row.state
        ended = self._mirror.finished.get(key[0])
        hold(ended is not None and ended.attempt == key[1], "S3", f"attempt {key[1]} of job {key[0]} left no record")
        return "" if ended is None else str(ended.attempt_state)

    def _count_failures(self, story: Story, old: RunningRow, row: QueueRow | FinishedRow) -> None:
        """S21: check the counts of failures and crashes, except of finished jobs, where they have no effect."""
        key, what = (old.job_id, old.attempt), _attempt(old)
        ended_as = self._account.closed[key]
        story.failures += ended_as in CHARGED
        if isinstance(row, FinishedRow):
            return
        retries = self._account.claims[key].policy.retry.retries
        more = row.crashes - old.crashes
        hold(row.failures == story.failures, "S21", f"{what}: {row.failures} failures noted, {story.failures} happened")
        hold(
            ended_as not in CHARGED or row.failures <= retries,
            "S21",
            f"{what} is retried after {row.failures} failures",
        )
        hold(0 <= more <= (ended_as == "lost"), "S21", f"{what}: crashes {old.crashes} to {row.crashes}")
        hold(row.crashes < CRASH_BUDGET, "S21", f"{what} is retried after {row.crashes} crashes")

    def _count_losses(self, call: Call, old: RunningRow, row: QueueRow | FinishedRow) -> None:
        """S21: consecutive lost attempts are counted, and only the loss of an attempt that ran alone fails the job."""
        key, what = (old.job_id, old.attempt), _attempt(old)
        policy = self._account.claims[key].policy
        alone = policy.max_lost is not None and old.losses >= policy.max_lost
        if call.verb != "reclaim_attempts" or policy.on_lost == "fail" or old.cancel_at is not None:
            return
        if isinstance(row, FinishedRow):
            hold(bool(alone and old.begun), "S21", f"{what} was blamed for a loss: {old}")
            self._count("failed by its losses")
        else:
            hold(not (alone and old.begun), "S21", f"{what} was lost while it ran alone, and goes on: {row}")
            hold(row.losses == old.losses + (not alone), "S21", f"{what}: losses {old.losses} to {row.losses}")

    def _reclaimed(self, call: Call, old: RunningRow) -> None:
        """Check that the reaper reclaims only expired attempts, and none from a worker without faults."""
        what, world = _attempt(old), self._account.world
        hold(self._mirror.workers[old.worker].lease_until < call.now, "S4", f"{what} was reclaimed from a good lease")
        owner = self._account.identities[old.worker]
        undisturbed = owner.well_since(world.now_us - self._account.healing_us)
        well = not owner.dead and owner.lease.worker == old.worker and undisturbed
        hold(not well, "WELL", f"{what} was reclaimed from {owner.name}, which is well")
        self._count("reclaimed")

    def _queued_again(self, call: Call, story: Story, old: RunningRow, row: QueueRow) -> None:
        """S22: a failed job is retried after the delay of its policy with jitter, or the delay that its handler set."""
        key = (old.job_id, old.attempt)
        priority = row.priority if self._account.world.lines.is_in_line(row.job_id) else old.priority
        hold((row.priority, row.queue) == (priority, old.queue), "S13", f"{old} came back as {row}")
        ended_as = self._account.closed[key]
        if ended_as not in CHARGED:
            return
        wait_s = (row.run_at - call.now) / 1e6
        put_off = self._is_put_off(call, old, row)
        handler = self._account.handlers.get((old.job_id, old.claim))
        asked = None if handler is None or handler.end is None else handler.end.after_s
        if asked is not None and ended_as == "failed":
            as_asked = abs(wait_s - asked) < _NEAR_S or (put_off and wait_s > asked)
            hold(as_asked, "S22", f"job {row.job_id} asked for {asked} s and waits {wait_s} s")
            return
        policy = self._account.claims[key].policy.retry
        most = min(policy.base.total_seconds() * policy.factor ** (story.failures - 1), policy.cap.total_seconds())
        inside = most * (1 - policy.jitter) - _NEAR_S <= wait_s and (wait_s <= most + _NEAR_S or put_off)
        hold(inside, "S22", f"job {row.job_id} waits {wait_s} s after failure {story.failures}; at most {most} s")

    def _is_put_off(self, call: Call, old: RunningRow, row: QueueRow) -> bool:
        """Return whether its worker's retry budget may have delayed a retry: many others are due shortly before it.

        Half of the budget's floor is enough, because the budget also counts retries whose end was not stored.
        """
        due_us = self._retries_due[self._account.identities[old.worker].name, old.queue]
        crowd = sum(call.now - _SECOND_US <= one <= row.run_at for one in due_us)
        due_us.append(row.run_at)
        return 2 * crowd >= BUDGET.floor


def succeeded(row: Any) -> bool:
    return isinstance(row, FinishedRow) and row.state == JobState.SUCCEEDED


def _attempt(row: RunningRow) -> str:
    return f"attempt {row.attempt} of job {row.job_id}"


def _told(call: Call, move: Move) -> str:
    return f"{call.verb} moved job {move.job_id} from {move.before} to {move.after}"


def _asks_to_cancel(call: Call, job_id: str) -> bool:
    """Return whether a call requests to cancel a job: by a client, or by a schedule whose next run replaces it."""
    if call.verb == "move_schedules":
        return any(job_id in move.cancels for move in call.arg("moves"))
    return call.verb == "cancel_jobs"
