"""The parts that a worker is made of: its options, the code that it runs, and the pools that run its handlers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from tickwork.clock import Clock
from tickwork.core.access.secret_policy import SecretUse
from tickwork.core.dag.graph import Graph
from tickwork.core.job import TaskDefinition
from tickwork.core.placement import NOTHING, Offer
from tickwork.core.schedule.spec import ScheduleSpec
from tickwork.core.workers.batch import Batch
from tickwork.observe.counters import Counters
from tickwork.store.base import Store, Waiter
from tickwork.worker.autoscale import Autoscaler
from tickwork.worker.ipc.protocol import AskReply, Assignment, ChildDied, FromExecutor
from tickwork.worker.lease import Lease

POLL_S = 5.0  # the poll interval when the store can notify the worker
POLL_ONLY_S = 0.5  # the poll interval when it cannot


class AttemptRunner(Protocol):
    """The thread pool or child process that runs an attempt, as the receiver of replies."""

    def send(self, message: AskReply) -> None: ...


class HandlerPools(Protocol):
    """The pools that run handlers. Implemented with threads and child processes, and by the simulator."""

    def submit(self, assignments: Sequence[Assignment], alone: bool) -> None: ...

    def poll(self) -> Sequence[tuple[AttemptRunner, FromExecutor | ChildDied]]: ...

    def interrupt(self, job_id: str, claim: int, reason: str) -> None: ...

    def kill_holder(self, job_id: str) -> list[str]:
        """Kill the process that runs a job; return the ids of the other jobs that it held."""

    def kill_all(self) -> None:
        """Stop every handler at once, and start no new ones."""

    def abandon(self) -> None:
        """Stop every handler at once and drop its messages; new handlers can be started."""

    def stop_running(self) -> None:
        """Tell every handler to stop; the attempts that end are released. May be called from any thread."""

    def kill_running(self) -> None:
        """Kill every process that still runs a handler; its jobs are released. May be called from any thread."""

    def solo_room(self) -> int: ...

    def tend(self, now: float) -> None: ...

    def stalled(self) -> bool: ...

    def filenos(self) -> list[int]:
        """Return the descriptors that are readable when `poll` has messages."""

    def unsent(self) -> list[int]:
        """Return the file descriptors with unsent data. Once they are writable, `poll` sends it."""


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """The options of a worker: its queues, slots, and the resources for jobs with needs (see core/placement.py).

    Each queue has a weight; each claim reads the queues in a weighted random order.
    """

    queues: tuple[tuple[str, float], ...] = (("default", 1.0),)
    slots: int = 10
    host: str = "localhost"
    pid: int = 0
    version: str = ""
    offer: Offer = NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCode:
    """The declarations of a worker's code. `solo_tasks` are the CPU-bound tasks, `batches` the rules of batch tasks."""

    tasks: Sequence[TaskDefinition]
    solo_tasks: frozenset[str] = frozenset()
    batches: Mapping[str, Batch] = field(default_factory=dict)
    schedules: Sequence[ScheduleSpec] = ()
    graphs: Sequence[Graph] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerParts:
    """The parts of a worker, shared by its claimer, its finisher and its handling of messages.

    `new_id` returns the id of a registration. `nudge_scheduler` wakes the scheduler of this process. `secret` opens a
    secret of the store. `poll_s`: the poll intervals if `waiter` can notify the worker, and if it cannot.
    """

    store: Store
    pools: HandlerPools
    code: WorkerCode
    options: WorkerOptions
    lease: Lease
    new_id: Callable[[], str]
    clock: Clock
    rng: Random
    waiter: Waiter | None = None
    poll_s: tuple[float, float] = (POLL_S, POLL_ONLY_S)
    nudge_scheduler: Callable[[], None] = lambda: None
    autoscaler: Autoscaler | None = None
    tally: Counters | None = None
    secret: Callable[[str, SecretUse], str | None] = lambda name, use: None
