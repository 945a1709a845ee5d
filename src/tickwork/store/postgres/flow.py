"""The verbs of flow control on PostgreSQL (see `store.flow`). The SQL is in sql/flow.sql.

Each round of a guarded claim is one transaction. Rows of turnstiles are locked in the order of their names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import msgspec

from tickwork.core.flow.breaker import Breaker, end
from tickwork.core.flow.flow import Flow, held_prefix, home_lane, lane_range, passage_of, read_lane, turnstile_name
from tickwork.core.flow.gates import GATES, Gate
from tickwork.core.flow.limits import Concurrency, Passage, Slot
from tickwork.core.ids import JobId, WorkerId, is_id
from tickwork.core.job import LOWEST_PRIORITY, Claimed
from tickwork.errors import LeaseLost
from tickwork.store import codec, guarded
from tickwork.store.codec import from_us, to_us
from tickwork.store.flow import GateView, Hold, LimitView, Rule
from tickwork.store.guarded import Fate, HeldPage, Played, Round, TurnKeeper
from tickwork.store.postgres import documents
from tickwork.store.postgres.adapters import Rows, Statement
from tickwork.store.postgres.documents import array, text_array
from tickwork.store.postgres.notifier import Notifier
from tickwork.store.postgres.pool import Pool
from tickwork.store.postgres.runs import PostgresDags
from tickwork.store.postgres.session import Session
from tickwork.store.postgres.values import id_document, utc
from tickwork.store.rounds import Applicant, Asked, Head, Look, Stile, Verdict, Wish, gate_passage

T = TypeVar("T")

_HOLDERS = 5
_FORGOTTEN = 1000
_LOCKS = re.compile(r"(pg_try_advisory_xact_lock\(hashtextextended\([^)]*\)\))|FOR (?:NO KEY )?UPDATE(?: SKIP LOCKED)?")


class PostgresGround:
    """A round of a guarded claim, inside a transaction."""

    def __init__(
        self,
        session: Session,
        sql: Mapping[str, str],
        worker: WorkerId,
        queues: Sequence[str],
        tasks: Sequence[str],
        read_now: Callable[[], datetime | None],
    ) -> None:
        self._session = session
        self._sql = sql
        self._read_now = read_now
        self._worker = worker
        self._queues = list(queues)
        self._tasks = text_array(tasks)
        self.now_us = 0
        self.claimed: list[Claimed] = []

    def _together(self, *wanted: tuple[str, dict[str, Any]]) -> list[Rows]:
        """Run named statements in one round trip."""
        statements: list[Statement] = [(self._sql[name], {"now": self._session.now, **v}) for name, v in wanted]
        return self._session.run_together(statements)

    def look(self) -> Look:
        queues = {"queues": text_array(self._queues)}
        places = [(queue, priority) for queue in self._queues for priority in range(LOWEST_PRIORITY + 1)]
        plain = {
            "places": text_array([queue for queue, _ in places]),
            "priorities": array([priority for _, priority in places]),
        }
        most = {"limit": guarded.OPEN_LIMIT}
        held, gates, weights, lanes, heads, empty, ((opens_at_us,),) = self._together(
            ("hold_worker", {"worker": self._worker}),
            ("gates_in_force", queues),
            ("weights", {}),
            ("lane_heads", {**queues, **most}),
            ("plain_heads", plain),
            ("empty_turnstiles", most),
            ("next_opening", {}),
        )
        if not held:
            raise LeaseLost(f"worker {self._worker} has no lease any more; it must register anew before it claims.")
        self.now_us = held[0][0]
        standing = [Head(*head) for head in heads]
        ours = [one for one in lanes if read_lane(one[0]).queue in self._queues]
        standing += [Head(lane, priority, run_us, codec.decode_rule(rule)) for lane, priority, run_us, rule in ours]
        return Look(
            self.now_us,
            [GATES.decode(value.encode()) for (value,) in gates],
            dict(weights),
            standing,
            [passage_of(name) for (name,) in empty],
            opens_at_us,
        )

    def pick(self, wishes: Sequence[Wish]) -> list[Applicant]:
        lanes = [read_lane(wish.lane) for wish in wishes]
        asked = {
            "groups": array([wish.group for wish in wishes]),
            "of_groups": array([wish.of_group for wish in wishes]),
            "lanes": text_array([wish.lane for wish in wishes]),
            "priorities": array([wish.priority for wish in wishes]),
            "mosts": array([wish.most for wish in wishes]),
            "in_order": array([lane.in_order and lane.held_by is None for lane in lanes]),
            "tasks": self._tasks,
        }
        (rows,) = self._together(("pick_places", asked))
        return [_applicant(row) for row in rows]

    def lock(
        self, passages: Iterable[Passage], picked: Mapping[Passage, int], gates: Mapping[Passage, Gate]
    ) -> dict[Passage, Stile]:
        names = {turnstile_name(passage): passage for passage in passages}
        if not names:
            return {}
        limits = text_array(sorted({passage.limit for passage in names.values() if passage not in gates}))
        given = {"names": text_array(names), "limits": limits}
        held = {turnstile_name(passage): count + 1 for passage, count in picked.items()}
        _, live_gates, ((self.now_us,),), rules, states, live, waiting = self._together(
            ("lock_limits", {"limits": limits}),
            ("lock_gates", {"gates": text_array([gate.name for gate in gates.values()])}),
            ("now_us", {"now": self._read_now()}),
            ("rules", given),
            ("states", given),
            ("live_weights", given),
            ("count_held", {"picked": text_array(held), "mosts": array(held.values())}),
        )
        known = {name: codec.decode_rule(rule) for name, rule in rules}
        lasting = {name for (name,) in live_gates}
        weight_of, state_of, count_of = dict(live), dict(states), dict(waiting)
        stiles: dict[Passage, Stile] = {}
        for name, passage in names.items():
            gate = gates.get(passage)
            if gate is None or gate.name in lasting:
                rule = known.get(passage.limit) if gate is None else gate.pace
                stile = codec.stile(rule, weight_of.get(name, 0), state_of.get(name))
                stiles[passage] = stile._replace(waiting=count_of.get(name, 0)) if name in count_of else stile
        return self._with_firsts(stiles)

    def _with_firsts(self, stiles: dict[Passage, Stile]) -> dict[Passage, Stile]:
        """What sequences have to know: who is first of those that they hold, and whether the marked one still waits."""
        lines = [passage for passage, one in stiles.items() if isinstance(one.rule, Concurrency) and one.rule.in_order]
        if not lines:
            return stiles
        marked = [marker[1] for passage in lines if (marker := stiles[passage].marker) is not None]
        names = text_array(map(turnstile_name, lines))
        firsts, waiting = self._together(("held_firsts", {"names": names}), ("still_waiting", {"ids": array(marked)}))
        still = {job_id for (job_id,) in waiting}
        for name, run_us, job_id in firsts:
            stiles[passage_of(name)] = stiles[passage_of(name)]._replace(head=(run_us, JobId(job_id)))
        for passage in lines:
            marker = stiles[passage].marker
            if marker is not None and marker[1] not in still:
                stiles[passage] = stiles[passage]._replace(marker=None)
        return stiles

    def apply(self, verdict: Verdict) -> None:
        wanted: list[tuple[str, dict[str, Any]]] = []
        if verdict.starts:
            places = _places(one for one, _ in verdict.starts)
            wanted.append(("start_picked", {**places, "worker": self._worker, "now_us": str(self.now_us)}))
        holds = [(one, slot) for one, slots in verdict.starts for slot in slots]
        if holds:
            wanted.append(("take_holds", _holds(holds)))
        diverts = [(one, _diverted(one, queue)) for one, queue in verdict.diverts]
        parks = [*verdict.parks, *((one, values["lane"]) for one, values in diverts)]
        wanted += [("divert_job", values) for _, values in diverts]
        if parks:
            wanted.append(("park_picked", {**_places(one for one, _ in parks), **_moves(parks)}))
        wanted += _turnstiles(verdict)
        wanted += [("pass_on", {"name": name, "count": count}) for name, count in verdict.passed_on.items()]
        if wanted:
            self._together(*wanted)
        self.claimed += [_claimed(one, self.now_us, one.job_id in verdict.probes) for one, _ in verdict.starts]


class PostgresFlow(PostgresDags):
    """A part of PostgresStore. What it needs of the rest are its transactions, and a way to wake workers."""

    _sql: dict[str, str]
    _notifier: Notifier
    _turns: dict[WorkerId, TurnKeeper]

    def _now(self) -> datetime | None:
        raise NotImplementedError

    def _perform(self, work: Callable[[Session], T], *, pool: Pool | None = None, single: bool = True) -> T:
        raise NotImplementedError

    # -- claims

    def _claim_guarded(self, worker: WorkerId, tasks: Sequence[str], asked: Asked) -> tuple[list[Claimed], Played]:
        """Claim in rounds, each a transaction. Raises LeaseLost."""
        turns = self._turns.setdefault(worker, TurnKeeper())
        claimed: list[Claimed] = []

        def play(asked: Asked, hurry: bool) -> Round:
            def play_inside(session: Session) -> tuple[Round, list[Claimed]]:
                ground = PostgresGround(session, self._sql, worker, asked.queues, tasks, self._now)
                return guarded.play(ground, asked, turns, hurry=hurry), ground.claimed

            try:
                played, taken = self._perform(play_inside, single=False)
            except LeaseLost:
                if claimed:
                    return Round()  # what it has claimed so far is its own, as long as nobody has reclaimed it
                raise
            claimed.extend(taken)
            if played.full:
                self._open_emptier(played.full)
            if played.dropped:
                self._drop(played.dropped)
            return played

        return claimed, guarded.play_rounds(play, asked)

    def _open_emptier(self, full: Mapping[Passage, int]) -> None:
        values = {"names": text_array(map(turnstile_name, full)), "live": array(full.values())}
        self._perform(lambda session: session.run("open_emptier", **values))

    def _open_freed(self, names: Sequence[str]) -> bool:
        opened = self._perform(lambda session: session.run("open_freed", names=text_array(names)))
        if opened:
            self._notifier.call()
        return bool(opened)

    def let_through(self, passages: Sequence[Passage]) -> None:
        self._open_freed([turnstile_name(passage) for passage in passages])

    # -- limits

    def declare_limits(self, rules: Mapping[str, Rule]) -> None:
        given = documents.document({"name": name, "rule": codec.encode_rule(rule)} for name, rule in rules.items())

        def declare(session: Session) -> None:
            changed = [name for (name,) in session.run("declare_limits", limits=given)]
            if changed:
                _open_bound(session, changed)

        self._perform(declare, single=False)
        self._notifier.call()

    def set_limit(self, name: str, rule: Rule | None) -> bool:
        def change(session: Session) -> bool:
            if rule is not None:
                session.run("override_limit", name=name, rule=codec.encode_rule(rule))
            known = rule is not None or bool(session.run("reset_limit", name=name))
            session.run("forget_limit", name=name)
            _open_bound(session, [name])
            return known

        known = self._perform(change, single=False)
        self._notifier.call()
        return known

    def limits(self) -> list[LimitView]:
        rows = self._perform(lambda session: session.run("limits"))
        return [
            LimitView(name, codec.decode_rule(declared), codec.decode_rule(override), live, held)
            for name, declared, override, live, held in rows
        ]

    # -- gates

    def put_gate(self, gate: Gate) -> None:
        values = {"name": gate.name, "value": GATES.encode(gate).decode(), "queue": gate.queue}

        def put(session: Session) -> None:
            session.run("put_gate", **values, until_us=gate.until_us)
            _open_bound(session, [gate_passage(gate).limit])  # it may hold for less long than it did

        self._perform(put, single=False)
        if gate.kind == "drop":
            guarded.sweep(gate, self._held_page, partial(self._drop_for, gate.name))
        self._notifier.call()

    def _held_page(self, after: guarded.Place) -> HeldPage:
        place = dict(zip(("lane", "priority", "run_at", "job_id"), after, strict=True))
        rows = self._perform(lambda session: session.run("held_page", **place, limit=guarded.PAGE))
        return HeldPage.of(rows)

    def _drop_for(self, name: str, ids: Sequence[JobId]) -> None:
        count = self._drop(ids)
        self._perform(lambda session: session.run("pass_on", name=name, count=count))

    def _drop(self, ids: Sequence[JobId]) -> int:
        error = "a gate dropped it"
        steps = [one.job_id for one in self._places(ids) if one.run is not None]
        ended = self._end_steps(steps, "dropped", error) if steps else 0
        values = {"ids": id_document([one for one in ids if one not in steps]), "state": "dropped", "error": error}
        ((count,),) = self._perform(lambda session: session.run("drop_jobs", **values))
        return int(count) + ended

    def lift_gates(self, selects: Mapping[str, str]) -> list[Gate]:
        def lift(session: Session) -> list[Gate]:
            found = [view.gate for view in _gates(session) if view.gate.selects == dict(selects)]
            session.run("delete_gates", names=text_array([gate.name for gate in found]))
            _open_bound(session, [gate_passage(gate).limit for gate in found])
            return found

        lifted = self._perform(lift, single=False)
        self._notifier.call()
        return lifted

    def gates(self) -> list[GateView]:
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
        def read(session: Session) -> Hold | None:
            rows = session.run("place_of", job_id=job_id)
            gates = [view.gate for view in _gates(session)] if rows else []
            fate = self._fate(session, job_id, rows[0], gates) if rows else None
            if fate is None:
                return None
            rules = session.run("rule_of", name=fate.held_by.limit)
            holders = session.run("holders", name=turnstile_name(fate.held_by))
            lane, until = lane_range(held_prefix(fate.held_by))
            ((ahead,),) = session.run("held_ahead", lane=lane, until=until, job_id=job_id)
            gate = next((one for one in gates if gate_passage(one) == fate.held_by), None)
            return Hold(
                fate.held_by,
                codec.decode_rule(rules[0][0] if rules else None) if gate is None else gate.pace,
                gate,
                None if fate.opens_at_us is None else from_us(fate.opens_at_us),
                sum(weight for _, weight in holders),
                tuple(JobId(one) for one, _ in holders[:_HOLDERS]),
                ahead,
            )

        return self._perform(read, single=False) if is_id(job_id) else None

    def _fate(self, session: Session, job_id: JobId, place: Any, gates: Sequence[Gate]) -> Fate | None:
        """What holds a waiting job; where that is not decided yet, what would at a claim."""
        lane, is_due = place
        held_by = read_lane(lane).held_by
        if held_by is not None:
            ((open_us, is_open),) = session.run("opening", name=turnstile_name(held_by)) or [(None, False)]
            if not is_open:
                return Fate(held_by, open_us)
        elif not is_due or (":" not in lane and not any(gate.kind == "slow" for gate in gates)):
            return None
        standing = session.run("standing")
        tasks = sorted({task for task, _ in standing})
        queues = sorted({queue for _, queue in standing} | {gate.to for gate in gates if gate.to is not None})
        ground = PostgresGround(session, _reading(self._sql), WorkerId(""), queues, tasks, self._now)
        return guarded.foresee(ground, queues, job_id, held_by)

    # -- breakers

    def end_probes(self, ends: Sequence[tuple[Passage, JobId, bool]]) -> None:
        told: dict[Passage, list[tuple[JobId, bool]]] = {}
        for passage, job_id, failed in ends:
            told.setdefault(passage, []).append((job_id, failed))
        for one in told.items():
            self._perform(partial(_end_probes, told=one), single=False)
        self._notifier.call()

    # -- services

    def open_turnstiles(self) -> int:
        def tidy(session: Session) -> int:
            session.run("forget_gates")
            session.run("forget_holds")
            opened = session.run("open_forgotten")
            idle = session.run("idle_turnstiles", limit=_FORGOTTEN)
            now_us = to_us(utc(session.run("now")[0][0]))
            names = [name for name, state, rule in idle if codec.says_nothing(state, rule, now_us)]
            session.run("forget_turnstiles", names=text_array(names))
            return len(opened)

        opened = self._perform(tidy, single=False)
        if opened:
            self._notifier.call()
        return opened


def _reading(sql: Mapping[str, str]) -> dict[str, str]:
    """The statements of a round that looks, picks and judges, and is in nobody's way: it locks nothing."""
    locking = ("pick_places", "lock_limits", "lock_gates")
    unlocked = {name: _LOCKS.sub(lambda found: "true" if found[1] else "", sql[name]) for name in locking}
    return {**sql, **unlocked, "hold_worker": sql["now_us"]}


