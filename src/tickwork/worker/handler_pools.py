"""The options of a worker, and the interface of the pools (threads or child processes) that run its handlers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tickwork.core.placement import NOTHING, Offer
from tickwork.worker.ipc.protocol import AskReply, Assignment, ChildDied, FromExecutor


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
        """Return those of these descriptors that have unsent data, which `poll` writes when they are writable."""


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
