"""The judge: sees every verb with what it changed, and every handler, and knows what may be and what may not.

It keeps its own account of each job (generation, failures, open attempt) from what was committed, and shares no code
with the store. The names of the invariants are those of RELIABILITY.md 3a; besides:

    ERR   a loop raised something that the simulator did not inject      SQL   SQLite refused a statement of ours
    OWN   an attempt's recorded end is what its own handler came to      LOG   what a handler wrote is stored with its end
    R10   a worker starts nothing after its lease, as it counts it       WELL  nothing is taken from a worker that is well
    KEY   the table of keys says who lives                               SIM   the simulator itself is wrong
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from sim.config import DRIFT
from sim.mirror import (
    AttemptRow,
    Change,
    FinishedRow,
    JobRow,
    KeyRow,
    LedgerRow,
    LogRow,
    Mirror,
    Move,
    QueueRow,
    RunningRow,
    SavedRow,
    WorkerRow,
    jobs_in,
)
from sim.trace import Broken, hold
from tickwork.core.job import JobState, Policy
from tickwork.core.outcome import CRASH_BUDGET
from tickwork.store.base import AHEAD_LIMIT
from tickwork.store.codec import decode_policy, duration_us
from tickwork.store.sqlite import SqliteStore
from tickwork.store.sqlite.clock import DRIFT_US
from tickwork.worker.messages import Assignment, End

if TYPE_CHECKING:
    from sim.actor import Actor
    from sim.processes import WorkerProcess
    from sim.world import World

Key = tuple[str, int]  # a job and the number of an attempt
_AHEAD_US = duration_us(AHEAD_LIMIT)
_CHARGED = frozenset(["failed", "timed_out"])


@dataclass(slots=True)
class Call:
    """A verb that was committed: who asked for what, and what came of it. `now` is the store's, before it."""

    actor: Actor
    verb: str
    args: tuple[Any, ...]
    named: dict[str, Any]
    answer: Any
    changes: list[Change]
    now: int

    def arg(self, name: str) -> Any:
        """An argument by its name, however it was passed."""
        if name in self.named:
            return self.named[name]
        place, default = _parameters(self.verb)[name]
        return self.args[place] if place < len(self.args) else default

    def told(self) -> list[object]:
        """For the trace: the same at every replay, whatever order sets have."""
        answer = self.answer
        return [*self.changes, sorted(answer) if isinstance(answer, set) else answer]


@cache
def _parameters(verb: str) -> dict[str, tuple[int, Any]]:
    """The parameters of a verb: their place among the arguments, and their default."""
    _, *parameters = inspect.signature(getattr(SqliteStore, verb)).parameters.values()
    return {one.name: (place, one.default) for place, one in enumerate(parameters)}


@dataclass(slots=True)
class Story:
    """What the judge knows of one job. A generation begins with the job, and anew with each retry by an operator."""

    attempt: int = 0
    open: bool = False
    generation: int = 0
    failures: int = 0
    crashes: int = 0
    cancelled: bool = False
    pruned: bool = False
    acknowledged: bool = False


@dataclass(slots=True)
class Handler:
    """What the judge knows of one handler: the truth about an attempt, whatever is stored of it."""

    process: WorkerProcess
    began: float
    wrote: int = 0
    gone: bool = False
    stuck: bool = False
    end: End | None = None
    returned: bytes | None = None


@dataclass(slots=True)
class Claim:
    """When an attempt was claimed, in the world's time, and by whom."""

    at_us: int
    worker: str
    policy: Policy


