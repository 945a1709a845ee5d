"""Compare the actual behaviour of handlers with the stored data (OWN, LOG), and check their times (S14, S4, R10)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sim.account import Account, Call, Handler, HeldBy, Key
from sim.config import DRIFT
from sim.mirror import Move, RunningRow
from sim.moves import AHEAD_US, succeeded
from sim.trace import hold
from tickwork.worker.ipc.protocol import Assignment, AttemptEnd

if TYPE_CHECKING:
    from sim.processes import WorkerProcess

_NEAR_S = 1e-5
_LATE_S = 0.02
_OWN_ENDS = frozenset(["failed", "timed_out", "cancelled"])


class Truth:
    """Records the actions of handlers, as simulated children report them, and compares them with the store."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._handlers = account.handlers
        self._world = account.world

    # -- reports of simulated children

    def handed_out(self, process: WorkerProcess, given: Sequence[Assignment]) -> None:
        """R10: check that a worker starts no attempts after the end of its lease, on its own clock."""
        left_s = process.lease.until - process.clock.monotonic()
        hold(
            left_s > 0 or not given, "R10", f"{process.name} starts {len(given)} attempts {-left_s:g} s after its lease"
        )

    def goes_on(self, process: WorkerProcess) -> None:
        """R10: check that a worker has told its handlers to stop by the end of its lease, even if the store is down."""
        lease, now = process.lease, process.clock.monotonic()
        # The simulator compares memory with rows; a worker has no public view of it.
        held = process.worker._held
        heedless = [one.job.job_id for one in held if not one.cancelled and not held.starts(one)]
        over_s = now - lease.until
        late = heedless and over_s > _LATE_S and not lease.lost
        hold(not late, "R10", f"{process.name} goes on with {heedless} {over_s:g} s after its lease")

    def is_fenced(self, process: WorkerProcess) -> None:
        """R10: check that no handler outlives the lease, even while the store blocks the worker's main thread."""
        lease, now = process.lease, process.clock.monotonic()
        if lease.worker is None or now - lease.until <= _LATE_S:
            return
        running = [key for key, one in self._handlers.items() if one.process is process and one.runs]
        hold(not running, "R10", f"{process.name} runs {running} {now - lease.until:g} s after its lease")

    def began(self, process: WorkerProcess, given: Assignment, began: float) -> None:
        """Check and record the start of a handler.

        S14: it does not start early. S4: no older attempt runs, unless a fault has affected the older one's process.
        """
        key, held = (given.job_id, given.attempt), (given.job_id, given.claim)
        what, lossy = _attempt(key), self._world.is_lossy
        right = key in self._account.claims and held not in self._handlers
        hold(right or lossy, "S3", f"{what} begins, and should not")
        early_us = given.run_at_us - self._account.store_now()
        hold(early_us <= AHEAD_US * 2 * DRIFT, "S14", f"{what} began {early_us / 1e6:g} s early")
        own = process.worker._held.attempt(*held) is not None
        hold(own, "OWN", f"{what} began in {process.name}, which does not hold it any more")
        for other, older in self._handlers.items():
            if other[0] == given.job_id and older.number < given.attempt and older.runs:
                self._judge_older(what, (given.job_id, older.number), older)
        self._judge_company(process, given, what)
        story = self._account.stories.get(given.job_id)
        generation = 0 if story is None else story.generation
        self._judge_once(key, what, generation)
        self._handlers[held] = Handler(process, given.attempt, began, self._is_exclusive(given), generation)
        self._world.trace.add(self._world.now_us, process.name, "began", *key)

    def _is_exclusive(self, given: Assignment) -> bool:
        row = self._account.mirror.running.get(given.job_id)
        return row is not None and row.claim == given.claim and bool(row.begun)

    def _judge_company(self, process: WorkerProcess, given: Assignment, what: str) -> None:
        """S21: check that no other handler runs in a worker while a job runs there that must run alone."""
        beside = [one for one in self._handlers.values() if one.process is process and one.runs and not one.stuck]
        alone = self._is_exclusive(given) or any(one.exclusive for one in beside)
        hold(not (alone and beside), "S21", f"{what} began in {process.name} beside {len(beside)} others")
        row, claim = (
            self._account.mirror.running.get(given.job_id),
            self._account.claims.get((given.job_id, given.attempt)),
        )
        if row is not None and row.claim == given.claim and claim is not None and claim.policy.max_lost is not None:
            unmarked = row.losses >= claim.policy.max_lost and not row.begun
            lossy = self._world.is_lossy  # a restore may have undone the commit of the start
            hold(lossy or not unmarked, "S21", f"{what} began, and it is not stored that it runs alone")

    def _judge_once(self, key: Key, what: str, generation: int) -> None:
        """ONCE: with on_lost="fail", a handler that began runs again only after an end of its own or a manual retry.

        Both attempts must have this policy: a queued job may be replaced by one with another policy.
        """
        if self._world.is_lossy:
            return
        for (job_id, _), older in self._handlers.items():
            if job_id != key[0] or older.number >= key[1] or older.generation != generation:
                continue
            claims = [self._account.claims.get((job_id, number)) for number in (key[1], older.number)]
            if any(claim is None or claim.policy.on_lost != "fail" for claim in claims):
                continue
            recorded = self._account.closed.get((job_id, older.number))
            own = recorded in _OWN_ENDS or (older.end is not None and older.end.kind == "snoozed")
            hold(own, "ONCE", f"{what} began, and attempt {older.number} had, too: {older}")

    def _judge_older(self, what: str, key: Key, older: Handler) -> None:
        claim = self._account.claims.get(key)
        if claim is not None:  # None: the store has lost it
            well = older.process.well_since(claim.at_us - self._account.healing_us)
            hold(not well, "S4", f"{what} began while {_attempt(key)} runs in {older.process.name}, which is well")
            self._world.trace.count("fenced handler ran on")

    def wrote(self, held: HeldBy) -> None:
        handler = self._handlers[held]
        handler.wrote += not handler.stuck

    def stuck(self, held: HeldBy) -> None:
        self._handlers[held].stuck = True
        self._world.trace.count("stuck handler")

    def returned(self, held: HeldBy, result: bytes) -> None:
        self._handlers[held].returned = result

    def ended(self, held: HeldBy, end: AttemptEnd) -> None:
        handler = self._handlers.get(held)
        if handler is not None:
            handler.end = end
            handler.returned = end.result or handler.returned
        self._world.trace.add(self._world.now_us, "", end.kind, *held)

    def gone(self, held: HeldBy) -> None:
        handler = self._handlers.get(held)
        if handler is not None:
            handler.gone = True

    # -- comparison with the store

    def plan_round(self, call: Call, moves: Sequence[Move]) -> None:
        """OWN, LOG: check that the recorded end, logs and result of an attempt are those of its own handler."""
        for move in moves:
            if isinstance(move.before, RunningRow) and not isinstance(move.after, RunningRow):
                key = (move.job_id, move.before.attempt)
                handler = self._handlers.get((move.job_id, move.before.claim))
                if call.verb == "finish_attempts":
                    self._judge_end(key, handler, self._account.closed[key])
                    self._judge_logs(key, handler)
                if succeeded(move.after):
                    self._judge_result(key, handler)

    def _judge_end(self, key: Key, handler: Handler | None, ended_as: str) -> None:
        what = _attempt(key)
        match ended_as:
            case "succeeded":
                hold(handler is not None and handler.returned is not None, "OWN", f"{what} did not succeed")
            case "failed":
                own = handler is not None and handler.end is not None and handler.end.kind == "failed"
                hold(own, "OWN", f"{what} did not fail")
            case "timed_out":
                limit = self._account.claims[key].policy.timeout
                ran = 0.0 if handler is None else handler.process.clock.monotonic() - handler.began
                late = limit is not None and ran >= limit.total_seconds() - _NEAR_S
                hold(late, "OWN", f"{what} timed out after {ran:g} s")
            case "lost":
                hold(handler is None or not handler.runs, "OWN", f"{what} was recorded as lost, and still runs")
            case _:
                pass

    def _judge_logs(self, key: Key, handler: Handler | None) -> None:
        logs = self._account.mirror.logs
        if handler is not None and handler.end is not None and not handler.unlogged:
            stored = sum((*key, seq) in logs for seq in range(handler.wrote))
            hold(stored == handler.wrote, "LOG", f"{_attempt(key)} wrote {handler.wrote} chunks; {stored} are stored")

    def _judge_result(self, key: Key, handler: Handler | None) -> None:
        own = None if handler is None or handler.returned is None else handler.returned.decode()
        stored = self._account.mirror.finished[key[0]].result
        hold(stored == own, "OWN", f"{_attempt(key)} has the result {stored}, not {own}")


def _attempt(key: Key) -> str:
    return f"attempt {key[1]} of job {key[0]}"
