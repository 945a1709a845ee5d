"""A round of a limited claim on a SQLite file (see store/claim/limited.py). The SQL is in sql/limits.sql."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from tickwork.core.ids import ClaimId, JobId, WorkerId
from tickwork.core.job import (
    Claimed,
)
from tickwork.core.limits.gates import GATES, Gate
from tickwork.core.limits.job_limits import JobLimits, LimitKey, limit_key_of, limit_key_text
from tickwork.core.limits.lanes import held_prefix, home_lane, lane_range, read_lane
from tickwork.core.placement import ClaimingWorker
from tickwork.store.attempt_types import NO_CLAIM
from tickwork.store.claim import limit_state
from tickwork.store.claim.picked_row import PickedRow, claimed_job
from tickwork.store.claim.types import (
    BULK_WALK,
    OPEN_KEYS,
    Candidate,
    ClaimPlan,
    LaneHead,
    LaneScan,
    LaneScanResult,
    LimitState,
    PickRequest,
    Place,
    Snapshot,
)
from tickwork.store.limits import (
    Rule,
)
from tickwork.store.rows.jobs import encode_job_limits
from tickwork.store.rows.limits import decode_rule
from tickwork.store.rows.workers import claiming_worker
from tickwork.store.sqlite.claim.plain_claim import queue_key, running_row
from tickwork.store.sqlite.transactions import Transaction, as_json


class SqliteClaimTx:
    """A round of a limited claim, inside a transaction that all rounds of the claim share."""

    def __init__(
        self,
        transaction: Transaction,
        worker: WorkerId,
        queues: Sequence[str],
        tasks: Sequence[str],
        claim: ClaimId = NO_CLAIM,
    ) -> None:
        self._transaction = transaction
        self._claim = claim
        self.worker = worker
        self._queues = list(queues)
        self._tasks = as_json(list(tasks))
        self.claimed: list[Claimed] = []

    @property
    def now_us(self) -> int:
        return self._transaction.now

    def snapshot(self) -> Snapshot:
        """Read the snapshot of a round: first jobs of all places, gates, weights, and open limit keys."""
        transaction, now = self._transaction, self._transaction.now
        gates = transaction.column("gates_in_force", {"now": now, "queues": as_json(self._queues)})
        heads = self._plain_heads()
        for queue in self._queues:
            heads += [head.lane_head for head in _heads(transaction, f"{queue}:")]
        is_empty: dict[str, bool] = {}
        held = transaction.run("open_heads", {"now": now, "limit": OPEN_KEYS})
        for name, rule, lane, priority, run_at in held:
            is_empty[name] = lane is None and is_empty.get(name, True)
            if lane is not None and read_lane(lane).queue in self._queues:
                heads.append(LaneHead(lane, priority, run_at, decode_rule(rule)))
        empty = [limit_key_of(name) for name, holds_nothing in is_empty.items() if holds_nothing]
        weights = dict(transaction.run("weights"))
        return Snapshot(
            now_us=now,
            gates=[GATES.decode(value.encode()) for value in gates],
            weights=weights,
            heads=heads,
            empty=empty,
            opens_at_us=transaction.value("next_opening", (now,)),
        )

    def _plain_heads(self) -> list[LaneHead]:
        """Return the first job of each priority of the lanes of plain jobs."""
        heads = [_walk(self._transaction, queue, f"{queue}:") for queue in self._queues]
        return [head.lane_head for of_queue in heads for head in of_queue]

    def claiming_workers(self) -> list[ClaimingWorker]:
        return [claiming_worker(*row) for row in self._transaction.run("neighbours", (self._transaction.now,))]

    def pick(self, pick_requests: Sequence[PickRequest]) -> list[Candidate]:
        """Return due jobs in the order of the requests, at most `of_group` for each group of requests."""
        picked: list[Candidate] = []
        left = {pick_request.group: pick_request.of_group for pick_request in pick_requests}
        for pick_request in pick_requests:
            most = min(pick_request.most, left[pick_request.group])
            if most <= 0:
                continue
            now = self._transaction.now
            values = {"lane": pick_request.lane, "priority": pick_request.priority, "limit": most}
            times = {"after": pick_request.after_us, "until": now - pick_request.grace_us, "now": now}
            rows = self._transaction.run("pick_place", {**values, **times, "tasks": self._tasks})
            left[pick_request.group] -= len(rows)
            picked += [Candidate.of(PickedRow(*row)) for row in rows]
        return picked

    def next_due_us(self, places: Sequence[Place]) -> int | None:
        found = [self._transaction.value("next_in_place", (*place, self._transaction.now)) for place in places]
        return min((run_us for run_us in found if run_us is not None), default=None)

    def lane_scan(self, lane_scans: Sequence[LaneScan]) -> list[LaneScanResult]:
        return [self._lane_scan(lane_scan) for lane_scan in lane_scans]

    def _lane_scan(self, lane_scan: LaneScan) -> LaneScanResult:
        """Run one step of a scan cursor. The position is read by a second statement, unless enough jobs were picked."""
        now = self._transaction.now
        after, after_id = lane_scan.after
        values = {
            "lane": lane_scan.lane,
            "priority": lane_scan.priority,
            "after": after,
            "after_id": after_id,
            "until": lane_scan.limit_us(now),
            "walk": lane_scan.walk,
        }
        kinds = as_json([one.row.kind_text for one in lane_scan.kinds])
        rows = self._transaction.run(
            "scout", {**values, "kinds": kinds, "tasks": self._tasks, "now": now, "most": lane_scan.most}
        )
        found = [Candidate.of(PickedRow(*row)) for row in rows]
        if len(found) == lane_scan.most:
            return found, (found[-1].run_at_us, found[-1].job_id)
        return found, self._transaction.first("scouted", values)

    def lock(
        self, limit_keys: Iterable[LimitKey], picked: Mapping[LimitKey, int], gates: Mapping[LimitKey, Gate]
    ) -> dict[LimitKey, LimitState]:
        """Return the states of limit keys. The write transaction is their lock."""
        names = {limit_key_text(limit_key): limit_key for limit_key in limit_keys}
        if not names:
            return {}
        states, rules = stored_limits(self._transaction, names)
        live = dict(self._transaction.run("live_weights", (as_json(list(names)),)))
        locked_limits: dict[LimitKey, LimitState] = {}
        for name, limit_key in names.items():
            gate = gates.get(limit_key)
            rule = rules.get(limit_key.limit) if gate is None else gate.pace
            locked_limit = limit_state.read_state(rule, live.get(name, 0), states.get(name))
            if locked_limit.marker is not None and not self._transaction.run("is_waiting", locked_limit.marker):
                locked_limit = locked_limit._replace(marker=None)
            if limit_key in picked:
                locked_limit = locked_limit._replace(waiting=self._count_held(limit_key, picked[limit_key] + 1))
            if locked_limit.is_in_order:
                heads = _heads(self._transaction, held_prefix(limit_key))
                firsts = [(head.run_at_us, JobId(head.job_id)) for head in heads]
                locked_limit = locked_limit._replace(head=min(firsts, default=None))
                locked_limit = locked_limit.with_returned(self._transaction.run("returned", (name,)), self.now_us)
            locked_limits[limit_key] = locked_limit
        return locked_limits

    def _count_held(self, limit_key: LimitKey, most: int) -> int:
        """Count the jobs that a limit key holds, up to `most`."""
        lane, until = lane_range(held_prefix(limit_key))
        return int(self._transaction.value("count_held", {"lane": lane, "until": until, "limit": most}))

    def apply(self, plan: ClaimPlan) -> int:
        """Write the plan; return how many jobs were parked in bulk."""
        transaction, now = self._transaction, self._transaction.now
        moved = [one for one, _ in [*plan.starts, *plan.parks, *plan.diverts]]
        transaction.run_many("leave_queue", [queue_key(one.row) for one in moved])
        transaction.insert_many(
            "enter_running",
            [running_row(one.row, one.home, self.worker, self._claim, now) for one, _ in plan.starts],
        )
        transaction.insert_many("take_holds", _hold_rows(plan))
        transaction.insert_many("enter_queue", [_queue_row(one.row, lane) for one, lane in plan.parks])
        for one, queue in plan.diverts:
            self._divert(one, queue)
        self._put_limit_states(plan)
        for name, count in plan.passed_on.items():
            transaction.run("pass_on", {"name": name, "count": count})
        self.claimed += [
            claimed_job(
                one.row,
                queue=one.queue,
                claim=self._claim,
                now_us=now,
                job_limits=one.job_limits,
                is_probe=one.job_id in plan.probes,
            )
            for one, _ in plan.starts
        ]
        return sum(self._park_alike(one, lane) for one, lane in plan.bulk_parks)

    def _put_limit_states(self, plan: ClaimPlan) -> None:
        """Write the new states of limit keys, and when they open."""
        for limit_key, state in plan.states.items():
            named = {"name": limit_key_text(limit_key), "bound": limit_key.limit}
            self._transaction.run("put_state", {**named, "state": limit_state.encode_state(state)})
        for limit_key, open_at in {**plan.opens, **dict.fromkeys(plan.emptied)}.items():
            named = {"name": limit_key_text(limit_key), "bound": limit_key.limit}
            waits = int(limit_key not in plan.emptied)
            self._transaction.run("put_opening", {**named, "waits": waits, "open_at": open_at})

    def _park_alike(self, one: Candidate, lane: str) -> int:
        """Park the jobs of the same kind behind a job in the same lane; return how many."""
        values = {
            "place": one.lane,
            "priority": one.priority,
            "run_at": one.run_at_us,
            "job_id": one.job_id,
            "task": one.task,
            "queue": one.queue,
            "collection": one.collection,
            "labels": one.row.labels,
            "job_limits": one.row.job_limits,
            "lane": lane,
            "most": BULK_WALK,
            "now": self._transaction.now,
        }
        return len(self._transaction.run("park_alike", values))

    def _divert(self, one: Candidate, queue: str) -> None:
        """Move a job to another queue, and mark it so that no gate diverts it again."""
        job_limits = msgspec.structs.replace(one.job_limits or JobLimits(), diverted=True)
        lane = home_lane(queue, job_limits)
        values = {
            "job_id": one.job_id,
            "queue": queue,
            "lane": lane,
            "job_limits": encode_job_limits(job_limits),
        }
        self._transaction.run("divert_job", values)
        self._transaction.run("enter_queue", _queue_row(one.row, lane))


def stored_limits(
    transaction: Transaction, names: Mapping[str, LimitKey]
) -> tuple[dict[str, str], dict[str, Rule | None]]:
    """Return the stored states of limit keys by name, and the rules of their limits."""
    states = dict(transaction.run("states", (as_json(list(names)),)))
    limits = sorted({limit_key.limit for limit_key in names.values()})
    rules = {name: decode_rule(rule) for name, rule in transaction.run("rules", (as_json(limits),))}
    return states, rules


class _HeadRow(NamedTuple):
    """The row of the first job of a lane and priority."""

    lane: str
    priority: int
    run_at_us: int
    job_id: str

    @property
    def lane_head(self) -> LaneHead:
        """Return the row as limited claims use it."""
        return LaneHead(self.lane, self.priority, self.run_at_us)


def _walk(transaction: Transaction, lane: str, until: str) -> list[_HeadRow]:
    """Return the first job of each priority of each lane from `lane` to before `until`."""
    heads: list[_HeadRow] = []
    priority = -1
    while (row := transaction.first("next_head", {"lane": lane, "priority": priority, "until": until})) is not None:
        heads.append(head := _HeadRow(*row))
        lane, priority = head.lane, head.priority
    return heads


def _heads(transaction: Transaction, prefix: str) -> list[_HeadRow]:
    """Return the first job of each priority of each lane whose name begins with `prefix`."""
    return _walk(transaction, *lane_range(prefix))


def _hold_rows(plan: ClaimPlan) -> list[tuple[Any, ...]]:
    """Return the rows of `holds` (uses of limit keys) for the jobs that start."""
    return [
        (limit_key_text(key := slot.limit_key), one.job_id, one.row.attempt, slot.weight, plan.on_retry.get(key))
        for one, slots in plan.starts
        for slot in slots
    ]


def _queue_row(row: PickedRow, lane: str) -> tuple[Any, ...]:
    """Return the queue row of a picked job in another lane. Picked rows contain the next attempt number."""
    return (
        lane,
        row.priority,
        row.run_at_us,
        row.job_id,
        row.task,
        row.attempt - 1,
        row.failures,
        row.crashes,
        row.alone,
        row.keyed,
        row.expires_at_us,
        row.losses,
    )
