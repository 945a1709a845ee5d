"""Run one or many seeds of the simulator, in this process or in several, and report the outcomes."""

from __future__ import annotations

import logging
import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sim.config import Config
from sim.faults import FaultPlan
from sim.trace import Broken
from sim.world import World

REPEAT_EVERY = 50  # every 50th seed is run twice and must give the same events
# Events that must occur in a run, because a run without them does not test their handling.
REQUIRED = ("stale finish refused", "reclaimed", "reply lost", "tick: start", "a sequence's head came back")
_HOUR_US = 3_600_000_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one seed. `broken` is the name of a violated invariant; `told` are the last events."""

    seed: int
    hash: str
    hours: float
    counts: Counter[str]
    broken: str | None = None
    message: str = ""
    told: tuple[str, ...] = ()


@dataclass
class Report:
    """The combined outcomes of many seeds."""

    seeds: int = 0
    hours: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[Outcome] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        self.seeds += 1
        self.hours += outcome.hours
        self.counts.update(outcome.counts)
        if outcome.broken is not None:
            self.failures.append(outcome)

    @property
    def unseen(self) -> list[str]:
        """Return the required events that did not occur."""
        return [what for what in REQUIRED if not self.counts[what]]

    @property
    def good(self) -> bool:
        return not self.failures and not self.unseen


def run_seed(seed: int, config: Config | None = None, plan: FaultPlan | None = None) -> Outcome:
    """Run one seed to its end, or until an invariant is violated."""
    world = World(seed, config, plan)
    broken = None
    try:
        world.run()
    except Broken as error:
        broken = error
    trace, hours = world.trace, world.now_us / _HOUR_US
    if broken is None:
        return Outcome(seed, trace.hash(), hours, trace.counts)
    return Outcome(seed, trace.hash(), hours, trace.counts, broken.invariant, broken.message, tuple(trace.last()))


def run_seeds(
    seeds: Iterable[int], saw: Callable[[Report], None] = lambda report: None, *, most_failures: int = 1, jobs: int = 1
) -> Report:
    """Run seeds in `jobs` processes until `most_failures` of them have failed; `saw` is called after each.

    Every `REPEAT_EVERY`th seed is run twice, to check that it replays. Outcomes are reported in the order of the seeds,
    whatever the number of processes.
    """
    report = Report()
    with _outcomes(seeds, jobs) as outcomes:
        for outcome in outcomes:
            report.add(outcome)
            saw(report)
            if len(report.failures) >= most_failures:
                break
    return report


@contextmanager
def _outcomes(seeds: Iterable[int], jobs: int) -> Iterator[Iterator[Outcome]]:
    if jobs <= 1:
        yield map(_run_and_replay, seeds)
        return
    # Spawned, not forked, because a process that shows a progress bar has threads.
    with multiprocessing.get_context("spawn").Pool(jobs, quiet) as pool:
        yield pool.imap(_run_and_replay, seeds)


def quiet() -> None:
    """Disable the log messages of simulated workers, which report all injected faults."""
    logging.getLogger("tickwork").setLevel(logging.CRITICAL)


def _run_and_replay(seed: int) -> Outcome:
    outcome = run_seed(seed)
    return _replayed(outcome) if outcome.broken is None and seed % REPEAT_EVERY == 0 else outcome


def _replayed(first: Outcome) -> Outcome:
    again = run_seed(first.seed)
    if again.hash == first.hash:
        return first
    message = f"the same seed gave other events the second time: {first.hash} and {again.hash}"
    return Outcome(first.seed, again.hash, again.hours, again.counts, "REPLAY", message, again.told)
