"""Run handlers on threads of the user's own process, for `app.worker()`: development, tests and small deployments."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

from tickwork.blobs import LargeResults
from tickwork.clock import Clock
from tickwork.store.base import Store
from tickwork.task import Task
from tickwork.worker.ipc.protocol import AskReply, Assignment, AttemptsEnded, FromExecutor, Returned
from tickwork.worker.run.executor import Executor


class ThreadPool:
    """An executor in this process, with a pipe that is readable when it has messages."""

    def __init__(
        self,
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
            tasks,
            store,
            slots,
            self._emit,
            lambda ends, idle: self._emit(AttemptsEnded(list(ends))),
            clock,
            lambda sink: None,  # the worker polls at least every second; waking it for output would make tiny chunks
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
