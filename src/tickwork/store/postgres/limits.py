"""Flow control on PostgreSQL: limited claims, limits, gates, tenants (see `store.limits`). SQL: sql/limits.sql.

Each round of a limited claim is one transaction. It locks limits, then gates, in the order of their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from tickwork.core.ids import ClaimId, JobId, WorkerId, is_id
from tickwork.core.job import Claimed
from tickwork.core.limits.breaker import Breaker, end
from tickwork.core.limits.gates import GATES, Gate
from tickwork.core.limits.job_limits import LimitKey, limit_key_text
from tickwork.core.limits.lanes import held_prefix, lane_range, read_lane
from tickwork.errors import LeaseLost
from tickwork.store.claim import held_jobs, limit_state, limited
from tickwork.store.claim.held_jobs import ClaimForecast, HeldPage, HeldPlace
from tickwork.store.claim.limited import RoundResult
from tickwork.store.claim.memory import ClaimMemory
from tickwork.store.claim.types import ClaimRequest, gate_key
from tickwork.store.limits import HELD_COUNTED, GateView, Hold, LimitKeyView, LimitView, Rule
from tickwork.store.postgres import params
from tickwork.store.postgres.claim.cursor import ClaimCursor, ReleasedHolds
from tickwork.store.postgres.claim.round import PostgresClaimTx, named
from tickwork.store.postgres.connection.session import Session
from tickwork.store.postgres.connection.steps import Rows, Statement
from tickwork.store.postgres.connection.verb_pool import VerbPool
from tickwork.store.postgres.connection.wake_notify import WakeNotifier
from tickwork.store.postgres.dags import PostgresDags
from tickwork.store.postgres.params import array, text_array
from tickwork.store.postgres.rows import id_document, sooner, utc
from tickwork.store.rows.instants import from_us, to_us
from tickwork.store.rows.jobs import limit_keys_of
from tickwork.store.rows.limits import decode_rule, encode_rule
from tickwork.store.shared_transaction import ThreadTransaction

T = TypeVar("T")
Finishing = Callable[[datetime | None], Sequence[Statement]]
PlayedOn = tuple[PostgresClaimTx, RoundResult]

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


class PostgresLimits(PostgresDags):
    """A part of PostgresStore. It needs from the rest the transactions, and a way to wake workers."""

    _sql: dict[str, str]
    _notifier: WakeNotifier
    _turns: dict[WorkerId, ClaimMemory]
    _overs: ReleasedHolds
    _here: ThreadTransaction[Session]
    _new_claim: Callable[[], ClaimId]

    def _bounds_of(self, worker: WorkerId, tasks: tuple[str, ...]) -> ClaimCursor:
        raise NotImplementedError

    def _now(self) -> datetime | None:
        raise NotImplementedError

    def _monotonic(self) -> float:
        raise NotImplementedError

    def _perform(self, work: Callable[[Session], T], *, pool: VerbPool | None = None, single: bool = True) -> T:
        raise NotImplementedError

    # -- claims

    def _claim_guarded(self, worker: WorkerId, asked: ClaimRequest, finishing: Finishing | None = None) -> LimitedClaim:
        """Claim in rounds, each a transaction; the first one stores the finishes before it reads. Raises LeaseLost."""
        claim = LimitedClaim(self, worker, self._new_claim(), finishing)
        played = limited.run_rounds(claim.run_round, asked, self._monotonic)
        claim.is_near = played.is_near
        claim.again_s = sooner(played.again_s, self._bounds_of(worker, asked.tasks).again_s())
        return claim

    def _play_inside(self, session: Session, claim: LimitedClaim, asked: ClaimRequest, after_parking: bool) -> PlayedOn:
        """Run one round inside a transaction; return the transaction's state with the result."""
        turns = self._turns_of(claim.worker)
        finishing = claim.finishing(session.now) if claim.finishing else []
        reached = self._bounds_of(claim.worker, asked.tasks).begin()
        about = (claim.worker, asked.queues, asked.tasks, self._now, self._overs, reached, finishing)
        claim_tx = PostgresClaimTx(session, self._sql, *about, claim=claim.claim)
        return claim_tx, limited.run_round(claim_tx, asked, turns, after_parking=after_parking)

    def _turns_of(self, worker: WorkerId) -> ClaimMemory:
        return self._turns.setdefault(worker, ClaimMemory())

    def _open_after(self, full: Mapping[LimitKey, int], freed: Sequence[str]) -> bool:
        """Open limit keys after a round's commit: keys that others freed meanwhile, and keys that its finishes freed.

        A refusal and a finish can race; this is the refusal's second look. True when jobs are held under the keys that
        the round's own finishes freed.
        """
        wanted: list[tuple[str, dict[str, Any]]] = []
        if full:
            names = [limit_key_text(limit_key) for limit_key in full]
            live, afters = array(full.values()), array(self._overs.after(names))
            wanted.append(("open_emptier", {"names": text_array(names), "live": live, "afters": afters}))
        if freed:
            wanted.append(("open_freed", {"names": text_array(freed)}))
        if not wanted:
            return False
        if self._here.together is not None:
            self._here.after_commit(partial(self._open_after, full, freed))
            return False
        sql = self._sql
        *_, last = self._perform(
            lambda session: session.run_together([(sql[name], {"now": session.now, **v}) for name, v in wanted])
        )
        if freed and last:
            self._notifier.call()
        return bool(freed and last)

    def _open_freed(self, names: Sequence[str]) -> bool:
        return self._open_after({}, names)

    def let_through(self, limit_keys: Sequence[LimitKey]) -> None:
        self._open_freed([limit_key_text(limit_key) for limit_key in limit_keys])

    # -- limits

    def declare_limits(self, rules: Mapping[str, Rule]) -> None:
        """Store declared limits, and open the keys of changed ones."""
        given = params.document({"name": name, "rule": encode_rule(rule)} for name, rule in rules.items())

        def declare(session: Session) -> None:
            changed = [name for (name,) in session.run("declare_limits", limits=given)]
            if changed:
                _open_bound(session, changed)

        self._perform(declare, single=False)
        self._notifier.call()

    def set_limit(self, name: str, rule: Rule | None) -> bool:
        def change(session: Session) -> bool:
            if rule is not None:
                session.run("override_limit", name=name, rule=encode_rule(rule))
            known = rule is not None or bool(session.run("reset_limit", name=name))
            session.run("forget_limit", name=name)
            _open_bound(session, [name])
            return known

        known = self._perform(change, single=False)
        self._notifier.call()
        return known

    def list_limits(self) -> list[LimitView]:
        rows = self._perform(lambda session: session.run("limits"))
        return [
            LimitView(name, decode_rule(declared), decode_rule(override), live, held)
            for name, declared, override, live, held in rows
        ]

    def limit_keys(self, limit: str, most: int) -> list[LimitKeyView]:
        rows = self._perform(lambda session: session.run("limit_keys", limit=limit, most=most, counted=HELD_COUNTED))
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

        self._perform(put, single=False)
        if gate.kind == "drop":
            drop = partial(self._drop_for, gate.name)
            self._here.after_commit(partial(held_jobs.sweep, gate, self._held_page, drop))
        self._notifier.call()

    def _held_page(self, after: HeldPlace) -> HeldPage:
        place = dict(zip(("lane", "priority", "run_at", "job_id"), after, strict=True))
        rows = self._perform(lambda session: session.run("held_page", **place, limit=held_jobs.PAGE))
        return HeldPage.of(rows)

    def _drop_for(self, name: str, ids: Sequence[JobId]) -> None:
        count = self._drop(ids)
        self._perform(lambda session: session.run("pass_on", name=name, count=count))

    def _drop(self, ids: Sequence[JobId]) -> int:
        """End jobs that a gate drops; return how many. Steps of runs also advance their runs."""
        end = {"state": "dropped", "error": "a gate dropped it"}
        steps = [one.job_id for one in self._places(ids) if one.run is not None]
        ended = self._end_steps(steps, **end) if steps else 0
        rest = id_document([one for one in ids if one not in steps])
        ((count, limits),) = self._perform(lambda session: session.run("drop_jobs", ids=rest, **end))
        self._leave_lines(limits)
        return int(count) + ended

    def _leave_lines(self, texts: Iterable[str | None]) -> None:
        """Open the sequences that waiting jobs with these limits have left, so that their next jobs may start."""
        if names := [name for text in texts for name in limit_keys_of(text)]:
            self._open_freed(names)

    def lift_gates(self, selects: Mapping[str, str]) -> list[Gate]:
        """Delete the gates with exactly these selectors, and open the keys that hold their jobs."""

        def lift(session: Session) -> list[Gate]:
            found = [view.gate for view in _gates(session) if view.gate.selects == dict(selects)]
            session.run("delete_gates", names=text_array([gate.name for gate in found]))
            _open_bound(session, [gate_key(gate).limit for gate in found])
            return found

        lifted = self._perform(lift, single=False)
        self._notifier.call()
        return lifted

    def list_gates(self) -> list[GateView]:
        return self._perform(_gates)

    # -- tenants

    def set_weight(self, tenant: str, weight: int) -> None:
        if weight == 1:
            self._perform(lambda session: session.run("delete_weight", name=tenant))
        else:
            self._perform(lambda session: session.run("set_weight", name=tenant, weight=weight))

    def weights(self) -> dict[str, int]:
        return dict(self._perform(lambda session: session.run("weights")))

    # -- what holds a job

    def hold(self, job_id: JobId) -> Hold | None:
        """Return why a waiting job is held; the reads take no locks."""

        def read(session: Session) -> Hold | None:
            rows = session.run("place_of", job_id=job_id)
            gates = [view.gate for view in _gates(session)] if rows else []
            fate = self._fate(session, job_id, rows[0], gates) if rows else None
            if fate is None:
                return None
            rules = session.run("rule_of", name=fate.held_by.limit)
            name = limit_key_text(fate.held_by)
            holders = session.run("holders", name=name)
            returned = session.run("returned", names=text_array([name]), afters=array([0]))
            head_due, head = min(((run_us, job_id) for _, _, run_us, job_id in returned), default=(None, None))
            lane, until = lane_range(held_prefix(fate.held_by))
            ((ahead,),) = session.run("held_ahead", lane=lane, until=until, job_id=job_id)
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

        return self._perform(read, single=False) if is_id(job_id) else None

    def _fate(self, session: Session, job_id: JobId, place: Any, gates: Sequence[Gate]) -> ClaimForecast | None:
        """Return what holds a waiting job, or what would hold it at the next claim."""
        lane, is_due = place
        held_by = read_lane(lane).held_by
        if held_by is not None:
            ((open_us, is_open),) = session.run("opening", name=limit_key_text(held_by)) or [(None, False)]
            if not is_open:
                return ClaimForecast(held_by, open_us)
        elif not is_due or (":" not in lane and not any(gate.kind == "slow" for gate in gates)):
            return None
        standing = session.run("standing")
        tasks = sorted({task for task, _ in standing})
        queues = sorted({queue for _, queue in standing} | {gate.to for gate in gates if gate.to is not None})
        about = (WorkerId(""), queues, tasks, self._now, ReleasedHolds(self._monotonic))
        unlocked = self._sql | {name: self._sql[instead] for name, instead in _FORECAST.items()}
        claim_tx = PostgresClaimTx(session, unlocked, *about)
        return held_jobs.foresee(claim_tx, queues, job_id, held_by)

    # -- breakers

    def end_probes(self, ends: Sequence[tuple[LimitKey, JobId, bool]]) -> None:
        told: dict[LimitKey, list[tuple[JobId, bool]]] = {}
        for limit_key, job_id, failed in ends:
            told.setdefault(limit_key, []).append((job_id, failed))
        for one in told.items():
            self._perform(partial(_end_probes, told=one), single=False)
        self._notifier.call()

    # -- services

    def open_limit_keys(self) -> int:
        """Open limit keys that have capacity and no time to open, and delete keys, holds and gates without effect."""

        def tidy(session: Session) -> int:
            session.run("forget_gates")
            session.run("forget_holds")
            opened = session.run("open_forgotten")
            idle = session.run("idle_limit_states", limit=_FORGOTTEN)
            now_us = to_us(utc(session.run("now")[0][0]))
            names = [name for name, state, rule in idle if limit_state.is_idle_state(state, rule, now_us)]
            session.run("forget_limit_states", names=text_array(names))
            return len(opened)

        opened = self._perform(tidy, single=False)
        if opened:
            self._notifier.call()
        return opened


