"""Run the handlers of attempts, plain ones on threads and async ones on an event loop, with timeouts and cancellation.

The executor runs in a child process or in the user's own process. To end an attempt that runs too long or was
cancelled, it cancels an async handler, and raises an exception in the thread of a plain one. In a child process, a
handler that does not end then is reported as stuck, and the supervisor kills the process. In the user's process, its
thread is abandoned and replaced.
"""

from __future__ import annotations

import asyncio
import ctypes
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any

from tickwork import errors
from tickwork.blobs import LargeResults
from tickwork.clock import Clock
from tickwork.context import CurrentJob, set_current
from tickwork.otel import AttemptSpan, is_traced
from tickwork.store.base import LEASE, Store
from tickwork.store.rows.instants import from_us
from tickwork.task import Task
from tickwork.worker.ipc.protocol import Ask, Asked, AskReply, Assignment, AttemptEnd, FromExecutor, Started, Stuck
from tickwork.worker.run.attempt import Attempt, EndKind
from tickwork.worker.run.call import HandlerCalls
from tickwork.worker.run.capture import OutputSink, Recorder, attempt_sink
from tickwork.worker.run.delayed_calls import Timer
from tickwork.worker.run.mask import SecretMask

CANCEL_GRACE_S = 5.0  # time for a cancelled plain handler to stop by itself before it is interrupted
ASK_LOOK_S = 0.1
STUCK_GRACE_S = 0.5  # time for an interrupted handler to clean up
ENDS_AT_ONCE = 32  # the limit of ends, of at most 1 MiB each, in one message
TRANSACTION_LIMIT = LEASE / 3  # the limit of a handler's SQLite transaction, which blocks all other writers

Emit = Callable[[FromExecutor], None]
_NO_BLOBS = LargeResults(None)