@dataclass
class Judge:
    """Holds the invariants after every event. Raises Broken when one does not hold."""

    world: World
    mirror: Mirror = field(default_factory=Mirror)
    stories: dict[str, Story] = field(default_factory=dict)
    claims: dict[Key, Claim] = field(default_factory=dict)
    handlers: dict[Key, Handler] = field(default_factory=dict)
    closed: dict[Key, str] = field(default_factory=dict)
    identities: dict[str, WorkerProcess] = field(default_factory=dict)
    live_keys: dict[str, list[str]] = field(default_factory=dict)
    latest: int = 0
    moved_at_us: int = 0

    def store_now(self) -> int:
        """The store's clock as RELIABILITY.md rule 12 has it, computed apart from the store."""
        clock = self.world.clock
        anchor = self.mirror.clock.get(1)
        if anchor is None:
            return clock.wall_us()
        went = anchor.wall + clock.steady_us() - anchor.steady
        return clock.wall_us() if clock.wall_us() - went > DRIFT_US else went

    # -- verbs

    def observe(self, call: Call) -> list[Move]:
        """Judge a committed verb; return the jobs that it moved."""
        if call.changes:
            hold(call.now >= self.latest, "S26", f"the store's clock went back by {self.latest - call.now} us")
            self.latest = call.now
        before = {job_id: self.mirror.standing(job_id) for job_id in jobs_in(call.changes)}
        keys = dict(self.mirror.keys) if any(change.table == "tickwork_keys" for change in call.changes) else {}
        for change in call.changes:
            self._judge_change(call, change)
            self.mirror.apply(change)
        moves = [Move(job_id, stood, self.mirror.standing(job_id)) for job_id, stood in before.items()]
        for move in moves:
            self._judge_move(call, move)
        self._judge_keys(call, moves, keys)
        self._judge_answer(call, moves)
        if moves:
            self.moved_at_us = self.world.now_us
        return moves

    def _judge_change(self, call: Call, change: Change) -> None:
        """What must hold of a row as it is written, by its table."""
        match change.new:
            case LogRow(job_id, attempt):
                self._is_current(job_id, attempt, "a log")
            case SavedRow(job_id):
                hold(call.verb == "save_state", "S6", f"{call.verb} saved a state of job {job_id}")
                self._is_current(job_id, call.arg("attempt"), "a saved state")
            case AttemptRow():
                self._judge_attempt_row(call, change, change.new)
            case WorkerRow():
                self._judge_lease(call, change, change.new)
            case LedgerRow(job_id, attempt):
                self._is_current(job_id, attempt, "a transaction")
            case JobRow(id=job_id) if change.old is None:
                hold(call.verb == "insert_jobs", "S2", f"job {job_id} came from {call.verb}")
                self.stories[job_id] = Story()
            case _:
                pass

    def _is_current(self, job_id: str, attempt: int, what: str) -> None:
        row = self.mirror.running.get(job_id)
        current = None if row is None else row.attempt
        hold(current == attempt, "S6", f"{what} of attempt {attempt} of job {job_id} was taken; current is {current}")

    def _judge_attempt_row(self, call: Call, change: Change, row: AttemptRow) -> None:
        hold(change.old is None, "S5", f"attempt {row.attempt} of job {row.job_id} was recorded twice")
        if call.verb != "retry_jobs":  # which moves what was recorded with the job's end
            hold(row.ended_at == call.now, "S26", f"attempt {row.attempt} of job {row.job_id} ended at another time")

    def _judge_lease(self, call: Call, change: Change, row: WorkerRow) -> None:
        """Only a worker's own calls touch its lease, and its end is counted by the store's clock."""
        if call.verb == "reclaim_attempts":  # which gives up workers that are silent
            silent = change.old is not None and change.old.lease_until == row.lease_until < call.now
            hold(silent and row.state == "lost", "S4", f"the reaper changed the worker {change.old} to {row}")
            return
        owner = self.identities.get(row.id)
        hold(owner is call.actor, "S6", f"{call.verb} of {call.actor.name} changed the lease of {row.id}")
        if call.verb in {"register_worker", "renew_lease"}:
            until = call.now + duration_us(self.world.config.lease)
            off_s = (row.lease_until - until) / 1e6
            hold(row.lease_until == until, "S26", f"the lease of {row.id} ends {off_s:g} s off the store's clock")

    # -- jobs on the move

    def _judge_move(self, call: Call, move: Move) -> None:
        self._follow_keys(move)
        story = self.stories[move.job_id]
        match move.before, move.after:
            case None, QueueRow() as row:
                self._by(call, move, "insert_jobs")
                hold(row.attempt == row.failures == row.crashes == 0, "S3", f"job {move.job_id} is not new: {row}")
            case QueueRow() as old, QueueRow() as row:
                self._judge_requeue(call, move, old, row)
            case QueueRow() as old, RunningRow() as row:
                self._judge_claim(call, story, old, row)
            case RunningRow() as old, RunningRow() as row:
                self._judge_change_while_running(call, story, old, row)
            case RunningRow() as old, QueueRow() as row:
                self._judge_end_of_attempt(call, story, old, "queued", row.failures, row.crashes)
                self._judge_again(call, story, old, row)
            case RunningRow() as old, FinishedRow() as row:
                self._judge_end_of_attempt(call, story, old, row.state, row.failures, row.crashes)
                self._judge_end(call, story, old, row)
            case QueueRow() as old, FinishedRow() as row:
                self._judge_unstarted(call, story, old, row)
            case FinishedRow() as old, QueueRow() as row:
                self._judge_retry(call, story, old, row)
            case FinishedRow() as old, FinishedRow() as row:
                self._by(call, move, "discard_jobs", invariant="S7")
                hold(old._replace(discarded_at=row.discarded_at) == row, "S7", f"an ended job changed: {old} {row}")
            case FinishedRow(), None:
                self._by(call, move, "prune", invariant="S7")
                story.pruned = True
            case _:
                raise Broken("S1", f"{call.verb} moved job {move.job_id} from {move.before} to {move.after}")

    def _by(self, call: Call, move: Move, *verbs: str, invariant: str = "S1") -> None:
        hold(call.verb in verbs, invariant, f"{call.verb} moved job {move.job_id} from {move.before} to {move.after}")

    def _judge_requeue(self, call: Call, move: Move, old: QueueRow, row: QueueRow) -> None:
        self._by(call, move, "insert_jobs", "retry_jobs")
        same = (old.attempt, old.failures, old.crashes) == (row.attempt, row.failures, row.crashes)
        hold(same, "S3", f"a waiting job lost its count: {old} {row}")
        if call.verb == "insert_jobs":
            self.world.trace.count("replaced")
            asked = [job for job in call.arg("jobs") if job.replace and job.key == self.mirror.jobs[row.job_id].key]
            hold(asked, "S1", f"nobody asked to replace job {row.job_id}")

    def _judge_claim(self, call: Call, story: Story, old: QueueRow, row: RunningRow) -> None:
        self._by(call, Move(row.job_id, old, row), "claim_jobs")
        what = f"attempt {row.attempt} of job {row.job_id}"
        hold(row.attempt == story.attempt + 1, "S3", f"{what} follows attempt {story.attempt}")
        hold((row.job_id, row.attempt) not in self.claims, "S3", f"{what} was claimed before")
        hold(not story.open, "S4", f"{what} was claimed while attempt {story.attempt} is open")
        hold(not story.cancelled, "S19", f"{what} was claimed after the job was cancelled")
        hold(row.run_at <= call.now + _AHEAD_US, "S14", f"{what} was claimed {(row.run_at - call.now) / 1e6:g} s early")
        hold(row.expires_at is None or row.expires_at > call.now, "S14", f"{what} was claimed after its deadline")
        hold(row.claimed_at == call.now, "S26", f"{what} was not claimed at the store's time")
        worker = self.mirror.workers.get(row.worker)
        hold(worker is not None and worker.lease_until > call.now, "S4", f"{what} went to a worker without a lease")
        hold(row.worker == call.arg("worker"), "S4", f"{what} went to another worker than asked")
        story.attempt, story.open = row.attempt, True
        policy = decode_policy(self.mirror.jobs[row.job_id].policy)
        self.claims[row.job_id, row.attempt] = Claim(self.world.now_us, row.worker, policy)
        self.world.trace.count("claims")

    def _judge_change_while_running(self, call: Call, story: Story, old: RunningRow, row: RunningRow) -> None:
        changed = row._replace(cancel_at=old.cancel_at, progress=old.progress)
        hold(changed == old, "S6", f"a running job was changed: {old} {row}")
        if row.progress != old.progress:
            told = [one.attempt for one in call.arg("progress") if one.job_id == row.job_id]
            hold(row.attempt in told, "S6", f"progress of attempts {told} of job {row.job_id} was taken as {row}")
        if row.cancel_at != old.cancel_at:
            hold(call.verb == "cancel_jobs" and row.cancel_at == call.now, "S19", f"{call.verb} changed {old} to {row}")
            story.cancelled = True
            self.world.trace.count("cancelled while running")

    def _judge_end_of_attempt(
        self, call: Call, story: Story, old: RunningRow, state: str, failures: int, crashes: int
    ) -> None:
        """An attempt is closed: once, by its own or by the reaper, and counted for what it was."""
        key = (old.job_id, old.attempt)
        what = f"attempt {old.attempt} of job {old.job_id}"
        hold(call.verb in {"finish_attempts", "reclaim_attempts"}, "S5", f"{call.verb} closed {what}")
        asked = [one for one in call.arg("endings") if one.job_id == old.job_id]
        named = [one.attempt for one in asked]
        hold(old.attempt in named, "S6", f"{call.verb} named attempts {named}, and closed {what}")
        hold(key not in self.closed, "S5", f"{what} was closed before, as {self.closed.get(key)}")
        hold(story.open and story.attempt == old.attempt, "S3", f"{what} was closed, but {story.attempt} was claimed")
        ended_as = self._ended_as(key)
        self.closed[key] = ended_as
        story.open = False
        if call.verb == "reclaim_attempts":
            self._judge_reclaim(call, old)
        if ended_as in _CHARGED:
            story.failures += 1
        story.crashes = crashes
        retries = self.claims[key].policy.retry.retries
        again = state == "queued" and ended_as in _CHARGED
        hold(state != "queued" or failures == story.failures, "S21", f"{what}: {failures} failures are counted, {story.failures} happened")
        hold(not again or story.failures <= retries, "S21", f"{what} is retried after {failures} failures")
        crashed = ended_as == "lost" or state == "cancelled"  # which hides how it ended
        hold(crashes - old.crashes <= crashed, "S21", f"{what}: crashes {old.crashes} to {crashes}")
        hold(state != "queued" or crashes < CRASH_BUDGET, "S21", f"{what} is retried after {crashes} crashes")
        hold(old.cancel_at is None or state == "cancelled", "S19", f"{what} was cancelled, and its job is now {state}")
        if call.verb == "finish_attempts":
            self._judge_truth(call, key, ended_as)

    def _ended_as(self, key: Key) -> str:
        row = self.mirror.attempts.get(key)
        if row is not None:
            return row.state
        ended = self.mirror.finished.get(key[0])
        hold(ended is not None and ended.attempt == key[1], "S3", f"attempt {key[1]} of job {key[0]} left no record")
        return "" if ended is None else str(ended.attempt_state)

    def _judge_reclaim(self, call: Call, old: RunningRow) -> None:
        """The reaper takes only what nobody holds any more."""
        worker = self.mirror.workers[old.worker]
        what = f"attempt {old.attempt} of job {old.job_id}"
        hold(worker.lease_until < call.now, "S4", f"{what} was reclaimed while its lease was good")
        claimed = self.claims[old.job_id, old.attempt]
        owner = self.identities[old.worker]
        since = max(claimed.at_us, self.world.now_us - 2 * int(self.world.config.lease_s * 1e6))
        well = not owner.dead and owner.lease.worker == old.worker and owner.well_since(since)
        hold(not well, "WELL", f"{what} was reclaimed from {owner.name}, which is well")
        self.world.trace.count("reclaimed")

    def _judge_truth(self, call: Call, key: Key, ended_as: str) -> None:
        """What is recorded of an attempt is what its own handler came to."""
        handler = self.handlers.get(key)
        what = f"attempt {key[1]} of job {key[0]}"
        match ended_as:
            case "succeeded":
                hold(handler is not None and handler.returned is not None, "OWN", f"{what} did not succeed")
            case "failed":
                own = handler is not None and handler.end is not None and handler.end.kind == "failed"
                hold(own, "OWN", f"{what} did not fail")
            case "timed_out":
                limit = self.claims[key].policy.timeout
                ran = 0.0 if handler is None else handler.process.clock.monotonic() - handler.began
                hold(limit is not None and ran >= limit.total_seconds() - 1e-5, "OWN", f"{what} timed out after {ran}")
            case "lost":
                hold(handler is None or handler.gone, "OWN", f"{what} was recorded as crashed, and still runs")
            case _:
                pass
        if handler is not None and handler.end is not None:
            stored = sum((*key, seq) in self.mirror.logs for seq in range(handler.wrote))
            hold(stored == handler.wrote, "LOG", f"{what} wrote {handler.wrote} chunks, and {stored} are stored")

    def _judge_again(self, call: Call, story: Story, old: RunningRow, row: QueueRow) -> None:
        """S22: a failed job comes back inside the jitter of its policy, or when its handler said."""
        key = (old.job_id, old.attempt)
        hold(row.attempt == old.attempt, "S3", f"job {row.job_id} was given back attempt {old.attempt}: {row}")
        hold(row.priority == old.priority and row.queue == old.queue, "S13", f"{old} came back as {row}")
        if self.closed[key] not in _CHARGED:
            return
        policy, handler = self.claims[key].policy.retry, self.handlers.get(key)
        wait_s = (row.run_at - call.now) / 1e6
        asked = None if handler is None or handler.end is None else handler.end.after_s
        if asked is not None and self.closed[key] == "failed":
            hold(abs(wait_s - asked) < 1e-5, "S22", f"job {row.job_id} asked for {asked} s and waits {wait_s} s")
            return
        most = min(policy.base.total_seconds() * policy.factor ** (story.failures - 1), policy.cap.total_seconds())
        inside = most * (1 - policy.jitter) - 1e-5 <= wait_s <= most + 1e-5
        hold(inside, "S22", f"job {row.job_id} waits {wait_s} s after failure {story.failures}; at most {most} s")

    def _judge_end(self, call: Call, story: Story, old: RunningRow, row: FinishedRow) -> None:
        hold(row.attempt == old.attempt, "S3", f"job {row.job_id} ended at attempt {row.attempt}, not {old.attempt}")
        hold(row.ended_at == call.now, "S26", f"job {row.job_id} ended at another time than the store's")
        if row.state == JobState.SUCCEEDED:
            handler = self.handlers.get((row.job_id, row.attempt))
            result = None if handler is None or handler.returned is None else handler.returned.decode()
            hold(row.result == result, "OWN", f"job {row.job_id} has the result {row.result}, not {result}")

    def _judge_unstarted(self, call: Call, story: Story, old: QueueRow, row: FinishedRow) -> None:
        self._by(call, Move(row.job_id, old, row), "cancel_jobs", "expire_jobs", invariant="S6")
        if call.verb == "expire_jobs":
            due = old.expires_at is not None and old.expires_at <= call.now
            hold(due and row.state == "expired", "S14", f"a job expired before its deadline: {old} {row}")
            self.world.trace.count("expired")
        else:
            hold(row.state == "cancelled", "S19", f"a cancelled job is {row.state}")
            story.cancelled = True
        counts = (row.attempt, row.failures, row.crashes)
        hold(counts == (old.attempt, old.failures, old.crashes), "S3", f"an ended job lost its counts: {old} {row}")

    def _judge_retry(self, call: Call, story: Story, old: FinishedRow, row: QueueRow) -> None:
        self._by(call, Move(row.job_id, old, row), "retry_jobs", invariant="S7")
        hold(old.state != "succeeded", "S7", f"job {row.job_id} had succeeded, and runs again")
        hold(row.attempt == old.attempt, "S3", f"a retry gave attempt {old.attempt} back: {row}")
        hold(row.failures == row.crashes == 0, "S21", f"a retry kept old failures: {row}")
        story.generation += 1
        story.failures = story.crashes = 0
        story.cancelled = False
        self.world.trace.count("retried by hand")

    # -- keys

    def _follow_keys(self, move: Move) -> None:
        job = self.mirror.jobs.get(move.job_id)
        if job is None or job.key is None:
            return
        holders = self.live_keys.setdefault(job.key, [])
        alive = isinstance(move.after, QueueRow | RunningRow)
        if alive and move.job_id not in holders:
            holders.append(move.job_id)
        elif not alive and move.job_id in holders:
            holders.remove(move.job_id)

    def _judge_keys(self, call: Call, moves: Sequence[Move], before: dict[str, KeyRow]) -> None:
        """S9: one live job a key, and the table of keys says which."""
        touched = {job.key: None for move in moves if (job := self.mirror.jobs.get(move.job_id)) and job.key}
        touched |= {(one.new or one.old).key: None for one in call.changes if one.table == "tickwork_keys"}
        for key in touched:
            live = self.live_keys.get(key, [])
            hold(len(live) <= 1, "S9", f"key {key} is held by {live} at once")
            row = self.mirror.keys.get(key)
            if live:
                hold(row is not None and row[1:] == (live[0], None), "KEY", f"key {key} is held by {live[0]}, not {row}")
            else:
                hold(row is None or row.until is not None, "KEY", f"key {key} is taken by a job that ended: {row}")
        for move in moves:
            self._judge_window(call, move, before)

    def _judge_window(self, call: Call, move: Move, before: dict[str, KeyRow]) -> None:
        """A key that stays taken for a while after its job's end is given to nobody else in that time."""
        comes = isinstance(move.after, QueueRow) and not isinstance(move.before, QueueRow | RunningRow)
        job = self.mirror.jobs.get(move.job_id)
        if comes and job is not None and job.key in before:
            row = before[job.key]
            free = row.job_id == move.job_id or (row.until is not None and row.until <= call.now)
            hold(free, "S9", f"job {move.job_id} took key {job.key} while it was {row}")

    # -- answers

    def _judge_answer(self, call: Call, moves: Sequence[Move]) -> None:
        """What the caller is told is what happened."""
        match call.verb:
            case "claim_jobs":
                self._judge_claims(call, moves)
            case "finish_attempts" | "reclaim_attempts":
                self._judge_finished(call, moves)
            case "cancel_jobs":
                for job_id in call.answer:
                    hold(self.stories[job_id].cancelled, "S19", f"job {job_id} was said to be cancelled")
            case "insert_jobs":
                self._judge_inserted(call)
            case "saved_state":
                row = self.mirror.saved.get(call.arg("job_id"))
                stored = None if row is None else row.state.encode()
                hold(call.answer == stored, "S6", f"{call.answer!r} was given for the saved state {stored!r}")
            case "get_jobs":
                for job_id, view in call.answer.items():
                    state = self.state_of(job_id)
                    hold(view.state == state, "S1", f"job {job_id} is shown as {view.state}, and is {state}")
            case _:
                pass

    def _judge_claims(self, call: Call, moves: Sequence[Move]) -> None:
        """S13: nothing more urgent was left in the same queue, and no due job while there was room."""
        told = [(job.job_id, job.attempt) for job in call.answer.jobs]
        taken = [move.after for move in moves if isinstance(move.after, RunningRow)]
        hold(sorted(told) == sorted((row.job_id, row.attempt) for row in taken), "S3", f"{told} were told, {taken} taken")
        limit, queues, tasks = call.arg("limit"), call.arg("queues"), call.arg("tasks")
        hold(len(taken) <= limit, "S3", f"{len(taken)} jobs were claimed, {limit} were asked for")
        if not taken and limit <= 0:
            return
        left = [
            row
            for row in self.mirror.queue.values()
            if row.run_at <= call.now
            and row.queue in queues
            and row.task in tasks
            and (row.expires_at is None or row.expires_at > call.now)
        ]
        hold(not left or len(taken) == limit, "L1", f"a claim had room, and left {left[:1]}")
        for row in taken:
            for other in left:
                passed = other.queue == row.queue and (row.run_at > call.now or other.priority < row.priority)
                hold(not passed, "S13", f"{row} was claimed before {other}")

    def _judge_finished(self, call: Call, moves: Sequence[Move]) -> None:
        moved = {move.job_id for move in moves}
        hold(set(call.answer) == moved, "S5", f"{call.verb} answered {sorted(call.answer)} and closed {sorted(moved)}")
        for one in call.arg("endings"):
            if one.job_id not in moved and call.verb == "finish_attempts":
                again = self.closed.get((one.job_id, one.attempt)) == one.transition.attempt
                self.world.trace.count("repeated finish refused" if again else "stale finish refused")

    def _judge_inserted(self, call: Call) -> None:
        for asked, given in zip(call.arg("jobs"), call.answer, strict=True):
            story = self.stories.get(given)
            hold(story is not None, "S1", f"job {asked.id} is said to be {given}, which does not exist")
            if asked.id != given:
                hold(asked.key is not None, "S1", f"job {asked.id} without a key became {given}")
                self.world.trace.count("key conflicts")

    def acknowledged(self, ids: Sequence[str]) -> None:
        """A client was told that these jobs are stored."""
        for job_id in ids:
            self.stories[job_id].acknowledged = True
            self._still_there(job_id)

    def _still_there(self, job_id: str) -> None:
        there = self.mirror.standing(job_id) is not None or self.stories[job_id].pruned
        hold(there, "S1", f"job {job_id} was acknowledged, and is nowhere")

    def state_of(self, job_id: str) -> str | None:
        match self.mirror.standing(job_id):
            case QueueRow():
                return "queued"
            case RunningRow():
                return "running"
            case FinishedRow(state=state):
                return state
            case None:
                return None

    # -- handlers

    def handed_out(self, process: WorkerProcess, given: Sequence[Assignment]) -> None:
        """A worker has attempts started."""
        left_s = process.lease.until - process.clock.monotonic()
        hold(left_s > 0 or not given, "R10", f"{process.name} starts {len(given)} attempts {-left_s:g} s after its lease")

    def handler_began(self, process: WorkerProcess, given: Assignment, began: float) -> None:
        """S14: not early; S4: alone, unless an older one's process was not well."""
        key = (given.job_id, given.attempt)
        what = f"attempt {given.attempt} of job {given.job_id}"
        hold(key in self.claims and key not in self.handlers, "S3", f"{what} was begun twice, or was not claimed")
        early_us = given.run_at_us - self.store_now()
        hold(early_us <= _AHEAD_US * 2 * DRIFT, "S14", f"{what} began {early_us / 1e6:g} s early")
        for number in range(1, given.attempt):
            other = self.handlers.get((given.job_id, number))
            if other is not None and not other.gone and other.end is None:
                claimed_at = self.claims[given.job_id, number].at_us
                well = other.process.well_since(claimed_at)
                hold(not well, "S4", f"{what} began while attempt {number} runs in {other.process.name}, which is well")
                self.world.trace.count("fenced handler ran on")
        self.handlers[key] = Handler(process, began)
        self.world.trace.add(self.world.now_us, process.name, "began", *key)

    def handler_wrote(self, key: Key) -> None:
        handler = self.handlers[key]
        handler.wrote += not handler.stuck

    def handler_stuck(self, key: Key) -> None:
        """It was told to end, and does not: what it does from here on is not asked for."""
        self.handlers[key].stuck = True
        self.world.trace.count("stuck handler")

    def handler_returned(self, key: Key, result: bytes) -> None:
        self.handlers[key].returned = result

    def handler_ended(self, key: Key, end: End) -> None:
        handler = self.handlers.get(key)
        if handler is not None:
            handler.end = end
            handler.returned = end.result or handler.returned
        self.world.trace.add(self.world.now_us, "", end.kind, *key)

    def handler_gone(self, key: Key) -> None:
        """Its process died under it."""
        handler = self.handlers.get(key)
        if handler is not None:
            handler.gone = True

    # -- at the end

    def finally_check(self) -> None:
        """S25 and what only a look at everything can show."""
        ((verdict,),) = self.world.raw.execute("PRAGMA integrity_check").fetchall()
        hold(verdict == "ok", "S25", str(verdict))
        self.mirror.compare(self.world.raw)
        for job_id, story in self.stories.items():
            if story.acknowledged:
                self._still_there(job_id)
        self._judge_records()

    def _judge_records(self) -> None:
        """S3: the attempts of a job are recorded without a gap."""
        recorded: dict[str, list[int]] = {}
        for job_id, number in self.mirror.attempts:
            recorded.setdefault(job_id, []).append(number)
        for job_id, row in self.mirror.finished.items():
            last = [row.attempt] if row.attempt_state is not None else []
            numbers, wanted = sorted(recorded.get(job_id, [])) + last, list(range(1, row.attempt + 1))
            hold(numbers == wanted, "S3", f"job {job_id} has the attempts {numbers}, not {wanted}")
