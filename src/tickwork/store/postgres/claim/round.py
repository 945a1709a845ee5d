"""A round of a limited claim on PostgreSQL (see store/claim/limited.py): one transaction, in a few round trips.

Rows of the queue are locked first, then limits and gates in the order of their names. All rounds keep this order, so
that they cannot deadlock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

import msgspec

from tickwork.core.ids import ClaimId, JobId, WorkerId
from tickwork.core.job import Claimed
from tickwork.core.limits.gates import GATES, Gate
from tickwork.core.limits.job_limits import JobLimits, LimitKey, LimitUse, limit_key_of, limit_key_text
from tickwork.core.limits.lanes import Lane, home_lane, read_lane
from tickwork.core.placement import ClaimingWorker
from tickwork.errors import LeaseLost
from tickwork.store.attempts import NO_CLAIM
from tickwork.store.claim import limit_state
from tickwork.store.claim.types import (
    BULK_WALK,
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
)
from tickwork.store.postgres.claim.cursor import FRONT, CursorPosition, ReleasedHolds
from tickwork.store.postgres.claim.positions import after_wishes, asked_for, read_up_to
from tickwork.store.postgres.connection.session import Session
from tickwork.store.postgres.connection.steps import Rows, Statement
from tickwork.store.postgres.params import array, text_array
from tickwork.store.rows.jobs import encode_job_limits
from tickwork.store.rows.limits import decode_rule
from tickwork.store.rows.workers import claiming_worker

Wanted = tuple[str, dict[str, Any]]
"""A named statement with its values."""


class PostgresClaimTx:
    """A round of a limited claim, inside a transaction. The finishes in `finishing` are stored first, as part of it.

    `reached` is how far places were read before, `released_holds` which holds have ended. What is learned of both, in
    `read` and `over`, is valid only after the transaction has committed.
    """

    def __init__(
        self,
        session: Session,
        sql: Mapping[str, str],
        worker: WorkerId,
        queues: Sequence[str],
        tasks: Sequence[str],
        read_now: Callable[[], datetime | None],
        released_holds: ReleasedHolds,
        reached: Mapping[Place, CursorPosition] = MappingProxyType({}),
        finishing: Sequence[Statement] = (),
        claim: ClaimId = NO_CLAIM,
    ) -> None:
        self._session = session
        self._sql = sql
        self._read_now = read_now
        self.worker = worker
        self._queues = list(queues)
        self._tasks = text_array(tasks)
        self._finishing = finishing
        self._reached = reached
        self._claim = claim
        self._overs = released_holds
        self.read: dict[Place, CursorPosition] = {}  # The position in each place before which no job is left.
        self.over: dict[str, int] = {}  # By limit key: all holds up to this number have ended.
        self.counted: set[str] = set()  # The limit keys of which all holds were counted.
        self._idle: list[str] = []  # The limit keys without live holds.
        self._locks_lanes = False  # It has waited for the locks of lanes in which order counts.
        self.now_us = 0
        self.finished: Rows = []  # The rows that the statement of the finishes returned.
        # The limit keys that the finishes freed, unless this round has already taken them into account.
        self.freed: list[str] = []
        self.claimed: list[Claimed] = []

    def _statements(self, *wanted: Wanted) -> list[Statement]:
        return [(self._sql[name], {"now": self._session.now, **values}) for name, values in wanted]

    def _together(self, *wanted: Wanted) -> list[Rows]:
        """Run named statements in one round trip."""
        return self._session.run_together(self._statements(*wanted))

    def snapshot(self) -> Snapshot:
        """Store the finishes, check the worker's lease, and read the snapshot, all in one round trip."""
        asked = asked_for(self._queues, self._reached)
        looking = self._statements(("leased", {"worker": self.worker}), ("surroundings", asked), ("heads", asked))
        found = self._session.run_together([*self._finishing, *looking])
        leased, ((gates, tenants, weights, empty, opens_at_us, waits),), heads = found[len(self._finishing) :]
        if self._finishing:
            self.finished = found[len(self._finishing) - 1]
            self.freed = [key_text for job_id, key_text in self.finished if job_id is None]
        # The finishes of this transaction have freed these keys, which are marked open only after the commit.
        if self.freed and waits:
            heads += self._freed_heads()
        self._check_lease(leased)
        self.now_us = leased[0][0]
        firsts = heads_in(heads, self._queues)
        self.read = read_up_to(self._reached, firsts, self._queues, self.now_us)
        return Snapshot(
            self.now_us,
            [GATES.decode(value.encode()) for value in gates],
            dict(zip(tenants, weights, strict=True)),
            firsts,
            [limit_key_of(name) for name in empty],
            opens_at_us,
        )

    def claiming_workers(self) -> list[ClaimingWorker]:
        (rows,) = self._together(("neighbours", {}))
        return [claiming_worker(*row) for row in rows]

    def _freed_heads(self) -> Rows:
        """Return the heads of held jobs under keys that the finishes freed: these count as open in this round."""
        (heads,) = self._together(("freed_heads", {"names": text_array(self.freed)}))
        return heads

    def _check_lease(self, found: Rows) -> None:
        if not found:
            raise LeaseLost(f"worker {self.worker} has no lease any more; it must register anew before it claims.")

    def pick(self, pick_requests: Sequence[PickRequest]) -> list[Candidate]:
        """Lock the worker's row against the reaper, and pick and lock due jobs.

        The first pick waits for the advisory locks of lanes in which order counts. A later one must not wait while it
        holds rows, and leaves out a lane that another round has locked.
        """
        lanes = [read_lane(pick_request.lane) for pick_request in pick_requests]
        asked = {
            "groups": array([pick_request.group for pick_request in pick_requests]),
            "of_groups": array([pick_request.of_group for pick_request in pick_requests]),
            "lanes": text_array([pick_request.lane for pick_request in pick_requests]),
            "priorities": array([pick_request.priority for pick_request in pick_requests]),
            "mosts": array([pick_request.most for pick_request in pick_requests]),
            "in_order": array([lane.in_order and lane.held_by is None for lane in lanes]),
            "graces_us": array([pick_request.grace_us for pick_request in pick_requests]),
            **after_wishes(self._reached, pick_requests),
            "limit_keys": text_array([self._opened(lane) for lane in lanes]),
            "tasks": self._tasks,
        }
        in_order = [
            pick_request.lane
            for pick_request, lane in zip(pick_requests, lanes, strict=True)
            if lane.in_order and not lane.held_by
        ]
        waits: list[Wanted] = []
        if in_order and not self._locks_lanes:
            waits, self._locks_lanes = [("lock_lanes", {"lanes": text_array(in_order)})], True
        held, *_, rows = self._together(("hold_worker", {"worker": self.worker}), *waits, ("pick_places", asked))
        self._check_lease(held)
        return [Candidate.of(PickedRow(*row)) for row in rows]

    def _opened(self, lane: Lane) -> str | None:
        """Return the limit key that must still be open for jobs of this lane; None: this round's finishes freed it."""
        name = None if lane.held_by is None else limit_key_text(lane.held_by)
        return None if name in self.freed else name

    def next_due_us(self, places: Sequence[Place]) -> int | None:
        lanes = text_array([lane for lane, _ in places])
        asked = {"lanes": lanes, "priorities": array([priority for _, priority in places]), "now_us": self.now_us}
        (((run_us,),),) = self._together(("next_due", asked))
        return None if run_us is None else int(run_us)

    def lane_scan(self, lane_scans: Sequence[LaneScan]) -> list[LaneScanResult]:
        """Run scan cursor steps. The worker's row is locked only if a job was found."""
        wanted: list[Wanted] = [("scout", self._scan_task(lane_scan)) for lane_scan in lane_scans]
        reports = [_scouted(rows) for rows in self._together(*wanted)]
        if any(found for found, _ in reports):
            (held,) = self._together(("hold_worker", {"worker": self.worker}))
            self._check_lease(held)
        return reports

    def _scan_task(self, lane_scan: LaneScan) -> dict[str, Any]:
        """Return the values of the statement `lane_scan`."""
        return {
            "lane": lane_scan.lane,
            "priority": lane_scan.priority,
            "after_us": lane_scan.after[0],
            "after_id": lane_scan.after[1] or FRONT.job_id,
            "until_us": lane_scan.limit_us(self.now_us),
            "kinds": text_array(one.row.kind_text for one in lane_scan.kinds),
            "tasks": self._tasks,
            "walk": lane_scan.walk,
            "most": lane_scan.most,
        }

    def lock(
        self, limit_keys: Iterable[LimitKey], picked: Mapping[LimitKey, int], gates: Mapping[LimitKey, Gate]
    ) -> dict[LimitKey, LimitState]:
        """Lock limits and gates and read their states in one round trip.

        The statements run in order, so all reads happen under the locks. Live weights are counted from the first hold
        that may still be live (`afters`).
        """
        names = {limit_key_text(limit_key): limit_key for limit_key in limit_keys}
        if not names:
            return {}
        wanted = {limit_key.limit for limit_key in names.values() if limit_key not in gates}
        limits, afters = text_array(sorted(wanted)), self._overs.after(names)
        given = {"names": text_array(names), "limits": limits, "afters": array(afters)}
        # One more than were picked, which tells whether the key holds any other job.
        held = {limit_key_text(limit_key): count + 1 for limit_key, count in picked.items()}
        locked, live_gates, ((self.now_us,),), rules, states, live, waiting, holding = self._together(
            ("lock_limits", {"limits": limits}),
            ("lock_gates", {"gates": text_array([gate.name for gate in gates.values()])}),
            # Read again, because the wait for the locks may have been long.
            ("now_us", {"now": self._read_now()}),
            ("rules", given),
            ("states", given),
            ("live_weights", given),
            ("count_held", {"picked": text_array(held), "mosts": array(held.values())}),
            ("waiting_bounds", given),
        )
        known = {name: decode_rule(rule) for name, rule in rules}
        self._let_go_of_freed(known.keys() - {limit for (limit,) in holding})
        lasting = {name for (name,) in live_gates}
        weight_of, state_of, count_of = {name: weight for name, weight, _ in live}, dict(states), dict(waiting)
        self._learn({name: first for name, _, first in live}, {name for (name,) in locked}, wanted)
        self.counted = {name for name, number in zip(names, afters, strict=True) if number == 0}
        after_of = dict(zip(names, afters, strict=True))
        locked_limits: dict[LimitKey, LimitState] = {}
        for name, limit_key in names.items():
            gate = gates.get(limit_key)
            if gate is None or gate.name in lasting:
                rule = known.get(limit_key.limit) if gate is None else gate.pace
                locked_limit = limit_state.read_state(rule, weight_of.get(name, 0), state_of.get(name))
                locked_limits[limit_key] = (
                    locked_limit._replace(waiting=count_of.get(name, 0)) if name in count_of else locked_limit
                )
        return self._with_firsts(locked_limits, after_of)

    def _learn(self, firsts: Mapping[str, int | None], locked: set[str], wanted: set[str]) -> None:
        """Note which holds have ended: those before the first live hold of a key, or before the holds to be taken.

        Only for limits that are old enough that all processes take their holds under its lock.
        """
        settled = self._overs.locked(locked, wanted - locked)
        ours = {name: first for name, first in firsts.items() if limit_key_of(name).limit in settled}
        self.over = {name: first - 1 for name, first in ours.items() if first is not None}
        self._idle = [name for name, first in ours.items() if first is None]

    def _let_go_of_freed(self, limits: set[str]) -> None:
        """Forget freed keys of limits that this round has locked and that hold no job.

        No job can be parked there before this round commits, and a later round sees the state that this one leaves.
        """
        self.freed = [name for name in self.freed if limit_key_of(name).limit not in limits]

    def _with_firsts(
        self, locked_limits: dict[LimitKey, LimitState], after_of: Mapping[str, int]
    ) -> dict[LimitKey, LimitState]:
        """Add what sequences need: the first held job, whether the marked job waits, and jobs waiting for a retry."""
        lines = [limit_key for limit_key, one in locked_limits.items() if one.is_in_order]
        if not lines:
            return locked_limits
        marked = [marker for limit_key in lines if (marker := locked_limits[limit_key].marker) is not None]
        named_lines = [limit_key_text(limit_key) for limit_key in lines]
        names, afters = text_array(named_lines), array([after_of[name] for name in named_lines])
        places = {"runs_us": array([run_us for run_us, _ in marked]), "ids": array([job_id for _, job_id in marked])}
        firsts, waiting, returned = self._together(
            ("held_firsts", {"names": names}),
            ("still_waiting", places),
            ("returned", {"names": names, "afters": afters}),
        )
        still = {job_id for (job_id,) in waiting}
        for name, run_us, job_id in firsts:
            locked_limits[limit_key_of(name)] = locked_limits[limit_key_of(name)]._replace(head=(run_us, JobId(job_id)))
        for limit_key in lines:
            marker = locked_limits[limit_key].marker
            if marker is not None and marker[1] not in still:
                locked_limits[limit_key] = locked_limits[limit_key]._replace(marker=None)
        return locked_limits | self._with_returned(locked_limits, returned)

    def _with_returned(self, locked_limits: Mapping[LimitKey, LimitState], rows: Rows) -> dict[LimitKey, LimitState]:
        """Return the sequences with the jobs that keep their places there. Holds of these jobs have not ended."""
        kept: dict[LimitKey, list[tuple[int, JobId]]] = {}
        for name, number, run_us, job_id in rows:
            kept.setdefault(limit_key_of(name), []).append((run_us, JobId(job_id)))
            if name in self._idle or name in self.over:
                self.over[name] = min(number - 1, self.over.get(name, number))
        self._idle = [name for name in self._idle if name not in self.over]
        return {
            limit_key: locked_limits[limit_key].with_returned(jobs, self.now_us) for limit_key, jobs in kept.items()
        }

    def apply(self, plan: ClaimPlan) -> int:
        """Write the plan and commit, in one round trip; return how many jobs were parked in bulk.

        Inside a transaction that several verbs share, the commit comes later.
        """
        wanted: list[Wanted] = [("park_alike", _alike(one, lane)) for one, lane in plan.bulk_parks]
        if plan.starts:
            places = _places(one for one, _ in plan.starts)
            wanted.append(
                (
                    "start_picked",
                    {**places, "worker": self.worker, "claim": str(self._claim), "now_us": str(self.now_us)},
                )
            )
        holds, taking = [(one, slot) for one, slots in plan.starts for slot in slots], len(wanted)
        if holds:
            wanted.append(("take_holds", _holds(holds, plan.on_retry)))
        diverts = [(one, _diverted(one, queue)) for one, queue in plan.diverts]
        parks = [*plan.parks, *((one, values["lane"]) for one, values in diverts)]
        wanted += [("divert_job", values) for _, values in diverts]
        if parks:
            wanted.append(("park_picked", {**_places(one for one, _ in parks), **_moves(parks)}))
        wanted += _limit_states(plan)
        wanted += [("pass_on", {"name": name, "count": count}) for name, count in plan.passed_on.items()]
        found = self._session.run_last(self._statements(*wanted))
        started = {one.place for one, _ in plan.starts}
        # Places where jobs were started come last, which keeps them when the cursor drops the oldest entries.
        self.read = dict(sorted(self.read.items(), key=lambda read: read[0] in started))
        if holds:
            ((number,),) = found[taking]
            # No hold of these keys was live, so all holds before the ones just taken have ended.
            self.over |= dict.fromkeys(self._idle, number - 1)
        # The plan writes the openings of these keys itself; they need no check after the commit.
        judged = {limit_key_text(limit_key) for limit_key in (*plan.opens, *plan.emptied)}
        self.freed = [name for name in self.freed if name not in judged]
        self.claimed += [
            claimed_job(
                one.row,
                queue=one.queue,
                claim=self._claim,
                now_us=self.now_us,
                job_limits=one.job_limits,
                is_probe=one.job_id in plan.probes,
            )
            for one, _ in plan.starts
        ]
        return sum(count for ((count,),) in found[: len(plan.bulk_parks)])