def _end_probes(session: Session, told: tuple[Passage, Sequence[tuple[JobId, bool]]]) -> None:
    """Tell one breaker how attempts ended."""
    passage, ends = told
    name = turnstile_name(passage)
    named = _named([passage])
    session.run("lock_limits", limits=named["bounds"])
    states = dict(session.run("states", names=named["names"]))
    rules = dict(session.run("rules", limits=named["bounds"]))
    now_us = to_us(utc(session.run("now")[0][0]))
    stile = codec.stile(codec.decode_rule(rules.get(passage.limit)), 0, states.get(name))
    if not isinstance(stile.rule, Breaker):
        return
    after = stile.breaker
    for job_id, failed in ends:
        after = end(stile.rule, after, job_id, now_us, failed=failed)
    if after is stile.breaker:
        return
    session.run("put_states", **named, states=text_array([codec.encode_state(after)]))
    open_us = now_us if after.open_until_us is None else after.open_until_us
    session.run("open_turnstile", name=name, open_us=open_us)


def _open_bound(session: Session, bounds: Sequence[str]) -> None:
    """Have what the turnstiles of these limits hold judged anew."""
    session.run("open_bound", bounds=text_array(bounds))


def _gates(session: Session) -> list[GateView]:
    return [
        GateView(GATES.decode(value.encode()), utc(since), held, passed_on)
        for value, since, passed_on, held in session.run("all_gates")
    ]


