"""Check that the answers of store verbs match their effects, and that claims take the most urgent jobs (S13)."""

from __future__ import annotations

from collections.abc import Sequence

from sim.account import Account, Call
from sim.mirror import Move, QueueRow, RunningRow
from sim.trace import hold
from tickwork.core.fairness import aged_before_us


class Answers:
    """Checks the answers of store verbs."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._mirror = account.mirror
        self._count = account.world.trace.count

    def plan_round(self, call: Call, moves: Sequence[Move]) -> None:
        """Check the answer of a call against the jobs that it moved. Raises Broken."""
        match call.verb:
            case "claim_jobs":
                self._claims(call, moves)
            case "finish_attempts" | "reclaim_attempts":
                self._finished(call, moves)
            case "cancel_jobs":
                self._cancelled(call)
            case "insert_jobs":
                self._inserted(call)
            case "save_state":
                current = self._is_held(call.arg("job_id"), call.arg("claim"))
                hold(call.answer == current, "S6", f"a state was answered with {call.answer}; current: {current}")
            case "saved_state":
                row = self._mirror.saved.get(call.arg("job_id"))
                stored = None if row is None else row.state.encode()
                hold(call.answer == stored, "S6", f"{call.answer!r} was given for the saved state {stored!r}")
            case "get_jobs":
                for job_id, view in call.answer.items():
                    state = self._account.state_of(job_id)
                    hold(view.state == state, "S1", f"job {job_id} is shown as {view.state}, and is {state}")
            case _:
                pass

    def _is_held(self, job_id: str, claim: int) -> bool:
        current = self._account.current(job_id)
        return current is not None and current.claim == claim

    def _claims(self, call: Call, moves: Sequence[Move]) -> None:
        """Check a claim.

        S13: it left no more urgent job in the same queue, except to prefer jobs that aged. L1: it left no due job
        while it had free capacity.
        """
        told = sorted((job.job_id, job.attempt) for job in call.answer.jobs)
        taken = [move.after for move in moves if isinstance(move.after, RunningRow)]
        limit = call.arg("limit")
        hold(told == sorted((row.job_id, row.attempt) for row in taken), "S3", f"{told} were told, {taken} were taken")
        hold(len(taken) <= limit, "S3", f"{len(taken)} jobs were claimed, {limit} were asked for")
        left = self._left_behind(call)
        hold(not left or len(taken) >= self._wanted(call), "L1", f"a claim had room, and left {left[:1]}")
        for row in taken:
            for other in left:
                urgent = other.priority < row.priority and row.run_at > aged_before_us(call.now)
                passed = other.queue == row.queue and (row.run_at > call.now or urgent)
                hold(not passed, "S13", f"{row} was claimed before {other}")

    def _wanted(self, call: Call) -> int:
        """Return how many jobs a claim must take if enough are due: its limit, or with sequences, its free slots."""
        limit, capacity = call.arg("limit"), call.arg("capacity")
        return min(limit, capacity.slots) if self._account.world.lines and capacity is not None else limit

    def _left_behind(self, call: Call) -> list[QueueRow]:
        """Return the due jobs that the claim could have taken and did not."""
        queues, tasks = call.arg("queues"), call.arg("tasks")
        return [
            row
            for row in self._mirror.queue.values()
            if row.run_at <= call.now
            and row.queue in queues
            and row.task in tasks
            and (row.expires_at is None or row.expires_at > call.now)
        ]

    def _finished(self, call: Call, moves: Sequence[Move]) -> None:
        """Check that exactly the ends of superseded attempts were refused; a late end of a current one is accepted."""
        moved = {move.job_id for move in moves}
        hold(set(call.answer) == moved, "S5", f"{call.verb} answered {sorted(call.answer)} and closed {sorted(moved)}")
        refused = [one for one in call.arg("endings") if one.job_id not in moved]
        if call.verb == "reclaim_attempts":
            self._count("reclaim refused", len(refused))
            renewed = [one for one in refused if self._is_held(one.job_id, one.claim)]
            self._count("reclaim refused after a renewal", len(renewed))
            return
        for one in refused:
            current = self._is_held(one.job_id, one.claim)
            hold(not current, "S5", f"the end of attempt {one.attempt} of job {one.job_id} was refused")
            own = self._account.closed.get((one.job_id, one.attempt)) == one.transition.attempt
            self._count("repeated finish refused" if own else "stale finish refused")

    def _cancelled(self, call: Call) -> None:
        """Check that no cancelled job is queued, or runs without a cancel request."""
        for job_id in call.arg("ids"):
            row = self._mirror.running.get(job_id)
            lives = job_id in self._mirror.queue or (row is not None and row.cancel_at is None)
            hold(not lives, "S19", f"job {job_id} goes on as if nobody had cancelled it")
        for job_id in call.answer:
            hold(self._account.stories[job_id].cancelled, "S19", f"job {job_id} was said to be cancelled")

    def _inserted(self, call: Call) -> None:
        for asked, given in zip(call.arg("jobs"), call.answer, strict=True):
            hold(given in self._account.stories, "S1", f"job {asked.id} is said to be {given}, which does not exist")
            if asked.id != given:
                hold(asked.key is not None, "S1", f"job {asked.id} without a key became {given}")
                self._count("key conflicts")
