"""The state that the simulator's checks share: a copy of the tables, the history of each job, the acts of handlers.

It is derived from committed changes and from the actions of handlers; none of it is read from the store.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, get_type_hints

from sim.mirror import Change, FinishedRow, Mirror, QueueRow, RunningRow
from tickwork.core.job import Policy
from tickwork.services.runner import LAST_BACKOFF_S
from tickwork.store.base import Store
from tickwork.store.sqlite.file.clock import DRIFT_US
from tickwork.worker.ipc.protocol import AttemptEnd

if TYPE_CHECKING:
    from sim.actor import Actor
    from sim.processes import WorkerProcess
    from sim.world import World

Key = tuple[str, int]  # a job and the number of an attempt
HeldBy = tuple[str, int]  # a job and the claim by which an attempt holds it
CHARGED = frozenset(["failed", "timed_out"])  # the ends that count against a job's retries


@dataclass(slots=True)
class Call:
    """A committed store call: its caller, arguments, changes and answer. `now` is the store's time before it."""

    actor: Actor
    verb: str
    args: tuple[Any, ...]
    named: dict[str, Any]
    answer: Any
    changes: list[Change]
    now: int

    def arg(self, name: str) -> Any:
        """Return an argument by its name, whether it was passed by position or by keyword."""
        if name in self.named:
            return self.named[name]
        place, default = _parameters(self.verb)[name]
        return self.args[place] if place < len(self.args) else default

    def told(self) -> list[object]:
        """Return the changes and the answer for the trace, with sets sorted so that replays are equal."""
        answer = self.answer
        return [*self.changes, sorted(answer) if isinstance(answer, set) else answer]


@cache
def _parameters(verb: str) -> dict[str, tuple[int, Any]]:
    """Return the parameters of a verb: name -> (position, default)."""
    subject = next(one for one in (Store, *get_type_hints(Store).values()) if hasattr(one, verb))
    _, *parameters = inspect.signature(getattr(subject, verb)).parameters.values()
    return {one.name: (place, one.default) for place, one in enumerate(parameters)}


@dataclass(slots=True)
class Story:
    """The history of one job. A new generation begins with each manual retry."""

    attempt: int = 0
    open: bool = False
    generation: int = 0
    failures: int = 0
    cancelled: bool = False
    pruned: bool = False
    acknowledged: bool = False
    begun: bool = False  # it has started and has not reached a final state: in a sequence it keeps its position


@dataclass(slots=True)
class Claim:
    """When an attempt was claimed, in the world's time, and the job's policy at that time."""

    at_us: int
    policy: Policy


@dataclass(slots=True)
class Handler:
    """The actual behaviour of one handler, independent of what is stored about its attempt."""

    process: WorkerProcess
    number: int
    began: float
    exclusive: bool = False
    generation: int = 0
    wrote: int = 0
    gone: bool = False  # its process died
    unlogged: bool = False  # the store has lost some of its logs
    stuck: bool = False  # it was told to end and does not; its later actions are ignored
    end: AttemptEnd | None = None
    returned: bytes | None = None

    @property
    def runs(self) -> bool:
        return self.end is None and not self.gone


@dataclass
class Account:
    """The shared state of the checks."""

    world: World
    mirror: Mirror = field(default_factory=Mirror)
    stories: dict[str, Story] = field(default_factory=dict)
    claims: dict[Key, Claim] = field(default_factory=dict)
    closed: dict[Key, str] = field(default_factory=dict)  # the recorded end of each attempt
    handlers: dict[HeldBy, Handler] = field(default_factory=dict)
    holders: dict[str, list[str]] = field(default_factory=dict)  # idempotency key -> its live jobs
    identities: dict[str, WorkerProcess] = field(default_factory=dict)  # id of a registered worker -> its process

    @property
    def healing_us(self) -> int:
        """Return how long a process needs to recover after a fault: its heartbeat may be in a backoff."""
        return int((2 * self.world.config.lease_s + LAST_BACKOFF_S) * 1e6)

    def begin(self, job_id: str) -> None:
        """Start the history of an inserted job; drop the history of an earlier, pruned job with the same id."""
        for account in (self.claims, self.closed):
            for number in range(1, self.stories.get(job_id, Story()).attempt + 1):
                account.pop((job_id, number), None)
        for held in [one for one in self.handlers if one[0] == job_id]:
            del self.handlers[held]
        self.stories[job_id] = Story()

    def store_now(self) -> int:
        """Return the time of the store's clock, as defined by rule 12 of RELIABILITY.md."""
        clock = self.world.clock
        anchor = self.mirror.clock.get(1)
        if anchor is None:
            return clock.wall_us()
        went = anchor.wall + clock.steady_us() - anchor.steady
        return clock.wall_us() if clock.wall_us() - went > DRIFT_US else went

    def state_of(self, job_id: str) -> str | None:
        """Return a job's state by the name that the product uses; None if the job does not exist."""
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
        """Return the running attempt of a job, or None."""
        return self.mirror.running.get(job_id)