class LimitedClaim:
    """A claim in rounds: the jobs claimed so far, and the finishes that were stored."""

    def __init__(self, limits: PostgresLimits, worker: WorkerId, claim: ClaimId, finishing: Finishing | None) -> None:
        self._limits = limits
        self._is_stored = False
        self.worker = worker
        self.claim = claim
        self.finishing = finishing
        self.finished: Rows = []
        self.claimed: list[Claimed] = []
        self.again_s: float | None = None
        self.is_near = False

    def run_round(self, asked: ClaimRequest, after_parking: bool) -> RoundResult:
        """Run one round in a transaction, then act on its commit: update the cursors, open limits, end dropped jobs."""
        limits = self._limits
        try:
            claim_tx, played = limits._perform(
                lambda one: limits._play_inside(one, self, asked, after_parking), single=False
            )
        except LeaseLost:
            if self._is_stored:
                return RoundResult()  # The jobs claimed so far stay claimed, until they are reclaimed.
            raise
        # The round is committed: finishes are not sent again, and its knowledge about rows is valid.
        self._is_stored = True
        self.finishing = None
        limits._bounds_of(self.worker, asked.tasks).took(claim_tx.read.items(), claimed=bool(claim_tx.claimed))
        limits._overs.learn(claim_tx.over, claim_tx.counted)
        self.finished += claim_tx.finished
        self.claimed += claim_tx.claimed
        opened = limits._open_after(played.full, claim_tx.freed)
        if played.dropped:
            limits._drop(played.dropped)
        return replace(played, wants_more=True) if opened else played


def _end_probes(session: Session, told: tuple[LimitKey, Sequence[tuple[JobId, bool]]]) -> None:
    """Report the ends of attempts to one breaker, under the lock of its limit."""
    limit_key, ends = told
    name = limit_key_text(limit_key)
    about = named([limit_key])
    session.run("lock_limits", limits=about["bounds"])
    states = dict(session.run("states", names=about["names"]))
    rules = dict(session.run("rules", limits=about["bounds"]))
    now_us = to_us(utc(session.run("now")[0][0]))
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
    """Open the keys of these limits, so that the jobs they hold are checked again."""
    session.run("open_bound", bounds=text_array(bounds))


def _gates(session: Session) -> list[GateView]:
    return [
        GateView(GATES.decode(value.encode()), utc(since), held, passed_on)
        for value, since, passed_on, held in session.run("all_gates")
    ]