def heads_in(rows: Rows, queues: Sequence[str]) -> list[LaneHead]:
    """Decode the rows of `heads`, without the held jobs of other queues."""
    ours = {(lane, priority): rest for lane, priority, *rest in rows if read_lane(lane).queue in queues}
    return [LaneHead(*place, run_us, decode_rule(rule)) for place, (run_us, rule) in ours.items()]


def _scouted(rows: Rows) -> LaneScanResult:
    """Decode the rows of a scan step: the jobs, and the position in the last two columns.

    Without jobs there is one row, which has only the position.
    """
    found = [Candidate.of(PickedRow(id, *columns)) for id, *columns, _, _ in rows if id is not None]
    *_, run_us, job_id = rows[0]
    return found, None if run_us is None else (run_us, job_id)


def _places(candidates: Iterable[Candidate]) -> dict[str, str]:
    """Return the ctids of picked rows, which are locked and so cannot change."""
    return {"places": text_array([one.row.ctid for one in candidates])}


def _moves(moved: Sequence[tuple[Candidate, str]]) -> dict[str, str]:
    """Return picked jobs with their new lanes as the values of `park_picked`."""
    rows = [one.row for one, _ in moved]
    return {
        "ids": array([row.job_id for row in rows]),
        "attempts": array([row.attempt for row in rows]),
        "lanes": text_array([lane for _, lane in moved]),
        "priorities": array([row.priority for row in rows]),
        "tasks": text_array([row.task for row in rows]),
        "runs_us": array([row.run_at_us for row in rows]),
        "failures": array([row.failures for row in rows]),
        "crashes": array([row.crashes for row in rows]),
        "alone": array([row.alone for row in rows]),
        "keyed": array([row.keyed for row in rows]),
        "expires_us": array([row.expires_at_us for row in rows]),
        "losses": array([row.losses for row in rows]),
    }


