"""What the judge knows: the copy of the tables, each job's story so far, and what handlers really did.

All of it is kept from what was committed and from what handlers did, and none of it is read from the store.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from sim.mirror import Change, FinishedRow, Mirror, QueueRow, RunningRow
from tickwork.core.job import Policy
from tickwork.services.runner import LAST_BACKOFF_S
from tickwork.store.sqlite import SqliteStore
from tickwork.store.sqlite.file.clock import DRIFT_US
from tickwork.worker.ipc.protocol import AttemptEnd

if TYPE_CHECKING:
    from sim.actor import Actor
    from sim.processes import WorkerProcess
    from sim.world import World

Key = tuple[str, int]  # a job and the number of an attempt
HeldBy = tuple[str, int]  # a job and the claim by which an attempt holds it
CHARGED = frozenset(["failed", "timed_out"])  # what counts against a job's retries


@dataclass(slots=True)
class Call:
    """A verb that was committed: who asked for what, and what came of it. `now` is the store's, before it."""

    actor: Actor
    verb: str
    args: tuple[Any, ...]
    named: dict[str, Any]
    answer: Any
    changes: list[Change]
    now: int

    def arg(self, name: str) -> Any:
        """An argument by its name, however it was passed."""
        if name in self.named:
            return self.named[name]
        place, default = _parameters(self.verb)[name]
        return self.args[place] if place < len(self.args) else default

    def told(self) -> list[object]:
        """For the trace: the same at every replay, whatever order sets have."""
        answer = self.answer
        return [*self.changes, sorted(answer) if isinstance(answer, set) else answer]


@cache
def _parameters(verb: str) -> dict[str, tuple[int, Any]]:
    """The parameters of a verb: their place among the arguments, and their default."""
    _, *parameters = inspect.signature(getattr(SqliteStore, verb)).parameters.values()
    return {one.name: (place, one.default) for place, one in enumerate(parameters)}


@dataclass(slots=True)
class Story:
    """One job so far. A generation begins with the job, and anew with each retry by an operator."""

    attempt: int = 0
    open: bool = False
    generation: int = 0
    failures: int = 0
    cancelled: bool = False
    pruned: bool = False
    acknowledged: bool = False
    begun: bool = False  # it has started, and has not ended for good since: in a sequence it keeps its place


@dataclass(slots=True)
class Claim:
    """When an attempt was claimed, in the world's time, and under which rules."""

    at_us: int
    policy: Policy


@dataclass(slots=True)
class Handler:
    """What one handler did: the truth about an attempt, whatever is stored of it."""

    process: WorkerProcess
    number: int
    began: float
    exclusive: bool = False
    generation: int = 0
    wrote: int = 0
    gone: bool = False  # its process died under it
    unlogged: bool = False  # the store has lost some of what it wrote
    stuck: bool = False  # it was told to end, and does not: what it does from here on is not asked for
    end: AttemptEnd | None = None
    returned: bytes | None = None

    @property
    def runs(self) -> bool:
        return self.end is None and not self.gone


@dataclass
class Account:
    """Everything that the checks share."""

    world: World
    mirror: Mirror = field(default_factory=Mirror)
    stories: dict[str, Story] = field(default_factory=dict)
    claims: dict[Key, Claim] = field(default_factory=dict)
    closed: dict[Key, str] = field(default_factory=dict)  # how each attempt is recorded to have ended
    handlers: dict[HeldBy, Handler] = field(default_factory=dict)
    holders: dict[str, list[str]] = field(default_factory=dict)  # of keys: the jobs with it that live
    identities: dict[str, WorkerProcess] = field(default_factory=dict)  # the names under which workers registered

    @property
    def healing_us(self) -> int:
        """A process that was disturbed needs so long to be well again: its heartbeat may be waiting to try anew."""
        return int((2 * self.world.config.lease_s + LAST_BACKOFF_S) * 1e6)

    def begin(self, job_id: str) -> None:
        """A job was inserted. After it was pruned nobody knows its id, so one that comes so late begins anew."""
        for account in (self.claims, self.closed):
            for number in range(1, self.stories.get(job_id, Story()).attempt + 1):
                account.pop((job_id, number), None)
        for held in [one for one in self.handlers if one[0] == job_id]:
            del self.handlers[held]
        self.stories[job_id] = Story()

    def store_now(self) -> int:
        """The store's clock as RELIABILITY.md rule 12 has it."""
        clock = self.world.clock
        anchor = self.mirror.clock.get(1)
        if anchor is None:
            return clock.wall_us()
        went = anchor.wall + clock.steady_us() - anchor.steady
        return clock.wall_us() if clock.wall_us() - went > DRIFT_US else went

    def state_of(self, job_id: str) -> str | None:
        """A job's state in the words of the product."""
        match self.mirror.standing(job_id):
            case QueueRow():
                return "queued"
            case RunningRow():
                return "running"
            case FinishedRow(state=state):
                return state
            case None:
                return None

    def current(self, job_id: str) -> RunningRow | None:
        """The attempt that holds a job, if one does."""
        return self.mirror.running.get(job_id)
