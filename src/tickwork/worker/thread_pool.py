"""The pools of `app.worker()`: handlers run on threads of the user's own process, CPU-bound ones in child processes.

This is for development, tests and small deployments. `tickwork worker` uses `ChildPool` alone.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from tickwork.blobs import LargeResults
from tickwork.clock import Clock
from tickwork.store.base import Store
from tickwork.task import Task
from tickwork.worker.ipc.protocol import AskReply, Assignment, AttemptsEnded, ChildDied, FromExecutor, Returned
from tickwork.worker.process.child_pool import STALLED_S, ChildPool
from tickwork.worker.run.executor import Executor
from tickwork.worker.worker_types import AttemptRunner


class ThreadPool:
    """An executor in this process, with a pipe that is readable when it has messages."""

    def __init__(
        self,
        *,
        tasks: Mapping[str, Task[Any, Any]],
        store: Callable[[], Store],
        slots: int,
        clock: Clock,
        large_results: LargeResults,
        hidden: Collection[str],
        secret_env: str | None,
    ) -> None:
        self._news: deque[FromExecutor] = deque()
        self._lock = threading.Lock()
        self._closed = False
        self._readable, self._writable = os.pipe()
        os.set_blocking(self._readable, False)
        os.set_blocking(self._writable, False)
        self._executor = Executor(
            tasks=tasks,
            store=store,
            slots=slots,
            emit=self._emit,
            ended=lambda ends, idle: self._emit(AttemptsEnded(list(ends))),
            clock=clock,
            # The worker polls at least every second; waking it for output would make tiny chunks.
            stirred=lambda sink: None,
            replaces_threads=True,
            large_results=large_results,
            hidden=hidden,
            secret_env=secret_env,
        )

    def _emit(self, message: FromExecutor) -> None:
        self._news.append(message)
        self._call()

    def _call(self) -> None:
        with self._lock, suppress(BlockingIOError):
            if not self._closed:
                os.write(self._writable, b"!")

    def submit(self, assignments: Iterable[Assignment]) -> None:
        self._executor.run(list(assignments))

    def send(self, message: AskReply) -> None:
        """Pass a reply to the handler that waits for it."""
        self._executor.answer(message)

    def interrupt(self, job_id: str, claim: int, reason: str) -> None:
        self._executor.interrupt(job_id, claim, reason)

    def fileno(self) -> int:
        return self._readable

    def poll(self) -> list[FromExecutor]:
        """Return the messages of handlers since the last call."""
        with suppress(BlockingIOError):
            while os.read(self._readable, 4096):
                pass
        self._executor.flush()
        news = []
        while self._news:
            news.append(self._news.popleft())
        return news

    def recall(self) -> None:
        """Return the attempts that no thread has begun, as a `Returned` message."""
        self._emit(Returned(self._executor.recall()))

    def stop(self) -> None:
        self._executor.stop()
        with self._lock:  # an abandoned thread may still send a message
            self._closed = True
            os.close(self._readable)
            os.close(self._writable)


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