def _applicant(row: Any) -> Applicant:
    job_id, _, _, lane, _, _, _, run_us, *_, queue, collection, labels, flow, task, _, _, _ = row
    about = (collection, codec.decode_labels(labels), codec.decode_flow(flow))
    return Applicant(JobId(job_id), lane, run_us, task, queue, *about, row)


def _claimed(one: Applicant, now_us: int, is_probe: bool) -> Claimed:
    job_id, attempt, task, _, priority, args, policy, run_us, failures, crashes, alone, tick, *_, run, inputs, _ = (
        one.row
    )
    what = (JobId(job_id), attempt, task, one.queue, priority, args.encode(), codec.decode_policy(policy))
    return Claimed(*what, run_us, now_us, failures, crashes, alone, tick, one.flow, is_probe, run, inputs)


def _places(applicants: Iterable[Applicant]) -> dict[str, str]:
    return {"places": text_array([one.row[-1] for one in applicants])}


def _moves(moved: Sequence[tuple[Applicant, str]]) -> dict[str, str]:
    """Picked jobs with the lanes that they go to, as park_picked takes them."""
    rows = [one.row for one, _ in moved]
    return {
        "ids": array([row[0] for row in rows]),
        "attempts": array([row[1] for row in rows]),
        "lanes": text_array([lane for _, lane in moved]),
        "priorities": array([row[4] for row in rows]),
        "tasks": text_array([row[2] for row in rows]),
        "runs_us": array([row[7] for row in rows]),
        "failures": array([row[8] for row in rows]),
        "crashes": array([row[9] for row in rows]),
        "alone": array([row[10] for row in rows]),
        "keyed": array([row[12] for row in rows]),
        "expires_us": array([row[13] for row in rows]),
    }


