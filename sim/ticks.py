"""Schedules in a simulated world, and the checks of their occurrences (TICK). It shares no code with the scheduler.

A schedule here has a fixed period from its start to its end, so its occurrences are enumerated without a rule. At the
end, every occurrence must have been decided: kills, lost answers and steps of the host's clock may delay an occurrence,
but it never fires early or twice, and is never forgotten. All schedules catch up all missed occurrences; the unit tests
of the core cover the other catch-up policies.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING

import msgspec

from sim.mirror import Change, FireRow, JobRow
from sim.trace import hold
from tickwork.core.recurrence.base_rule import RuleValue
from tickwork.core.recurrence.interval import after, every
from tickwork.core.schedule.spec import ScheduleSpec, new_spec
from tickwork.store.rows.instants import from_us

if TYPE_CHECKING:
    from sim.account import Call
    from sim.world import World

SHARE = 0.3  # the share of worlds that have schedules
_WAITS = frozenset(["queue", "cancel_older"])


@dataclass(frozen=True, slots=True)
class Rhythm:
    """A schedule as the checks know it. Without a period, it is due some time after the end of its last run."""

    name: str
    period_us: int | None
    start_us: int
    end_us: int
    overlap: str

    def due(self) -> list[int]:
        return [] if self.period_us is None else list(range(self.start_us, self.end_us + 1, self.period_us))


class Ticks:
    """Draws schedules, and checks each of their occurrences."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rhythms: dict[str, Rhythm] = {}
        self._runs: dict[str, list[str]] = {}
        self._judged: dict[tuple[str, int], str] = {}  # all decisions; the table is pruned
        rng = world.stream("schedules")
        if rng.random() < SHARE and not world.is_lossy:  # in a lossy world, an occurrence may fire twice
            for n in range(rng.choice((1, 2, 4))):
                self._draw(rng, f"s{n}")

    def __bool__(self) -> bool:
        return bool(self._rhythms)

    def _draw(self, rng: Random, name: str) -> None:
        now_us, horizon_s = self._world.clock.wall_us(), self._world.config.horizon_s
        start_us = now_us + rng.randrange(int(horizon_s / 2 * 1e6))
        period_us = rng.choice((None, 1_000_000, 5_000_000, 7_300_000, rng.randrange(2_000_000, 20_000_000)))
        end_us = start_us + min(int(horizon_s * 1e6), 40 * (period_us or 1_000_000))
        self._rhythms[name] = Rhythm(
            name, period_us, start_us, end_us, rng.choice(("allow", "skip", "queue", "cancel"))
        )

    def specs(self) -> list[ScheduleSpec]:
        """Return the schedules to store; their handlers are calm, and the first worker serves their task and queue."""
        config = self._world.config
        args = msgspec.json.encode({"nature": "calm"})
        return [
            new_spec(
                one.name,
                config.tasks[0].name,
                _rule(one),
                args,
                start=from_us(one.start_us),
                end=from_us(one.end_us),
                catchup="all",
                overlap=one.overlap,
                queue=config.queues[0],
            )
            for one in self._rhythms.values()
        ]

    def over(self) -> bool:
        """Return whether no occurrence is due or waits."""
        if not self._rhythms:
            return True
        query = "SELECT count(*) FROM tickwork_schedules WHERE wake_at IS NOT NULL OR waiting <> '[]'"
        ((left,),) = self._world.raw.execute(query).fetchall()
        return left == 0

    # -- checks

    def plan_round(self, call: Call) -> None:
        """Check the occurrences that a call decided, before the copy of the tables is updated."""
        fires = [change for change in call.changes if isinstance(change.new, FireRow)]
        made = [change.new.id for change in call.changes if isinstance(change.new, JobRow) and change.old is None]
        if call.verb == "move_schedules":
            started = [change.new.job_id for change in fires if change.new.action == "start"]  # type: ignore[union-attr]
            hold(sorted(map(str, started)) == sorted(made), "TICK", f"{started} were fired, and {made} were made")
        for change in fires:
            self._judge_fire(call, change)

    def _judge_fire(self, call: Call, change: Change) -> None:
        row, rhythm = change.new, self._rhythms[change.new.schedule]
        what = f"{row.schedule} at {row.due_at}"
        hold(call.verb == "move_schedules", "TICK", f"{call.verb} fired {what}")
        before = self._judged.get((row.schedule, row.due_at), "queue")
        hold(before in _WAITS, "TICK", f"{what} was judged twice: {before}, {row.action}")
        hold(row.due_at <= call.now, "TICK", f"{what} was fired {(row.due_at - call.now) / 1e6:g} s early")
        hold(row.fired_at == call.now, "S26", f"{what} was not fired at the store's time")
        if rhythm.period_us is not None:
            on_beat = (row.due_at - rhythm.start_us) % rhythm.period_us == 0
            hold(on_beat and rhythm.start_us <= row.due_at <= rhythm.end_us, "TICK", f"{what} is not due then")
        if row.action == "start":
            self._judge_start(rhythm, str(row.job_id), what)
        self._judged[row.schedule, row.due_at] = row.action
        self._world.trace.count(f"tick: {row.action}")

    def _judge_start(self, rhythm: Rhythm, job_id: str, what: str) -> None:
        """Check that earlier runs have ended, unless runs may overlap."""
        runs = self._runs.setdefault(rhythm.name, [])
        live = [one for one in runs if self._world.plan_round.account.mirror.live(one)]
        hold(not live or rhythm.overlap == "allow", "TICK", f"{what} was started while {live} lives")
        runs.append(job_id)

    def finally_check(self) -> None:
        """Check that every occurrence that was due has been decided."""
        for rhythm in self._rhythms.values():
            found = sorted(due for schedule, due in self._judged if schedule == rhythm.name)
            if rhythm.period_us is not None:
                missing = sorted(set(rhythm.due()) - set(found))
                hold(not missing, "TICK", f"{rhythm.name} was never judged at {missing[:3]} ({len(missing)} in all)")
            elif rhythm.end_us <= self._world.plan_round.account.store_now():
                hold(bool(found), "TICK", f"{rhythm.name} never ran")


def _rule(rhythm: Rhythm) -> RuleValue:
    if rhythm.period_us is None:
        return after("2s")
    return every(timedelta(microseconds=rhythm.period_us))
