"""What a worker serves, and what it needs of whoever runs its handlers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tickwork.core.placement.needs import NOTHING, Offer
from tickwork.worker.ipc.protocol import AskReply, Assignment, ChildDied, FromExecutor


class AttemptRunner(Protocol):
    """Whoever runs an attempt, so that it can be answered."""

    def send(self, message: AskReply) -> None: ...


class HandlerPools(Protocol):
    """Where handlers run. Implemented on threads and child processes, and by the simulator in virtual time."""

    def submit(self, assignments: Sequence[Assignment], alone: bool) -> None: ...

    def poll(self) -> Sequence[tuple[AttemptRunner, FromExecutor | ChildDied]]: ...

    def interrupt(self, job_id: str, claim: int, reason: str) -> None: ...

    def kill_holder(self, job_id: str) -> list[str]:
        """End the process that runs a job; return the jobs that ran beside it and died with it."""

    def kill_all(self) -> None:
        """End every handler at once, and run none any more."""

    def abandon(self) -> None:
        """End every handler at once; nothing more is heard of them, and new ones can be run."""

    def stop_running(self) -> None:
        """Tell every handler to stop; what that ends is given back. May be called from any thread."""

    def kill_running(self) -> None:
        """Kill every process that still runs a handler; its jobs are given back. May be called from any thread."""

    def solo_room(self) -> int: ...

    def tend(self, now: float) -> None: ...

    def stalled(self) -> bool: ...

    def filenos(self) -> list[int]:
        """Descriptors that are readable when `poll` has news."""

    def unsent(self) -> list[int]:
        """Those of them that `poll` has more to write to, as soon as they take it."""


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """What a worker serves, and what it has for jobs that need something (see core/placement/needs.py).

    Queues come with weights: the order in which they are asked is drawn by them.
    """

    queues: tuple[tuple[str, float], ...] = (("default", 1.0),)
    slots: int = 10
    host: str = "localhost"
    pid: int = 0
    version: str = ""
    offer: Offer = NOTHING
