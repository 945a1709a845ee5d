"""A round of a limited claim on PostgreSQL (see store/claim/limited.py): one transaction, in a few round trips.

`limited.run_round` calls the steps in this order: `snapshot`, `pick` (or `lane_scan`), `lock`, `apply`; between the
last two it decides which jobs are admitted. Rows of the queue are locked first, then limits and gates in the order of
their names. All rounds keep this order, so that they cannot deadlock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

from tickwork.core.ids import ClaimId, JobId, WorkerId
from tickwork.core.job import Claimed
from tickwork.core.limits.gates import GATES, Gate
from tickwork.core.limits.job_limits import LimitKey, limit_key_of, limit_key_text
from tickwork.core.limits.lanes import Lane, read_lane
from tickwork.core.placement import ClaimingWorker
from tickwork.errors import LeaseLost
from tickwork.store.attempt_types import NO_CLAIM
from tickwork.store.claim import limit_state
from tickwork.store.claim.picked_row import PickedRow, claimed_job
from tickwork.store.claim.types import (
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
from tickwork.store.postgres.claim.claim_cursor import FRONT, CursorPosition
from tickwork.store.postgres.claim.plan_values import Wanted, plan_writes
from tickwork.store.postgres.claim.positions import after_wishes, asked_for, read_up_to
from tickwork.store.postgres.connection.libpq_connection import Rows, Statement
from tickwork.store.postgres.connection.session import Session
from tickwork.store.postgres.limit_openings import ReleasedHolds, RoundHolds
from tickwork.store.postgres.params import array, text_array
from tickwork.store.rows.limits import decode_rule
from tickwork.store.rows.workers import claiming_worker


class PostgresClaimTx:
    """A round of a limited claim, inside a transaction. The finishes in `finishing` are stored first, as part of it.

    `reached` is how far earlier claims have read each place, `released_holds` up to which number the holds of limit
    keys have ended. What the round learns about them, in `read` and `holds`, is valid only after the commit.
    """

    def __init__(
        self,
        session: Session,
        sql: Mapping[str, str],
        *,
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
        self._locks_lanes = False  # It has waited for the locks of lanes in which order counts.
        self.now_us = 0
        self.holds = RoundHolds(released_holds)
        self.read: dict[Place, CursorPosition] = {}  # The position in each place before which no job is left.
        self.finished: Rows = []  # The rows that the statement of the finishes returned.
        # The limit keys that the finishes freed, unless this round has already taken them into account.
        self.freed: list[str] = []
        self.claimed: list[Claimed] = []

    def _statements(self, *wanted: Wanted) -> list[Statement]:
        """Return named statements with the time of a test added to their values."""
        return [(self._sql[name], {"now": self._session.now, **values}) for name, values in wanted]

    def _together(self, *wanted: Wanted) -> list[Rows]:
        """Run named statements in one round trip; return the rows of each."""
        return self._session.run_together(self._statements(*wanted))

    # -- snapshot

    def snapshot(self) -> Snapshot:
        """Store the finishes, check the worker's lease, and return the snapshot, all in one round trip.

        Nothing is locked. What the snapshot shows is checked again under locks, by `pick` and `lock`.
        """
        asked = asked_for(self._queues, self._reached)
        looking = self._statements(("leased", {"worker": self.worker}), ("surroundings", asked), ("heads", asked))
        *finished, leased, (around,), heads = self._session.run_together([*self._finishing, *looking])
        gates, tenants, weights, empty, opens_at_us, waits = around
        if finished:
            self.finished = finished[-1]
            self.freed = [key_text for job_id, key_text in self.finished if job_id is None]
        # The finishes of this transaction have freed these keys, which are marked open only after the commit.
        if self.freed and waits:
            heads += self._freed_heads()
        self._check_lease(leased)
        ((self.now_us, *_),) = leased
        firsts = heads_in(heads, self._queues)
        self.read = read_up_to(self._reached, firsts, self._queues, self.now_us)
        return Snapshot(
            now_us=self.now_us,
            gates=[GATES.decode(value.encode()) for value in gates],
            weights=dict(zip(tenants, weights, strict=True)),
            heads=firsts,
            empty=[limit_key_of(name) for name in empty],
            opens_at_us=opens_at_us,
        )

    def claiming_workers(self) -> list[ClaimingWorker]:
        (rows,) = self._together(("neighbours", {}))
        return [claiming_worker(*row) for row in rows]

    def _freed_heads(self) -> Rows:
        """Return the first held jobs under keys that the finishes freed: these keys count as open in this round."""
        (heads,) = self._together(("freed_heads", {"names": text_array(self.freed)}))
        return heads

    def _check_lease(self, found: Rows) -> None:
        """Raise LeaseLost if the statement that checks the worker's lease has returned no row."""
        if not found:
            raise LeaseLost(f"worker {self.worker} has no lease any more; it must register again before it claims.")

    # -- pick

    def pick(self, pick_requests: Sequence[PickRequest]) -> list[Candidate]:
        """Lock the worker's row against the reaper, then pick and lock due jobs, and return them.

        A picked job stays locked until the round commits, so no other claim sees it. The first pick waits for the
        advisory locks of lanes in which order counts. A later one must not wait while it holds rows, and leaves out a
        lane that another round has locked.
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
        """Return the name of the limit key that must still be open when jobs of this lane are picked.

        None if no limit holds jobs of the lane, or this round's finishes have freed the key.
        """
        name = None if lane.held_by is None else limit_key_text(lane.held_by)
        return None if name in self.freed else name

    def next_due_us(self, places: Sequence[Place]) -> int | None:
        lanes = text_array([lane for lane, _ in places])
        asked = {"lanes": lanes, "priorities": array([priority for _, priority in places]), "now_us": self.now_us}
        (((run_us,),),) = self._together(("next_due", asked))
        return None if run_us is None else int(run_us)

    def lane_scan(self, lane_scans: Sequence[LaneScan]) -> list[LaneScanResult]:
        """Run steps of scan cursors and return their results. The worker's row is locked only if a job was found."""
        wanted: list[Wanted] = [("scout", self._scan_task(lane_scan)) for lane_scan in lane_scans]
        reports = [_scouted(rows) for rows in self._together(*wanted)]
        if any(found for found, _ in reports):
            (held,) = self._together(("hold_worker", {"worker": self.worker}))
            self._check_lease(held)
        return reports

    def _scan_task(self, lane_scan: LaneScan) -> dict[str, Any]:
        """Return the values of the statement that runs one step of a scan cursor."""
        after_us, after_id = lane_scan.after
        return {
            "lane": lane_scan.lane,
            "priority": lane_scan.priority,
            "after_us": after_us,
            "after_id": after_id or FRONT.job_id,
            "until_us": lane_scan.limit_us(self.now_us),
            "kinds": text_array(one.row.kind_text for one in lane_scan.kinds),
            "tasks": self._tasks,
            "walk": lane_scan.walk,
            "most": lane_scan.most,
        }

    # -- lock

    def lock(
        self, limit_keys: Iterable[LimitKey], picked: Mapping[LimitKey, int], gates: Mapping[LimitKey, Gate]
    ) -> dict[LimitKey, LimitState]:
        """Lock limits and gates and return their states, in one round trip.

        The statements run in order, so all reads happen under the locks: until this round commits, no other round adds
        to what a limit counts. Live weights are counted from the first hold that may still be live (`afters`).
        """
        names = {limit_key_text(limit_key): limit_key for limit_key in limit_keys}
        if not names:
            return {}
        wanted = {limit_key.limit for limit_key in names.values() if limit_key not in gates}
        limits, afters = text_array(sorted(wanted)), self.holds.afters(names)
        given = {"names": text_array(names), "limits": limits, "afters": array(afters.values())}
        # One more than were picked, which tells whether the key holds any other job.
        held = {limit_key_text(limit_key): count + 1 for limit_key, count in picked.items()}
        locked, live_gates, ((self.now_us,),), rules, states, live, counts, holding = self._together(
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
        self.holds.note_live({name: first for name, _, first in live}, {name for (name,) in locked}, wanted)
        known = {name: decode_rule(rule) for name, rule in rules}
        self._forget_freed(known.keys() - {limit for (limit,) in holding})
        lasting = {name for (name,) in live_gates}
        weight_of, state_of, count_of = {name: weight for name, weight, _ in live}, dict(states), dict(counts)
        read: dict[LimitKey, LimitState] = {}
        for name, limit_key in names.items():
            gate = gates.get(limit_key)
            if gate is None or gate.name in lasting:
                rule = known.get(limit_key.limit) if gate is None else gate.pace
                state = limit_state.read_state(rule, weight_of.get(name, 0), state_of.get(name))
                read[limit_key] = state._replace(waiting=count_of.get(name, 0))
        return self._with_sequences(read, afters)

    def _forget_freed(self, limits: set[str]) -> None:
        """Remove from `freed` the keys of these limits, which this round has locked and which hold no job.

        No job can be parked there before this round commits, and a later round sees the state that this one leaves.
        """
        self.freed = [name for name in self.freed if limit_key_of(name).limit not in limits]

    def _with_sequences(
        self, states: dict[LimitKey, LimitState], after_of: Mapping[str, int]
    ) -> dict[LimitKey, LimitState]:
        """Return the states with the fields of sequences added.

        These are the first held job, the marker if its job still waits, and the jobs that wait for a retry.
        """
        sequences = {limit_key_text(limit_key): limit_key for limit_key, one in states.items() if one.is_in_order}
        if not sequences:
            return states
        marked = [marker for limit_key in sequences.values() if (marker := states[limit_key].marker) is not None]
        names, afters = text_array(sequences), array([after_of[name] for name in sequences])
        places = {"runs_us": array([run_us for run_us, _ in marked]), "ids": array([job_id for _, job_id in marked])}
        firsts, waiting, returned = self._together(
            ("held_firsts", {"names": names}),
            ("still_waiting", places),
            ("returned", {"names": names, "afters": afters}),
        )
        still = {JobId(job_id) for (job_id,) in waiting}
        heads = {name: (run_us, JobId(job_id)) for name, run_us, job_id in firsts}
        kept: dict[str, list[tuple[int, JobId]]] = {}
        for name, number, run_us, job_id in returned:
            kept.setdefault(name, []).append((run_us, JobId(job_id)))
            self.holds.note_returned(name, number)
        for name, limit_key in sequences.items():
            marker = states[limit_key].marker
            waits = marker is not None and marker[1] in still
            state = states[limit_key]._replace(head=heads.get(name), marker=marker if waits else None)
            states[limit_key] = state.with_returned(kept.get(name, ()), self.now_us)
        return states

    # -- apply

    def apply(self, plan: ClaimPlan) -> int:
        """Write the plan and commit, in one round trip; return how many jobs were parked in bulk.

        The locks of `pick` and `lock` are held until then, so the plan still fits the rows that it changes. Inside a
        transaction that several verbs share, the commit comes later.
        """
        wanted = plan_writes(plan, self.worker, self._claim, self.now_us)
        found = self._session.run_last(self._statements(*wanted))
        counted = list(zip((name for name, _ in wanted), found, strict=True))
        for _, ((number,),) in (one for one in counted if one[0] == "take_holds"):
            self.holds.note_taken(number)
        started = {one.place for one, _ in plan.starts}
        # Places where jobs were started come last, which keeps them when the cursor drops the oldest entries.
        self.read = dict(sorted(self.read.items(), key=lambda read: read[0] in started))
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
        return sum(count for name, rows in counted if name == "park_alike" for (count,) in rows)


def heads_in(rows: Rows, queues: Sequence[str]) -> list[LaneHead]:
    """Return the first jobs of places from the rows of the statement `heads`, without held jobs of other queues."""
    ours = {(lane, priority): rest for lane, priority, *rest in rows if read_lane(lane).queue in queues}
    return [LaneHead(*place, run_us, decode_rule(rule)) for place, (run_us, rule) in ours.items()]


def _scouted(rows: Rows) -> LaneScanResult:
    """Return the result of one step of a scan cursor: the jobs, and the position in the last two columns.

    Without jobs there is one row, which has only the position.
    """
    found = [Candidate.of(PickedRow(id, *columns)) for id, *columns, _, _ in rows if id is not None]
    *_, run_us, job_id = next(iter(rows))
    return found, None if run_us is None else (run_us, job_id)
