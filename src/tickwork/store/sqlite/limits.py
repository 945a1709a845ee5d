"""Flow control on SQLite: limited claims, limits, gates, tenants (see `store.limits`). The SQL is in sql/limits.sql.

A writer excludes all others, so rows need no locks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import msgspec

from tickwork.core.ids import ClaimId, JobId, WorkerId
from tickwork.core.job import Claimed
from tickwork.core.limits.breaker import Breaker, end
from tickwork.core.limits.gates import GATES, Gate
from tickwork.core.limits.job_limits import JobLimits, LimitKey, limit_key_of, limit_key_text
from tickwork.core.limits.lanes import held_prefix, home_lane, lane_range, read_lane
from tickwork.core.placement import ClaimingWorker
from tickwork.store.attempts import NO_CLAIM
from tickwork.store.claim import held_jobs, limit_state
from tickwork.store.claim.held_jobs import ClaimForecast, HeldPage, HeldPlace
from tickwork.store.claim.types import (
    BULK_WALK,
    OPEN_KEYS,
    Candidate,
    ClaimPlan,
    LaneHead,
    LaneScan,
    LaneScanResult,
    LimitState,
    PickedRow,
    PickRequest,
    Place,
    Snapshot,
    claimed_job,
    gate_key,
)
from tickwork.store.limits import HELD_COUNTED, GateView, Hold, LimitKeyView, LimitView, Rule
from tickwork.store.rows.instants import from_us
from tickwork.store.rows.jobs import encode_job_limits
from tickwork.store.rows.limits import decode_rule, encode_rule
from tickwork.store.rows.workers import claiming_worker
from tickwork.store.runs.graph_cache import GraphCache
from tickwork.store.shared_transaction import ThreadTransaction
from tickwork.store.sqlite import transitions
from tickwork.store.sqlite.runs import advance
from tickwork.store.sqlite.transitions import Transaction, as_json, queue_key, running_row

_HOLDERS = 5
_FORGOTTEN = 1000


def is_guarded(transaction: Transaction, queues: Sequence[str]) -> bool:
    """Return whether a plain claim of these queues must take nothing, because of limits or gates."""
    ((answer,),) = transaction.run("is_guarded", {"queues": as_json(list(queues)), "now": transaction.now})
    return bool(answer)


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
        """Read the snapshot: heads of all lanes, gates, weights, and open limit keys."""
        transaction, now = self._transaction, self._transaction.now
        gates = transaction.run("gates_in_force", {"now": now, "queues": as_json(self._queues)})
        heads = self._plain_heads()
        for queue in self._queues:
            heads += [LaneHead(*head[:3]) for head in _heads(transaction, f"{queue}:")]
        is_empty: dict[str, bool] = {}
        held = transaction.run("open_heads", {"now": now, "limit": OPEN_KEYS})
        for name, rule, lane, priority, run_at in held:
            is_empty[name] = lane is None and is_empty.get(name, True)
            if lane is not None and read_lane(lane).queue in self._queues:
                heads.append(LaneHead(lane, priority, run_at, decode_rule(rule)))
        empty = [limit_key_of(name) for name, holds_nothing in is_empty.items() if holds_nothing]
        ((opens_at,),) = transaction.run("next_opening", (now,))
        weights = dict(transaction.run("weights"))
        return Snapshot(now, [GATES.decode(value.encode()) for (value,) in gates], weights, heads, empty, opens_at)

    def _plain_heads(self) -> list[LaneHead]:
        """Return the first job of each priority of the queues' own lanes."""
        heads: list[LaneHead] = []
        for queue in self._queues:
            rows = _walk(self._transaction, queue, f"{queue}:")
            heads += [LaneHead(*row[:3]) for row in rows]
        return heads

    def claiming_workers(self) -> list[ClaimingWorker]:
        return [claiming_worker(*row) for row in self._transaction.run("neighbours", (self._transaction.now,))]

    def pick(self, pick_requests: Sequence[PickRequest]) -> list[Candidate]:
        """Pick due jobs of the requests in order, at most `of_group` for each group."""
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
        found = [self._transaction.run("next_in_place", (*place, self._transaction.now)) for place in places]
        return min((run_us for ((run_us,),) in found if run_us is not None), default=None)

    def lane_scan(self, lane_scans: Sequence[LaneScan]) -> list[LaneScanResult]:
        return [self._lane_scan(lane_scan) for lane_scan in lane_scans]

    def _lane_scan(self, lane_scan: LaneScan) -> LaneScanResult:
        """Run one scan step. The position is read by a second statement, unless enough jobs were picked."""
        now = self._transaction.now
        values = {
            "lane": lane_scan.lane,
            "priority": lane_scan.priority,
            "after": lane_scan.after[0],
            "after_id": lane_scan.after[1],
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
        reached = self._transaction.run("scouted", values)
        return found, reached[0] if reached else None

    def lock(
        self, limit_keys: Iterable[LimitKey], picked: Mapping[LimitKey, int], gates: Mapping[LimitKey, Gate]
    ) -> dict[LimitKey, LimitState]:
        """Read the states of limit keys. The write transaction is their lock."""
        names = {limit_key_text(limit_key): limit_key for limit_key in limit_keys}
        if not names:
            return {}
        states, rules = _standing(self._transaction, names)
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
                firsts = [(run_at, JobId(id)) for _, _, run_at, id in _heads(self._transaction, held_prefix(limit_key))]
                locked_limit = locked_limit._replace(head=min(firsts, default=None))
                locked_limit = locked_limit.with_returned(self._transaction.run("returned", (name,)), self.now_us)
            locked_limits[limit_key] = locked_limit
        return locked_limits

    def _count_held(self, limit_key: LimitKey, most: int) -> int:
        """Count the jobs that a limit key holds, up to `most`."""
        lane, until = lane_range(held_prefix(limit_key))
        ((waiting,),) = self._transaction.run("count_held", {"lane": lane, "until": until, "limit": most})
        return int(waiting)

    def apply(self, plan: ClaimPlan) -> int:
        """Write the plan; return how many jobs were parked in bulk."""
        transaction, now = self._transaction, self._transaction.now
        moved = [one for one, _ in [*plan.starts, *plan.parks, *plan.diverts]]
        transaction.run_many("leave_queue", [queue_key(one.row) for one in moved])
        transaction.insert_many(
            "enter_running",
            [running_row(one.row, one.home, self.worker, self._claim, now) for one, _ in plan.starts],
        )
        holds = [(one, slot) for one, slots in plan.starts for slot in slots]
        transaction.insert_many(
            "take_holds",
            [
                (
                    limit_key_text(slot.limit_key),
                    one.job_id,
                    one.row.attempt,
                    slot.weight,
                    plan.on_retry.get(slot.limit_key),
                )
                for one, slot in holds
            ],
        )
        transaction.insert_many("enter_queue", [_queue_row(one.row, lane) for one, lane in plan.parks])
        for one, queue in plan.diverts:
            self._divert(one, queue)
        for limit_key, state in plan.states.items():
            named = {"name": limit_key_text(limit_key), "bound": limit_key.limit}
            transaction.run("put_state", {**named, "state": limit_state.encode_state(state)})
        openings = {**plan.opens, **dict.fromkeys(plan.emptied)}
        for limit_key, open_at in openings.items():
            waits = limit_key not in plan.emptied
            named = {"name": limit_key_text(limit_key), "bound": limit_key.limit}
            transaction.run("put_opening", {**named, "waits": int(waits), "open_at": open_at})
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

    def _park_alike(self, one: Candidate, lane: str) -> int:
        """Park jobs of the same kind behind a job; return how many."""
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
        """Move a job to another queue, once."""
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


class SqliteLimits:
    """A part of SqliteStore. It needs from the rest the transactions, and a way to wake workers."""

    _graphs: GraphCache
    _here: ThreadTransaction[Any]

    def _write(self, tx: Any = None) -> AbstractContextManager[Transaction]:
        raise NotImplementedError

    def _read(self) -> AbstractContextManager[Transaction]:
        raise NotImplementedError

    def _wake(self) -> None:
        raise NotImplementedError

    # -- limits

    def declare_limits(self, rules: Mapping[str, Rule]) -> None:
        with self._write() as transaction:
            for name, rule in sorted(rules.items()):
                if transaction.run("declare_limit", {"name": name, "rule": encode_rule(rule)}):
                    transaction.run("open_bound", {"bound": name, "now": transaction.now})
        self._wake()

    def set_limit(self, name: str, rule: Rule | None) -> bool:
        with self._write() as transaction:
            if rule is not None:
                known = True
                transaction.run("override_limit", {"name": name, "rule": encode_rule(rule)})
            else:
                known = bool(transaction.run("reset_limit", (name,)))
                transaction.run("forget_limit", (name,))
            transaction.run("open_bound", {"bound": name, "now": transaction.now})
        self._wake()
        return known

    def list_limits(self) -> list[LimitView]:
        with self._read() as transaction:
            rows = transaction.run("limits")
        return [
            LimitView(name, decode_rule(declared), decode_rule(override), live, held)
            for name, declared, override, live, held in rows
        ]

    def limit_keys(self, limit: str, most: int) -> list[LimitKeyView]:
        with self._read() as transaction:
            rows = transaction.run("limit_keys", {"limit": limit, "most": most, "counted": HELD_COUNTED})
        return [
            limit_state.key_view(name, rule, state, live, held, None if opens_at is None else from_us(opens_at))
            for name, rule, state, live, held, opens_at in rows
        ]

    # -- gates

    def put_gate(self, gate: Gate) -> None:
        """Store a gate. A drop gate also drops held jobs, after the commit and page by page."""
        limit_key = gate_key(gate)
        named = {"name": limit_key_text(limit_key), "bound": limit_key.limit}
        with self._write() as transaction:
            value = GATES.encode(gate).decode()
            values = {"name": gate.name, "value": value, "queue": gate.queue, "until": gate.until_us}
            transaction.run("put_gate", {**values, "now": transaction.now})
            # Jobs that a gate of this name holds already are checked again: the new gate may end earlier.
            if transaction.run("opening", (named["name"],)):
                transaction.run("open_bound", {"bound": limit_key.limit, "now": transaction.now})
        if gate.kind == "drop":
            drop = partial(self._drop_for, gate.name)
            self._here.after_commit(partial(held_jobs.sweep, gate, self._held_page, drop))
        self._wake()

    def _held_page(self, after: HeldPlace) -> HeldPage:
        with self._read() as transaction:
            return HeldPage.of(transaction.run("held_page", {**after._asdict(), "limit": held_jobs.PAGE}))

    def _drop_for(self, name: str, ids: Sequence[JobId]) -> None:
        with self._write() as transaction:
            dropped = [job_id for job_id in ids if transitions.drop(transaction, job_id)]
            advance(transaction, self._graphs, dropped)
            transaction.run("pass_on", {"name": name, "count": len(dropped)})

    def lift_gates(self, selects: Mapping[str, str]) -> list[Gate]:
        with self._write() as transaction:
            found = [view.gate for view in self._gates(transaction) if view.gate.selects == dict(selects)]
            for gate in found:
                transaction.run("delete_gate", (gate.name,))
                transaction.run("open_bound", {"bound": gate_key(gate).limit, "now": transaction.now})
        self._wake()
        return found

    def list_gates(self) -> list[GateView]:
        with self._read() as transaction:
            return self._gates(transaction)

    def _gates(self, transaction: Transaction) -> list[GateView]:
        return [
            GateView(GATES.decode(value.encode()), from_us(since), held, passed_on)
            for value, since, passed_on, held in transaction.run("all_gates", (transaction.now,))
        ]

    # -- tenants

    def set_weight(self, tenant: str, weight: int) -> None:
        with self._write() as transaction:
            if weight == 1:
                transaction.run("delete_weight", (tenant,))
            else:
                transaction.run("set_weight", (tenant, weight))

    def weights(self) -> dict[str, int]:
        with self._read() as transaction:
            return dict(transaction.run("weights"))

    # -- what holds a job

    def hold(self, job_id: JobId) -> Hold | None:
        """Return why a waiting job is held, read in one transaction."""
        with self._read() as transaction:
            rows = transaction.run("place_of", (job_id,))
            if not rows:
                return None
            ((lane, priority, run_at),) = rows
            gates = [view.gate for view in self._gates(transaction)]
            fate = _fate(transaction, job_id, lane, run_at, gates)
            if fate is None:
                return None
            name = limit_key_text(fate.held_by)
            rules = transaction.run("rule_of", (fate.held_by.limit,))
            holders = transaction.run("holders", (name,))
            head_due, head = min(transaction.run("returned", (name,)), default=(None, None))
            first, until = lane_range(held_prefix(fate.held_by))
            place = {"priority": priority, "run_at": run_at, "job_id": job_id}
            ((ahead,),) = transaction.run("held_ahead", {"lane": first, "until": until, **place})
        gate = next((one for one in gates if gate_key(one) == fate.held_by), None)
        return Hold(
            fate.held_by,
            decode_rule(rules[0][0] if rules else None) if gate is None else gate.pace,
            gate,
            None if fate.opens_at_us is None else from_us(fate.opens_at_us),
            sum(weight for _, weight in holders),
            tuple(JobId(one) for one, _ in holders[:_HOLDERS]),
            ahead,
            head,
            None if head_due is None else from_us(head_due),
        )

    def let_through(self, limit_keys: Sequence[LimitKey]) -> None:
        with self._write() as transaction:
            names = as_json([limit_key_text(limit_key) for limit_key in limit_keys])
            opened = transaction.run("open_freed", {"names": names, "now": transaction.now})
        if opened:
            self._wake()

    # -- breakers

    def end_probes(self, ends: Sequence[tuple[LimitKey, JobId, bool]]) -> None:
        """Report the ends of attempts to breakers; a breaker that changes its state sets when its held jobs start."""
        with self._write() as transaction:
            for limit_key, job_id, failed in ends:
                name = limit_key_text(limit_key)
                states, rules = _standing(transaction, {name: limit_key})
                locked_limit = limit_state.read_state(rules.get(limit_key.limit), 0, states.get(name))
                if not isinstance(locked_limit.rule, Breaker):
                    continue
                after = end(locked_limit.rule, locked_limit.breaker, job_id, transaction.now, failed=failed)
                if after is locked_limit.breaker:
                    continue
                named = {"name": name, "bound": limit_key.limit}
                transaction.run("put_state", {**named, "state": limit_state.encode_state(after)})
                opens = transaction.now if after.open_until_us is None else after.open_until_us
                transaction.run("open_bound_key", {"name": name, "open_at": opens})
        self._wake()

    # -- services

    def open_limit_keys(self) -> int:
        """Open limit keys that have capacity and no time to open, and delete keys, holds and gates without effect."""
        with self._write() as transaction:
            now = transaction.now
            transaction.run("forget_gates", (now,))
            transaction.run("forget_holds")
            opened = transaction.run("open_forgotten", {"now": now})
            idle = transaction.run("idle_limit_states", (_FORGOTTEN,))
            is_idle_state = [name for name, state, rule in idle if limit_state.is_idle_state(state, rule, now)]
            transaction.run("forget_limit_states", (as_json(is_idle_state),))
        if opened:
            self._wake()
        return len(opened)


def _fate(
    transaction: Transaction, job_id: JobId, lane: str, run_at: int, gates: Sequence[Gate]
) -> ClaimForecast | None:
    """Return what holds a waiting job, or what would hold it at the next claim."""
    now, held_by = transaction.now, read_lane(lane).held_by
    if held_by is not None:
        ((open_at,),) = transaction.run("opening", (limit_key_text(held_by),)) or [(None,)]
        if open_at is None or open_at > now:
            return ClaimForecast(held_by, open_at)
    elif run_at > now or (":" not in lane and not any(gate.kind == "slow" for gate in gates)):
        return None
    standing = transaction.run("standing", {"now": now})
    tasks = sorted({task for task, _ in standing})
    queues = sorted({queue for _, queue in standing} | {gate.to for gate in gates if gate.to is not None})
    return held_jobs.foresee(SqliteClaimTx(transaction, WorkerId(""), queues, tasks), queues, job_id, held_by)


def _standing(transaction: Transaction, names: Mapping[str, LimitKey]) -> tuple[dict[str, str], dict[str, Rule | None]]:
    """Return the stored states of limit keys by name, and the rules of their limits."""
    states = dict(transaction.run("states", (as_json(list(names)),)))
    limits = sorted({limit_key.limit for limit_key in names.values()})
    rules = {name: decode_rule(rule) for name, rule in transaction.run("rules", (as_json(limits),))}
    return states, rules


def _walk(transaction: Transaction, lane: str, until: str) -> list[Any]:
    """Return the first job of each priority of each lane from `lane` to before `until`."""
    heads: list[Any] = []
    at: tuple[str, int] = (lane, -1)
    while rows := transaction.run("next_head", {"lane": at[0], "priority": at[1], "until": until}):
        heads.append(rows[0])
        at = (rows[0][0], rows[0][1])
    return heads


def _heads(transaction: Transaction, prefix: str) -> list[Any]:
    """Return the first job of each priority of each lane whose name begins with `prefix`."""
    return _walk(transaction, *lane_range(prefix))


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
