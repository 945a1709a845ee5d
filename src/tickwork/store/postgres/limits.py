"""Limits, gates, breakers and tenants on PostgreSQL (see `store.limits`). The SQL is in sql/limits.sql."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from tickwork.core.ids import JobId, WorkerId, is_id
from tickwork.core.limits.breaker import Breaker, Rule, end
from tickwork.core.limits.gates import GATES, Gate, Hold
from tickwork.core.limits.job_limits import LimitKey, limit_key_text
from tickwork.core.limits.lanes import held_prefix, lane_range, read_lane
from tickwork.store.claim import held_jobs, limit_state
from tickwork.store.claim.held_jobs import ClaimForecast, HeldPage, HeldPlace
from tickwork.store.claim.types import gate_key
from tickwork.store.limits import HELD_COUNTED, GateView, LimitKeyView, LimitView
from tickwork.store.postgres import params
from tickwork.store.postgres.claim.limited_round import PostgresClaimTx
from tickwork.store.postgres.claim.plan_values import named
from tickwork.store.postgres.connection.session import Session, utc
from tickwork.store.postgres.job_transitions import JobTransitions
from tickwork.store.postgres.limit_openings import LimitOpenings, ReleasedHolds
from tickwork.store.postgres.params import array, text_array
from tickwork.store.postgres.transactions import PostgresTransactions
from tickwork.store.rows.instants import from_us
from tickwork.store.rows.limits import decode_rule, encode_rule

_HOLDERS = 5
_FORGOTTEN = 1000
# The statements of a round that lock, and those that a forecast runs in their place: it must not block claims.
_FORECAST = {
    "leased": "now_us",
    "hold_worker": "now_us",
    "lock_lanes": "now_us",
    "pick_places": "forecast_places",
    "lock_limits": "known_limits",
    "lock_gates": "known_gates",
}


@dataclass(eq=False)
class PostgresLimits:
    """Limits, gates, weights of tenants, and why a job is held."""

    transactions: PostgresTransactions
    changes: JobTransitions
    openings: LimitOpenings

    def let_through(self, limit_keys: Sequence[LimitKey]) -> None:
        self.openings.open_freed([limit_key_text(limit_key) for limit_key in limit_keys])

    # -- limits

    def declare_limits(self, rules: Mapping[str, Rule]) -> None:
        """Store declared limits, and open the keys of changed limits."""
        given = params.document({"name": name, "rule": encode_rule(rule)} for name, rule in rules.items())

        def declare(session: Session) -> None:
            changed = [name for (name,) in session.run("declare_limits", limits=given)]
            if changed:
                _open_bound(session, changed)

        self.transactions.perform(declare, single=False)
        self.transactions.notifier.call()

    def set_limit(self, name: str, rule: Rule | None) -> bool:
        def change(session: Session) -> bool:
            if rule is not None:
                session.run("override_limit", name=name, rule=encode_rule(rule))
            known = rule is not None or bool(session.run("reset_limit", name=name))
            session.run("forget_limit", name=name)
            _open_bound(session, [name])
            return known

        known = self.transactions.perform(change, single=False)
        self.transactions.notifier.call()
        return known

    def list_limits(self) -> list[LimitView]:
        rows = self.transactions.run("limits")
        return [
            LimitView(name, decode_rule(declared), decode_rule(override), live, held)
            for name, declared, override, live, held in rows
        ]

    def limit_keys(self, limit: str, most: int) -> list[LimitKeyView]:
        rows = self.transactions.run("limit_keys", limit=limit, most=most, counted=HELD_COUNTED)
        return [
            limit_state.key_view(name, rule, state, live, held, None if opens_at is None else utc(opens_at))
            for name, rule, state, live, held, opens_at in rows
        ]

    # -- gates

    def put_gate(self, gate: Gate) -> None:
        """Store a gate. A drop gate also drops held jobs, after the commit and page by page."""
        values = {"name": gate.name, "value": GATES.encode(gate).decode(), "queue": gate.queue}

        def put(session: Session) -> None:
            session.run("put_gate", **values, until_us=gate.until_us)
            _open_bound(session, [gate_key(gate).limit])  # The new gate may end earlier than the one it replaces.

        self.transactions.perform(put, single=False)
        if gate.kind == "drop":
            drop = partial(self._drop_for, gate.name)
            self.transactions.after_commit(partial(held_jobs.sweep, gate, self._held_page, drop))
        self.transactions.notifier.call()

    def _held_page(self, after: HeldPlace) -> HeldPage:
        rows = self.transactions.run("held_page", **after._asdict(), limit=held_jobs.PAGE)
        return HeldPage.of(rows)

    def _drop_for(self, name: str, ids: Sequence[JobId]) -> None:
        """Drop these held jobs, and count them as dropped by the gate."""
        count = self.changes.drop_jobs(ids)
        self.transactions.run("pass_on", name=name, count=count)

    def lift_gates(self, selects: Mapping[str, str]) -> list[Gate]:
        """Delete the gates with exactly these selectors, open the keys that hold their jobs, and return the gates."""

        def lift(session: Session) -> list[Gate]:
            found = [view.gate for view in _gates(session) if view.gate.selects == dict(selects)]
            session.run("delete_gates", names=text_array([gate.name for gate in found]))
            _open_bound(session, [gate_key(gate).limit for gate in found])
            return found

        lifted = self.transactions.perform(lift, single=False)
        self.transactions.notifier.call()
        return lifted

    def list_gates(self) -> list[GateView]:
        return self.transactions.perform(_gates)

    # -- tenants

    def set_weight(self, tenant: str, weight: int) -> None:
        if weight == 1:
            self.transactions.run("delete_weight", name=tenant)
        else:
            self.transactions.run("set_weight", name=tenant, weight=weight)

    def weights(self) -> dict[str, int]:
        return dict(self.transactions.run("weights"))

    # -- what holds a job

    def hold(self, job_id: JobId) -> Hold | None:
        """Return why a waiting job is held; the reads take no locks."""

        read = partial(self._read_hold, job_id=job_id)
        return self.transactions.perform(read, single=False) if is_id(job_id) else None

    def _read_hold(self, session: Session, job_id: JobId) -> Hold | None:
        """Return what holds a waiting job: the limit key, its rule, and the jobs that run under it or wait for it.

        Else None.
        """
        place = session.find("place_of", job_id=job_id)
        gates = [view.gate for view in _gates(session)] if place else []
        forecast = self._forecast(session, job_id, place, gates) if place else None
        if forecast is None:
            return None
        limit_key, name = forecast.held_by, limit_key_text(forecast.held_by)
        gate = next((one for one in gates if gate_key(one) == limit_key), None)
        (rule,) = session.find("rule_of", name=limit_key.limit) or (None,)
        holders = session.run("holders", name=name)
        returned = session.run("returned", names=text_array([name]), afters=array([0]))
        head_due, head = min(((run_us, job_id) for _, _, run_us, job_id in returned), default=(None, None))
        lane, until = lane_range(held_prefix(limit_key))
        ((ahead,),) = session.run("held_ahead", lane=lane, until=until, job_id=job_id)
        return Hold(
            limit_key,
            decode_rule(rule) if gate is None else gate.pace,
            gate,
            None if forecast.opens_at_us is None else from_us(forecast.opens_at_us),
            sum(weight for _, weight in holders),
            tuple(JobId(holder) for holder, _ in holders[:_HOLDERS]),
            ahead,
            head,
            None if head_due is None else from_us(head_due),
        )

    def _forecast(
        self, session: Session, job_id: JobId, place: tuple[str, bool], gates: Sequence[Gate]
    ) -> ClaimForecast | None:
        """Return which limit holds a waiting job, or would hold it at the next claim; None if none would."""
        lane, is_due = place
        held_by = read_lane(lane).held_by
        if held_by is not None:
            open_us, is_open = session.find("opening", name=limit_key_text(held_by)) or (None, False)
            if not is_open:
                return ClaimForecast(held_by, open_us)
        elif not is_due or (":" not in lane and not any(gate.kind == "slow" for gate in gates)):
            return None
        standing = session.run("standing")
        queues = sorted({queue for _, queue in standing} | {gate.to for gate in gates if gate.to is not None})
        sql = self.transactions.sql
        claim_tx = PostgresClaimTx(
            session,
            sql | {name: sql[instead] for name, instead in _FORECAST.items()},
            worker=WorkerId(""),
            queues=queues,
            tasks=sorted({task for task, _ in standing}),
            read_now=self.transactions.test_time,
            released_holds=ReleasedHolds(self.transactions.monotonic),
        )
        return held_jobs.foresee(claim_tx, queues, job_id, held_by)

    # -- breakers

    def end_probes(self, ends: Sequence[tuple[LimitKey, JobId, bool]]) -> None:
        """Report the ends of attempts to breakers, each breaker in a transaction of its own; then wake the workers."""
        told: dict[LimitKey, list[tuple[JobId, bool]]] = {}
        for limit_key, job_id, failed in ends:
            told.setdefault(limit_key, []).append((job_id, failed))
        for one in told.items():
            self.transactions.perform(partial(_end_probes, told=one), single=False)
        self.transactions.notifier.call()

    # -- services

    def open_limit_keys(self) -> int:
        """Open limit keys that have free capacity and no scheduled opening time; return how many.

        Delete keys, holds and gates that no longer restrict any job.
        """

        def tidy(session: Session) -> int:
            session.run("forget_gates")
            session.run("forget_holds")
            opened = session.run("open_forgotten")
            idle = session.run("idle_limit_states", limit=_FORGOTTEN)
            ((now_us,),) = session.run("now_us")
            names = [name for name, state, rule in idle if limit_state.is_idle_state(state, rule, now_us)]
            session.run("forget_limit_states", names=text_array(names))
            return len(opened)

        opened = self.transactions.perform(tidy, single=False)
        if opened:
            self.transactions.notifier.call()
        return opened


def _end_probes(session: Session, told: tuple[LimitKey, Sequence[tuple[JobId, bool]]]) -> None:
    """Report the ends of attempts to one breaker, under the lock of its limit.

    Do nothing if its state stays the same.
    """
    limit_key, ends = told
    name = limit_key_text(limit_key)
    about = named([limit_key])
    session.run("lock_limits", limits=about["bounds"])
    states = dict(session.run("states", names=about["names"]))
    rules = dict(session.run("rules", limits=about["bounds"]))
    ((now_us,),) = session.run("now_us")
    locked_limit = limit_state.read_state(decode_rule(rules.get(limit_key.limit)), 0, states.get(name))
    if not isinstance(locked_limit.rule, Breaker):
        return
    after = locked_limit.breaker
    for job_id, failed in ends:
        after = end(locked_limit.rule, after, job_id, now_us, failed=failed)
    if after is locked_limit.breaker:
        return
    session.run("put_states", **about, states=text_array([limit_state.encode_state(after)]))
    open_us = now_us if after.open_until_us is None else after.open_until_us
    session.run("open_limit_key", name=name, open_us=open_us)


def _open_bound(session: Session, bounds: Sequence[str]) -> None:
    """Open all keys of these limits, so that the jobs that they hold are checked again."""
    session.run("open_bound", bounds=text_array(bounds))


def _gates(session: Session) -> list[GateView]:
    return [
        GateView(GATES.decode(value.encode()), utc(since), held, passed_on)
        for value, since, passed_on, held in session.run("all_gates")
    ]