class Executor:
    """Runs attempts: up to `slots` plain handlers at a time, and all async handlers concurrently."""

    def __init__(
        self,
        *,
        tasks: Mapping[str, Task[Any, Any]],
        store: Callable[[], Store],
        slots: int,
        emit: Emit,
        ended: Callable[[Sequence[AttemptEnd], bool], None],
        clock: Clock,
        stirred: Callable[[OutputSink], None],
        replaces_threads: bool,
        large_results: LargeResults = _NO_BLOBS,
        hidden: Collection[str] = (),
        secret_env: str | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        self._recorder = recorder
        self._tasks = tasks
        self.mask = SecretMask(hidden) if hidden else None
        self.secret_env = secret_env
        self._slots = slots
        self.emit = emit
        self._ended = ended
        self.clock = clock
        self._replaces_threads = replaces_threads
        self._calls = HandlerCalls(store, large_results, self._limit_transaction)
        self._ready: SimpleQueue[Attempt | None] = SimpleQueue()
        self._attempts: dict[tuple[str, int], Attempt] = {}
        self._threads = 0
        self._plain = 0  # number of plain attempts that have not ended
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._asked: dict[int, tuple[threading.Event, list[AskReply]]] = {}
        self._requests = count(1)
        self._timekeeper = Timer(clock)
        self._turns: dict[asyncio.AbstractEventLoop, list[AttemptEnd]] = {}  # ends of a loop's current iteration
        self._dirty: SimpleQueue[OutputSink] = SimpleQueue()
        self._stirred = stirred

    # -- requests of the worker

    def run(self, assignments: Sequence[Assignment]) -> None:
        """Queue some attempts and start them as soon as possible."""
        attempts = [Attempt(self, assignment, self._tasks.get(assignment.task)) for assignment in assignments]
        self._attempts.update((attempt.key, attempt) for attempt in attempts)
        on_loop = [one for one in attempts if one.task is not None and one.task.pool == "async"]
        plain = attempts if not on_loop else [one for one in attempts if one.task is None or one.task.pool != "async"]
        if plain:
            with self._lock:
                self._plain += len(plain)
            for attempt in plain:
                self._ready.put(attempt)
            self._want_threads()
        if on_loop:
            loop = self._event_loop()
            loop.call_soon_threadsafe(self._create_tasks, loop, on_loop)

    def recall(self) -> list[str]:
        """Remove the plain attempts that no thread has begun; return their job ids."""
        back: list[str] = []
        try:
            while True:
                attempt = self._ready.get_nowait()
                if attempt is not None and self._take_back(attempt):
                    back.append(attempt.job_id)
        except Empty:
            return back

    def _take_back(self, attempt: Attempt) -> bool:
        """Remove a queued attempt; return False if it had already ended."""
        self._attempts.pop(attempt.key, None)
        with self._lock:
            self._plain -= 1
        with attempt.lock:
            ended, attempt.sealed = attempt.sealed, True
        return not ended

    def interrupt(self, job_id: str, claim: int, reason: str) -> None:
        """End an attempt. For a cancelled plain handler, wait `CANCEL_GRACE_S` before interrupting it."""
        attempt = self._attempts.get((job_id, claim))
        if attempt is None:
            return
        attempt.cancelled = True
        if reason == "stop":
            self._insist(attempt, "released", "its worker had to release it")
        elif attempt.thread is None:
            self._insist(attempt, "cancelled", "cancelled while it ran")
        else:
            self._remind(attempt, CANCEL_GRACE_S, lambda: self._insist(attempt, "cancelled", "cancelled while it ran"))

    def answer(self, answer: AskReply) -> None:
        """Pass a reply to the handler that waits for it."""
        waiting = self._asked.pop(answer.request, None)
        if waiting is not None:
            event, slot = waiting
            slot.append(answer)
            event.set()

    def busy(self) -> bool:
        """Return whether any attempt has not ended."""
        return bool(self._attempts)

    def stir(self, sink: OutputSink) -> None:
        """Register a sink that has unsent output."""
        self._dirty.put(sink)
        self._stirred(sink)

    def flush(self) -> None:
        """Flush all sinks that have unsent output."""
        try:
            while True:
                self._dirty.get_nowait().flush()
        except Empty:
            return

    def stop(self) -> None:
        """Stop the threads after their current attempts, the timer, and the event loop."""
        for _ in range(self._threads):
            self._ready.put(None)
        self._timekeeper.stop()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)

    # -- plain handlers, on threads

    def _want_threads(self) -> None:
        """Start threads until there is one for each plain attempt, up to the slots."""
        with self._lock:
            missing = range(self._threads + 1, min(self._slots, self._plain) + 1)
            self._threads += len(missing)
        for number in missing:
            threading.Thread(target=self._work, name=f"tickwork-slot-{number}", daemon=True).start()

    def _work(self) -> None:
        while (attempt := self._ready.get()) is not None:
            if not self._run(attempt):
                return

    def _run(self, attempt: Attempt) -> bool:
        """Run one plain attempt; return False if it was abandoned meanwhile, so that this thread must end."""
        self._begin(attempt)
        thread = threading.get_ident()
        ends: list[AttemptEnd] = []
        given_up: bool | None = None
        while True:
            try:
                if not ends and self._enter(attempt, thread):
                    ends = self._calls.plain(attempt)
                with attempt.lock:
                    if given_up is None:  # it is set if an interruption below repeats the loop
                        given_up, attempt.sealed = attempt.sealed, True
                    if attempt.ending is not None:
                        _raise_in(thread, None)  # a late interruption must not hit the next attempt
                break
            except errors.Interrupted:
                ends = ends or attempt.interrupted()
        self._leave(attempt)
        if given_up and attempt.thread is not None:
            return False
        with self._lock:
            self._plain -= 1
        if ends and not given_up:
            self._tell(ends, self._ready.empty())
        return True

    @staticmethod
    def _enter(attempt: Attempt, thread: int) -> bool:
        """Make the attempt interruptible; return False if it was ended before it began."""
        with attempt.lock:
            if not attempt.sealed:
                attempt.thread = thread
            return not attempt.sealed

    def _limit_transaction(self, attempt: Attempt, store: Store) -> None:
        """Bound the time of a transaction on SQLite, because it blocks all other writers."""
        if store.url.startswith("sqlite"):
            limit_s = TRANSACTION_LIMIT.total_seconds()
            error = f"its transaction was open for more than {limit_s:g} s, which stops every other writer of the file"
            self._remind(attempt, limit_s, lambda: self._insist(attempt, "timed_out", error))

    # -- async handlers, on a loop

    def _event_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=_run_loop, args=(self._loop,), name="tickwork-loop", daemon=True).start()
        return self._loop

    def _create_tasks(self, loop: asyncio.AbstractEventLoop, attempts: list[Attempt]) -> None:
        for attempt in attempts:
            with attempt.lock:
                if not attempt.sealed:
                    attempt.future = loop.create_task(self._run_async(attempt))

    async def _run_async(self, attempt: Attempt) -> None:
        """Run one async attempt and report its end, unless it was abandoned meanwhile."""
        self._begin(attempt)
        ends = await self._calls.on_loop(attempt)
        with attempt.lock:
            given_up, attempt.sealed = attempt.sealed, True
        self._leave(attempt)
        if not given_up:
            self._gather(ends)

    def _gather(self, ends: list[AttemptEnd]) -> None:
        """Collect attempt ends, so that all ends of one iteration of the event loop are reported together."""
        loop = asyncio.get_running_loop()
        with self._lock:
            turn = self._turns.setdefault(loop, [])
            first = not turn
            turn += ends
        if first:
            loop.call_soon(self._end_turn, loop)

    def _end_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            ends = self._turns.pop(loop, [])
        if ends:
            self._tell(ends, True)

    # -- start and end of plain and async attempts

    def _begin(self, attempt: Attempt) -> None:
        """Prepare the context of a handler (output, secrets, current job, trace) and start its timeout."""
        attempt.began = self.clock.monotonic()
        if self._recorder is not None:
            self._recorder.begin(attempt.sink, attempt.job_id, attempt.claim)
        attempt_sink.set(attempt.sink)
        set_current(CurrentJob(attempt))
        if is_traced():
            given, now = attempt.given, from_us(self.clock.wall_us())
            attempt.span = AttemptSpan(given.task, given.queue, given.job_id, given.attempt, given.trace, now)
        timeout_s = attempt.given.timeout_s
        if timeout_s is not None or attempt.given.tells_start:
            self.emit(Started(attempt.job_id, attempt.claim, attempt.began))
        if timeout_s is not None:
            error = f"it ran for more than its timeout of {timeout_s:g} s"
            self._remind(attempt, timeout_s, lambda: self._insist(attempt, "timed_out", error))

    def _tell(self, ends: list[AttemptEnd], idle: bool) -> None:
        """Report ends, in parts of at most `ENDS_AT_ONCE`, which fit into a frame."""
        for start in range(0, len(ends), ENDS_AT_ONCE):
            self._ended(ends[start : start + ENDS_AT_ONCE], idle)

    def _leave(self, attempt: Attempt) -> None:
        """Clean up the context of an attempt that has ended, and flush its output."""
        if attempt.span is not None:
            attempt.span.end()
        set_current(None)
        attempt_sink.set(None)
        self._attempts.pop(attempt.key, None)
        for reminder in attempt.reminders:
            self._timekeeper.cancel(reminder)
        if self._recorder is not None:
            self._recorder.end(attempt.sink)
        else:
            attempt.sink.flush(final=True)

    # -- interrupting attempts

    def _remind(self, attempt: Attempt, seconds: float, make: Callable[[], None]) -> None:
        attempt.reminders.append(self._timekeeper.after(seconds, make))

    def _insist(self, attempt: Attempt, kind: EndKind, error: str) -> None:
        """Interrupt an attempt that has not ended, and give it up if it does not end within `STUCK_GRACE_S`."""
        with attempt.lock:
            if attempt.sealed or attempt.ending is not None:
                return
            attempt.ending = (kind, error)
            attempt.cancelled = True
            attempt.sealed = attempt.thread is None and attempt.future is None  # it never begins
            if attempt.future is not None:
                attempt.future.get_loop().call_soon_threadsafe(attempt.future.cancel)
            elif attempt.thread is not None:
                _raise_in(attempt.thread, errors.Interrupted)
        if attempt.sealed:
            self._attempts.pop(attempt.key, None)
            self._tell(attempt.interrupted(), True)
            return
        self._remind(attempt, STUCK_GRACE_S, lambda: self._give_up(attempt, kind, error))

    def _give_up(self, attempt: Attempt, kind: EndKind, error: str) -> None:
        """Report an attempt as stuck, or if threads are replaced, abandon its thread or loop and report its end."""
        with attempt.lock:
            if attempt.sealed:
                return
            attempt.sealed = self._replaces_threads
        if attempt.future is not None:
            self._end_turn(attempt.future.get_loop())  # the loop is blocked and may never do this itself
        if not self._replaces_threads:
            self.emit(Stuck(attempt.job_id, attempt.claim, kind, error, attempt.began))
            return
        self._attempts.pop(attempt.key, None)
        with self._lock:
            if attempt.future is None:
                self._threads -= 1  # its thread is abandoned; another is started when needed
                self._plain -= 1
            else:
                self._loop = None  # its loop is blocked; the next async attempt gets a new loop
        self._tell(attempt.interrupted(), True)
        self._want_threads()

    # -- requests of handlers

    def ask(self, attempt: Attempt, state: bytes | None, what: Asked = "state") -> AskReply:
        """Send a request to the worker and wait for the reply (see `Ask`): a state, the map index, or a secret."""
        request, event, slot = next(self._requests), threading.Event(), list[AskReply]()
        self._asked[request] = (event, slot)
        try:
            self.emit(Ask(request, attempt.job_id, attempt.claim, state, what))
            while not event.wait(ASK_LOOK_S):  # in short waits, because an interruption is raised only between them
                pass
            return slot[0]
        finally:
            self._asked.pop(request, None)


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Run an event loop until it is stopped, then cancel its tasks and close it."""
    loop.run_forever()
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


def _raise_in(thread: int, exception: type[BaseException] | None) -> None:
    """Raise an exception in another thread as soon as it runs Python code; None removes a pending exception."""
    target = None if exception is None else ctypes.py_object(exception)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), target)
