"""The two implementations of `HandlerPools`: child processes only, or threads with child processes for solo tasks."""

from __future__ import annotations

from collections.abc import Sequence

from tickwork.clock import Clock
from tickwork.worker.handler_pools import AttemptRunner
from tickwork.worker.ipc.protocol import Assignment, AttemptsEnded, ChildDied, FromExecutor, Returned
from tickwork.worker.process.children import STALLED_S, ChildPool
from tickwork.worker.run.thread_pool import ThreadPool


class ChildPools:
    """The pools of `tickwork worker`: every handler runs in a child process, and can be killed."""

    def __init__(self, children: ChildPool) -> None:
        self._children = children
        self.submit = children.submit
        self.poll = children.poll
        self.interrupt = children.interrupt
        self.kill_holder = children.kill_holder
        self.kill_all = children.kill_all
        self.abandon = children.abandon
        self.stop_running = children.stop_running
        self.kill_running = children.kill_running
        self.solo_room = children.solo_room
        self.tend = children.tend
        self.stalled = children.stalled
        self.filenos = children.filenos
        self.unsent = children.unsent


class LocalPools:
    """The pools of `app.worker()`: threads of this process, and child processes for CPU-bound tasks."""

    def __init__(
        self, local: ThreadPool, children: ChildPool, solo_tasks: frozenset[str], slots: int, clock: Clock
    ) -> None:
        self._local = local
        self._children = children
        self._solo_tasks = solo_tasks
        self._slots = slots
        self._clock = clock
        self._here: set[tuple[str, int]] = set()  # the attempts on threads of this process
        self._moved_at = 0.0
        self._recalled = False

    def submit(self, assignments: Sequence[Assignment], alone: bool) -> None:
        """Run attempts of solo tasks in child processes, and all others on threads."""
        apart = [one for one in assignments if one.task in self._solo_tasks]
        here = [one for one in assignments if one.task not in self._solo_tasks]
        if here and not self._here:
            self._moved_at = self._clock.monotonic()
        self._here |= {(one.job_id, one.claim) for one in here}
        self._local.submit(here)
        if apart:
            self._children.submit(apart, alone)

    def poll(self) -> list[tuple[AttemptRunner, FromExecutor | ChildDied]]:
        """Return the messages of the threads and the children since the last call."""
        news: list[tuple[AttemptRunner, FromExecutor | ChildDied]] = []
        for message in self._local.poll():
            if isinstance(message, AttemptsEnded):
                self._here.difference_update((end.job_id, end.claim) for end in message.ends)
                self._moved_at, self._recalled = self._clock.monotonic(), False
            elif isinstance(message, Returned):
                self._here = {one for one in self._here if one[0] not in message.job_ids}
            news.append((self._local, message))
        return news + list(self._children.poll())

    def interrupt(self, job_id: str, claim: int, reason: str) -> None:
        self._local.interrupt(job_id, claim, reason)
        self._children.interrupt(job_id, claim, reason)

    def kill_holder(self, job_id: str) -> list[str]:
        """Kill the child that runs a job. A thread cannot be killed: its executor abandons it and reports the end."""
        return self._children.kill_holder(job_id)

    def kill_all(self) -> None:
        self._stop_threads()
        self._children.kill_all()

    def abandon(self) -> None:
        self._stop_threads()
        self._children.abandon()

    def _stop_threads(self) -> None:
        for job_id, claim in tuple(self._here):
            self._local.interrupt(job_id, claim, "stop")

    def stop_running(self) -> None:
        self._stop_threads()
        self._children.stop_running()

    def kill_running(self) -> None:
        """Kill the children that run handlers. A thread that does not stop is abandoned by its executor and runs on."""
        self._children.kill_running()

    def solo_room(self) -> int:
        return self._children.solo_room()

    def tend(self, now: float) -> None:
        """Recall attempts that wait behind slow ones on the threads, and tend the children, which do the same."""
        if now - self._moved_at > STALLED_S and not self._recalled and len(self._here) > self._slots:
            self._recalled = True
            self._local.recall()
        self._children.tend(now)

    def stalled(self) -> bool:
        return self._recalled or self._children.stalled()

    def filenos(self) -> list[int]:
        return [self._local.fileno(), *self._children.filenos()]

    def unsent(self) -> list[int]:
        return self._children.unsent()
