"""Flow control on SQLite: limited claims, limits, gates, tenants (see `store.limits`). The SQL is in sql/limits.sql.

A writer excludes all others, so rows need no locks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from tickwork.core.ids import JobId, WorkerId
from tickwork.core.limits.breaker import Breaker, end
from tickwork.core.limits.gates import GATES, Gate
from tickwork.core.limits.job_limits import LimitKey, limit_key_text
from tickwork.core.limits.lanes import held_prefix, lane_range, read_lane
from tickwork.store.claim import held_jobs, limit_state
from tickwork.store.claim.held_jobs import ClaimForecast, HeldPage, HeldPlace
from tickwork.store.claim.types import (
    gate_key,
)
from tickwork.store.limits import HELD_COUNTED, GateView, Hold, LimitKeyView, LimitView, Rule
from tickwork.store.rows.instants import from_us, from_us_or_none
from tickwork.store.rows.limits import decode_rule, encode_rule
from tickwork.store.runs.graph_cache import GraphCache
from tickwork.store.sqlite import job_transitions
from tickwork.store.sqlite.claim.limited_round import SqliteClaimTx, stored_limits
from tickwork.store.sqlite.run_transitions import advance
from tickwork.store.sqlite.transactions import SqliteTransactions, Transaction, as_json

_HOLDERS = 5
_FORGOTTEN = 1000


class SqliteLimits:
    """Limits, gates, weights of tenants and breakers."""

    def __init__(self, transactions: SqliteTransactions, graphs: GraphCache) -> None:
        self._transactions = transactions
        self._graphs = graphs

    # -- limits

    def declare_limits(self, rules: Mapping[str, Rule]) -> None:
        with self._transactions.write() as transaction:
            for name, rule in sorted(rules.items()):
                if transaction.run("declare_limit", {"name": name, "rule": encode_rule(rule)}):
                    transaction.run("open_bound", {"bound": name, "now": transaction.now})
        self._transactions.wake()

    def set_limit(self, name: str, rule: Rule | None) -> bool:
        with self._transactions.write() as transaction:
            if rule is not None:
                known = True
                transaction.run("override_limit", {"name": name, "rule": encode_rule(rule)})
            else:
                known = bool(transaction.run("reset_limit", (name,)))
                transaction.run("forget_limit", (name,))
            transaction.run("open_bound", {"bound": name, "now": transaction.now})
        self._transactions.wake()
        return known

    def list_limits(self) -> list[LimitView]:
        with self._transactions.read() as transaction:
            rows = transaction.run("limits")
        return [
            LimitView(name, decode_rule(declared), decode_rule(override), live, held)
            for name, declared, override, live, held in rows
        ]

    def limit_keys(self, limit: str, most: int) -> list[LimitKeyView]:
        with self._transactions.read() as transaction:
            rows = transaction.run("limit_keys", {"limit": limit, "most": most, "counted": HELD_COUNTED})
        return [
            limit_state.key_view(name, rule, state, live, held, from_us_or_none(opens_at))
            for name, rule, state, live, held, opens_at in rows
        ]

    # -- gates

    def put_gate(self, gate: Gate) -> None:
        """Store a gate. A drop gate also drops held jobs, after the commit and page by page."""
        limit_key = gate_key(gate)
        named = {"name": limit_key_text(limit_key), "bound": limit_key.limit}
        with self._transactions.write() as transaction:
            value = GATES.encode(gate).decode()
            values = {"name": gate.name, "value": value, "queue": gate.queue, "until": gate.until_us}
            transaction.run("put_gate", {**values, "now": transaction.now})
            # Jobs that a gate of this name holds already are checked again: the new gate may end earlier.
            if transaction.run("opening", (named["name"],)):
                transaction.run("open_bound", {"bound": limit_key.limit, "now": transaction.now})
        if gate.kind == "drop":
            drop = partial(self._drop_for, gate.name)
            self._transactions.after_commit(partial(held_jobs.sweep, gate, self._held_page, drop))
        self._transactions.wake()

    def _held_page(self, after: HeldPlace) -> HeldPage:
        with self._transactions.read() as transaction:
            return HeldPage.of(transaction.run("held_page", {**after._asdict(), "limit": held_jobs.PAGE}))

    def _drop_for(self, name: str, ids: Sequence[JobId]) -> None:
        """Drop these held jobs, and count them as dropped by the gate."""
        with self._transactions.write() as transaction:
            dropped = [job_id for job_id in ids if job_transitions.drop(transaction, job_id)]
            advance(transaction, self._graphs, dropped)
            transaction.run("pass_on", {"name": name, "count": len(dropped)})

    def lift_gates(self, selects: Mapping[str, str]) -> list[Gate]:
        with self._transactions.write() as transaction:
            found = [view.gate for view in self._gates(transaction) if view.gate.selects == dict(selects)]
            for gate in found:
                transaction.run("delete_gate", (gate.name,))
                transaction.run("open_bound", {"bound": gate_key(gate).limit, "now": transaction.now})
        self._transactions.wake()
        return found

    def list_gates(self) -> list[GateView]:
        with self._transactions.read() as transaction:
            return self._gates(transaction)

    def _gates(self, transaction: Transaction) -> list[GateView]:
        return [
            GateView(GATES.decode(value.encode()), from_us(since), held, passed_on)
            for value, since, passed_on, held in transaction.run("all_gates", (transaction.now,))
        ]

    # -- tenants

    def set_weight(self, tenant: str, weight: int) -> None:
        with self._transactions.write() as transaction:
            if weight == 1:
                transaction.run("delete_weight", (tenant,))
            else:
                transaction.run("set_weight", (tenant, weight))

    def weights(self) -> dict[str, int]:
        with self._transactions.read() as transaction:
            return dict(transaction.run("weights"))

    # -- what holds a job

    def hold(self, job_id: JobId) -> Hold | None:
        """Return which limit or gate holds a waiting job, read in one transaction; None if it is not held."""
        with self._transactions.read() as transaction:
            row = transaction.first("place_of", (job_id,))
            if row is None:
                return None
            lane, priority, run_at = row
            gates = [view.gate for view in self._gates(transaction)]
            fate = _fate(transaction, job_id, lane, run_at, gates)
            if fate is None:
                return None
            name = limit_key_text(fate.held_by)
            rule = transaction.value("rule_of", (fate.held_by.limit,))
            holders = transaction.run("holders", (name,))
            head_due, head = min(transaction.run("returned", (name,)), default=(None, None))
            first, until = lane_range(held_prefix(fate.held_by))
            place = {"priority": priority, "run_at": run_at, "job_id": job_id}
            ahead = transaction.value("held_ahead", {"lane": first, "until": until, **place})
        gate = next((one for one in gates if gate_key(one) == fate.held_by), None)
        return Hold(
            held_by=fate.held_by,
            rule=decode_rule(rule) if gate is None else gate.pace,
            gate=gate,
            opens_at=from_us_or_none(fate.opens_at_us),
            live=sum(weight for _, weight in holders),
            holders=tuple(JobId(one) for one, _ in holders[:_HOLDERS]),
            ahead=ahead,
            head=head,
            head_due=from_us_or_none(head_due),
        )

    def let_through(self, limit_keys: Sequence[LimitKey]) -> None:
        with self._transactions.write() as transaction:
            names = as_json([limit_key_text(limit_key) for limit_key in limit_keys])
            opened = transaction.run("open_freed", {"names": names, "now": transaction.now})
        if opened:
            self._transactions.wake()

    # -- breakers

    def end_probes(self, ends: Sequence[tuple[LimitKey, JobId, bool]]) -> None:
        """Report the ends of attempts to breakers. A breaker whose state changes sets when its held jobs may start."""
        with self._transactions.write() as transaction:
            for limit_key, job_id, failed in ends:
                name = limit_key_text(limit_key)
                states, rules = stored_limits(transaction, {name: limit_key})
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
        self._transactions.wake()

    # -- services

    def open_limit_keys(self) -> int:
        """Open limit keys that have free capacity and no scheduled opening time; return how many.

        Delete keys, holds and gates that no longer restrict any job.
        """
        with self._transactions.write() as transaction:
            now = transaction.now
            transaction.run("forget_gates", (now,))
            transaction.run("forget_holds")
            opened = transaction.run("open_forgotten", {"now": now})
            idle = transaction.run("idle_limit_states", (_FORGOTTEN,))
            is_idle_state = [name for name, state, rule in idle if limit_state.is_idle_state(state, rule, now)]
            transaction.run("forget_limit_states", (as_json(is_idle_state),))
        if opened:
            self._transactions.wake()
        return len(opened)


def _fate(
    transaction: Transaction, job_id: JobId, lane: str, run_at: int, gates: Sequence[Gate]
) -> ClaimForecast | None:
    """Return which limit holds a waiting job, or would hold it at the next claim; None if none would."""
    now, held_by = transaction.now, read_lane(lane).held_by
    if held_by is not None:
        open_at = transaction.value("opening", (limit_key_text(held_by),))
        if open_at is None or open_at > now:
            return ClaimForecast(held_by, open_at)
    elif run_at > now or (":" not in lane and not any(gate.kind == "slow" for gate in gates)):
        return None
    waiting = transaction.run("standing", {"now": now})
    tasks = sorted({task for task, _ in waiting})
    queues = sorted({queue for _, queue in waiting} | {gate.to for gate in gates if gate.to is not None})
    return held_jobs.foresee(SqliteClaimTx(transaction, WorkerId(""), queues, tasks), queues, job_id, held_by)
