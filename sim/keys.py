"""Check idempotency keys (S9): one live job per key, and optionally for a time after its end, as the table records."""

from __future__ import annotations

from collections.abc import Sequence

from sim.account import Account, Call
from sim.mirror import KeyRow, Move, QueueRow, RunningRow
from sim.trace import hold


class Keys:
    """Tracks which live job holds each idempotency key, and checks the table of keys."""

    def __init__(self, account: Account) -> None:
        self._mirror = account.mirror
        self._holders = account.holders

    def plan_round(self, call: Call, moves: Sequence[Move], before: dict[str, KeyRow]) -> None:
        """Check the keys after a call. `before` is the table of keys before the call, if the call changed it."""
        for move in moves:
            self._follow(move)
            self._judge_window(call, move, before)
        touched = [job.key for move in moves if (job := self._mirror.jobs.get(move.job_id)) is not None and job.key]
        touched += [one.row.key for one in call.changes if one.table == "tickwork_keys"]
        for key in dict.fromkeys(touched):
            self._judge_key(key)

    def _follow(self, move: Move) -> None:
        job = self._mirror.jobs.get(move.job_id)
        if job is None or job.key is None:
            return
        holders = self._holders.setdefault(job.key, [])
        lives = isinstance(move.after, QueueRow | RunningRow)
        if lives and move.job_id not in holders:
            holders.append(move.job_id)
        elif not lives and move.job_id in holders:
            holders.remove(move.job_id)

    def _judge_key(self, key: str) -> None:
        holders, row = self._holders.get(key, []), self._mirror.keys.get(key)
        hold(len(holders) <= 1, "S9", f"key {key} is held by {holders} at once")
        if holders:
            noted = row is not None and row.job_id == holders[0] and row.until is None
            hold(noted, "KEY", f"key {key} is held by {holders[0]}, not by {row}")
        else:
            hold(row is None or row.until is not None, "KEY", f"key {key} is taken by a job that ended: {row}")

    def _judge_window(self, call: Call, move: Move, before: dict[str, KeyRow]) -> None:
        """Check that a key that is reserved for a time after its job's end is not given to another job in that time."""
        comes = isinstance(move.after, QueueRow) and not isinstance(move.before, QueueRow | RunningRow)
        job = self._mirror.jobs.get(move.job_id)
        if comes and job is not None and job.key in before:
            row = before[job.key]
            free = row.job_id == move.job_id or (row.until is not None and row.until <= call.now)
            hold(free, "S9", f"job {move.job_id} took key {job.key} while it was {row}")
