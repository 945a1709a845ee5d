"""Check the simulator's invariants after every store call, with its changes, and at every step of a handler.

It shares no code with the store. The names of the invariants are those of RELIABILITY.md 3a, and:

    ERR   a loop raises only errors that the simulator injected
    SQL   SQLite accepts all statements of the product
    KEY   the table of idempotency keys agrees with the live jobs
    OWN   the recorded end of an attempt is the end that its own handler reached
    LOG   the logs of a handler are stored no later than its end
    R10   a worker starts no handler after its lease, on its own clock (rule 10)
    WELL  no attempt is reclaimed from a worker without faults
    SEQ   a sequence keeps its order (see lines.py)
    TICK  each occurrence of a schedule fires once, not early, and is not forgotten (see ticks.py)
    ONCE  a handler with on_lost="fail" that began is not started again, whatever ended its attempt
    SIM   the simulator itself has an error
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sim.account import Account, Call
from sim.answers import Answers
from sim.keys import Keys
from sim.mirror import AttemptRow, Change, JobRow, LedgerRow, LogRow, Move, SavedRow, WorkerRow, jobs_in
from sim.moves import Moves
from sim.trace import hold
from sim.truth import Truth
from tickwork.store.rows.instants import duration_us

if TYPE_CHECKING:
    from sim.world import World


class Judge:
    """Checks all invariants after every store call and at every step of a handler. Raises Broken if one is violated."""

    def __init__(self, world: World) -> None:
        self.account = Account(world)
        self.truth = Truth(self.account)
        self.moved_at_us = 0
        self._world = world
        self._mirror = self.account.mirror
        self._moves = Moves(self.account)
        self._keys = Keys(self.account)
        self._answers = Answers(self.account)
        self._latest = 0

    def observe(self, call: Call) -> list[Move]:
        """Check a committed store call; return the jobs that it moved."""
        self._judge_clock(call)
        self._world.ticks.plan_round(call)
        before = {job_id: self._mirror.standing(job_id) for job_id in jobs_in(call.changes)}
        keys = dict(self._mirror.keys) if any(one.table == "tickwork_keys" for one in call.changes) else {}
        for change in call.changes:
            self._judge_change(call, change)
            self._mirror.apply(change)
        moves = [Move(job_id, stood, self._mirror.standing(job_id)) for job_id, stood in before.items()]
        for move in moves:
            self._moves.plan_round(call, move)
        self._world.lines.plan_round(call, moves)
        self._keys.plan_round(call, moves, keys)
        self._truth_and_answers(call, moves)
        return moves

    def _truth_and_answers(self, call: Call, moves: list[Move]) -> None:
        self.truth.plan_round(call, moves)
        self._answers.plan_round(call, moves)
        if moves:
            self.moved_at_us = self._world.now_us

    def _judge_clock(self, call: Call) -> None:
        """S26: the store's time never goes back, whatever the host's clock does."""
        if call.changes:
            hold(
                call.now >= self._latest or self._world.is_lossy,
                "S26",
                f"the store's clock went back by {self._latest - call.now} us",
            )
            self._latest = call.now

    # -- rows as they are written

    def _judge_change(self, call: Call, change: Change) -> None:
        match change.new:
            case LogRow(job_id, attempt):
                self._is_current(job_id, attempt, "a log")
            case SavedRow(job_id):
                hold(call.verb == "save_state", "S6", f"{call.verb} saved a state of job {job_id}")
                self._holds(job_id, call.arg("claim"))
            case LedgerRow(job_id, attempt):
                self._is_current(job_id, attempt, "a transaction")
            case AttemptRow() as row:
                self._judge_attempt_row(call, change, row)
            case WorkerRow() as row:
                self._judge_lease(call, change, row)
            case JobRow(id=job_id) if change.old is None:
                made = call.verb in {"insert_jobs", "move_schedules"}
                hold(made, "S2", f"job {job_id} came from {call.verb}")
                self.account.begin(job_id)
            case _:
                pass

    def _is_current(self, job_id: str, attempt: int, what: str) -> None:
        current = self.account.current(job_id)
        is_current = current is not None and current.attempt == attempt
        hold(is_current, "S6", f"{what} of attempt {attempt} of job {job_id} was taken; current is {current}")

    def _holds(self, job_id: str, claim: int) -> None:
        current = self.account.current(job_id)
        holds = current is not None and current.claim == claim
        hold(holds, "S6", f"a state that claim {claim} saved of job {job_id} was taken; current is {current}")

    def _judge_attempt_row(self, call: Call, change: Change, row: AttemptRow) -> None:
        hold(change.old is None, "S5", f"attempt {row.attempt} of job {row.job_id} was recorded twice")
        if call.verb != "retry_jobs":  # retry_jobs copies the attempt that was recorded with the job's end
            hold(row.ended_at == call.now, "S26", f"attempt {row.attempt} of job {row.job_id} ended at another time")

    def _judge_lease(self, call: Call, change: Change, row: WorkerRow) -> None:
        """Check that only a worker's own calls change its lease, and that its end follows the store's clock."""
        if call.verb == "reclaim_attempts":  # it marks silent workers as lost
            silent = change.old is not None and change.old.lease_until == row.lease_until < call.now
            hold(silent and row.state == "lost", "S4", f"the reaper changed the worker {change.old} to {row}")
            return
        owner = self.account.identities.get(row.id)
        hold(owner is call.actor, "S6", f"{call.verb} of {call.actor.name} changed the lease of {row.id}")
        if call.verb in {"register_worker", "renew_lease"}:
            off_s = (row.lease_until - call.now - duration_us(self._world.config.lease)) / 1e6
            hold(off_s == 0, "S26", f"the lease of {row.id} ends {off_s:g} s off the store's clock")

    # -- clients

    def acknowledged(self, ids: Sequence[str]) -> None:
        """Record that a client received the confirmation that these jobs are stored."""
        for job_id in ids:
            story = self.account.stories.get(job_id)
            hold(story is not None or self._world.is_lossy, "S1", f"job {job_id} was acknowledged, and is unknown")
            if story is not None:
                story.acknowledged = True
                self._still_there(job_id)

    def _still_there(self, job_id: str) -> None:
        there = self._mirror.standing(job_id) is not None or self.account.stories[job_id].pruned
        hold(there, "S1", f"job {job_id} was acknowledged, and is nowhere")

    # -- at the end

    def finally_check(self) -> None:
        """Check S25, and the invariants that need the whole final state."""
        ((verdict,),) = self._world.raw.execute("PRAGMA integrity_check").fetchall()
        hold(verdict == "ok", "S25", str(verdict))
        self._mirror.compare(self._world.raw)
        for job_id, story in self.account.stories.items():
            if story.acknowledged:
                self._still_there(job_id)
        self._world.ticks.finally_check()
        self._judge_records()

    def _judge_records(self) -> None:
        """S3: the attempts of a job are recorded without a gap. S8: a handler's own writes commit with its success."""
        recorded: dict[str, list[int]] = {}
        for job_id, number in self._mirror.attempts:
            recorded.setdefault(job_id, []).append(number)
        for job_id, row in self._mirror.finished.items():
            last = [row.attempt] if row.attempt_state is not None else []
            numbers, wanted = sorted(recorded.get(job_id, [])) + last, list(range(1, row.attempt + 1))
            hold(numbers == wanted, "S3", f"job {job_id} has the attempts {numbers}, not {wanted}")
        for key in self._mirror.ledger:
            closed = self.account.closed.get(key)
            hold(closed in {"succeeded", "cancelled"}, "S8", f"attempt {key} committed, and is recorded as {closed}")