def _alike(one: Candidate, lane: str) -> dict[str, Any]:
    """Return a job and the lane that it is parked in as the values of `park_alike`."""
    return {
        "place": one.lane,
        "priority": one.priority,
        "run_us": one.run_at_us,
        "job_id": one.job_id,
        "task": one.task,
        "queue": one.queue,
        "collection": one.collection,
        "labels": one.row.labels,
        "job_limits": one.row.job_limits,
        "lane": lane,
        "most": BULK_WALK,
    }


def _holds(holds: Sequence[tuple[Candidate, LimitUse]], on_retry: Mapping[LimitKey, str]) -> dict[str, str]:
    """Return the holds of started jobs as the values of `take_holds`."""
    return {
        "names": text_array([limit_key_text(slot.limit_key) for _, slot in holds]),
        "ids": array([one.job_id for one, _ in holds]),
        "attempts": array([one.row.attempt for one, _ in holds]),
        "weights": array([slot.weight for _, slot in holds]),
        "on_retry": array([on_retry.get(slot.limit_key) for _, slot in holds]),
    }


def _diverted(one: Candidate, queue: str) -> dict[str, Any]:
    """Return the values of `divert_job`: the job with its new queue, lane and job_limits."""
    job_limits = msgspec.structs.replace(one.job_limits or JobLimits(), diverted=True)
    lane = home_lane(queue, job_limits)
    return {"id": one.job_id, "queue": queue, "lane": lane, "job_limits": encode_job_limits(job_limits)}


def _limit_states(plan: ClaimPlan) -> list[Wanted]:
    """Return the statements that write the new states and openings of limit keys."""
    wanted: list[Wanted] = []
    if plan.states:
        states = text_array(map(limit_state.encode_state, plan.states.values()))
        wanted.append(("put_states", {**named(plan.states), "states": states}))
    openings = {**plan.opens, **dict.fromkeys(plan.emptied)}
    if openings:
        values = {
            **named(openings),
            "waits": array([limit_key not in plan.emptied for limit_key in openings]),
            "opens_us": array(openings.values()),
        }
        wanted.append(("put_openings", values))
    return wanted


def named(limit_keys: Iterable[LimitKey]) -> dict[str, str]:
    """Return the names of limit keys, and of their limits, as values of statements."""
    limit_keys = list(limit_keys)
    return {
        "names": text_array(map(limit_key_text, limit_keys)),
        "bounds": text_array([limit_key.limit for limit_key in limit_keys]),
    }