def _holds(holds: Sequence[tuple[Applicant, Slot]]) -> dict[str, str]:
    return {
        "names": text_array([turnstile_name(slot.passage) for _, slot in holds]),
        "ids": array([one.job_id for one, _ in holds]),
        "attempts": array([one.row[1] for one, _ in holds]),
        "weights": array([slot.weight for _, slot in holds]),
    }


def _diverted(one: Applicant, queue: str) -> dict[str, Any]:
    flow = msgspec.structs.replace(one.flow or Flow(), diverted=True)
    lane = home_lane(queue, flow)
    return {"id": one.job_id, "queue": queue, "lane": lane, "flow": codec.encode_flow(flow)}


def _turnstiles(verdict: Verdict) -> list[tuple[str, dict[str, Any]]]:
    wanted: list[tuple[str, dict[str, Any]]] = []
    if verdict.states:
        states = text_array(map(codec.encode_state, verdict.states.values()))
        wanted.append(("put_states", {**_named(verdict.states), "states": states}))
    openings = {**verdict.opens, **dict.fromkeys(verdict.emptied)}
    if openings:
        values = {
            **_named(openings),
            "waits": array([passage not in verdict.emptied for passage in openings]),
            "opens_us": array(openings.values()),
        }
        wanted.append(("put_openings", values))
    return wanted


def _named(passages: Iterable[Passage]) -> dict[str, str]:
    passages = list(passages)
    return {
        "names": text_array(map(turnstile_name, passages)),
        "bounds": text_array([passage.limit for passage in passages]),
    }
