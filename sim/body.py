"""A simulated child process: it receives frames, runs handlers in virtual time, and sends frames.

It behaves like worker/run/executor.py on threads, with the same timeouts and grace periods. The actions of handlers
are drawn in workloads/handlers.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import count
from math import ceil
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from sim.actor import Actor
from sim.faults import SECOND, Unreachable
from sim.trace import hold
from sim.workloads.handlers import Script, draw_script
from tickwork.core.ids import ClaimId, JobId
from tickwork.core.job import AskingAttempt
from tickwork.core.outcome import JobCounts, Succeeded, decide
from tickwork.errors import LeaseLost
from tickwork.store.attempt_types import Finish, NewLog
from tickwork.worker.ipc.protocol import (
    Ask,
    AskReply,
    Assignment,
    AttemptEnd,
    AttemptsEnded,
    FrameReader,
    FromExecutor,
    Hello,
    Interrupt,
    Progressed,
    Quit,
    Recall,
    Returned,
    RunAttempts,
    Started,
    Stuck,
    ToExecutor,
    Wrote,
    encode,
    to_executor,
)
from tickwork.worker.run.executor import CANCEL_GRACE_S, STUCK_GRACE_S

if TYPE_CHECKING:
    from sim.processes import WorkerProcess

HELLO = Hello({}, [], {})
KILLED = -9
_WIRE_US = 100


class Attempt:
    """One attempt in a simulated child, with the progress of its handler."""

    def __init__(self, given: Assignment, serial: int) -> None:
        self.given = given
        self.key = (given.job_id, given.claim)
        self.serial = serial
        self.script: Script | None = None  # set when it begins
        self.began = 0.0
        self.step = 0
        self.wrote: list[NewLog] = []
        self.asked: int | None = None
        self.ending: tuple[Literal["timed_out", "cancelled", "released"], str] | None = None
        self.over = False

    @property
    def asking(self) -> AskingAttempt:
        return AskingAttempt(JobId(self.given.job_id), self.given.attempt, ClaimId(self.given.claim))


class Body(Actor):
    """A child process and its socket in one object: it receives frames, runs handlers, and sends frames."""

    def __init__(self, process: WorkerProcess, name: str, slots: int, *, loaded: bool) -> None:
        super().__init__(process.world, name, process.world.config.workers[process.index].clock)
        self.process = process
        self.pid = 0
        self.returncode: int | None = None
        self._slots = slots
        self._rng = self.world.stream(name)
        self._store = self.world.store_for(self)
        self._frames = FrameReader()
        self._heard: deque[ToExecutor] = deque()
        self._said = bytearray()
        self._ready: deque[Attempt] = deque()
        self._attempts: dict[tuple[str, int], Attempt] = {}
        self._requests = count(1)
        self._up = loaded
        if not loaded:
            self.after_s(self._rng.choice((0.0, 0.05, 0.5)), self._come_up)

    def _come_up(self) -> None:
        if self.world.faults.deadly_start():
            self.world.trace.count("child died at its start")
            self.die(1)
            return
        self._up = True
        self._say(HELLO)
        self._obey_all()

    # -- as a process

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int | None:
        return self.returncode

    def release(self) -> None:
        """Do nothing: a simulated child has no resources to release."""

    def die(self, code: int) -> None:
        if self.returncode is None:
            self.returncode, self.dead = code, True
            for attempt in self._attempts.values():
                self.world.plan_round.truth.gone(attempt.key)
            self._attempts.clear()
            self.process.wake(called=False)

    def crash(self) -> None:
        self.die(KILLED)

    def kill_now(self) -> None:
        self.die(KILLED)

    def disturb(self, at_us: int) -> None:
        """Record a fault of a handler's store call as a fault of its worker process, too."""
        super().disturb(at_us)
        self.process.disturb(at_us)

    # -- as a socket

    def send(self, data: bytes | bytearray) -> int:
        if self.dead:
            raise BrokenPipeError
        self._heard.extend(to_executor.decode(frame) for frame in self._frames.feed(bytes(data)))
        self.world.after(_WIRE_US, self, self._obey_all)
        return len(data)

    def recv(self, size: int) -> bytes:
        if not self._said:
            raise BlockingIOError
        data = bytes(self._said)
        self._said.clear()
        return data

    def fileno(self) -> int:
        return -1

    def close(self) -> None:
        self.dead = True

    def _say(self, message: FromExecutor) -> None:
        self._said += encode(message)
        self.process.wake(called=False)

    # -- as an executor

    def after_s(self, seconds: float, call: Callable[[], None]) -> None:
        """Schedule a call after `seconds` on this process's clock."""
        self.world.after(ceil(round(seconds / self.clock.rate * SECOND, 3)) + 1, self, call)

    def _obey_all(self) -> None:
        while self._up and self._heard and not self.dead:
            self._obey(self._heard.popleft())

    def _obey(self, message: ToExecutor) -> None:
        match message:
            case RunAttempts(jobs):
                for given in jobs:
                    attempt = Attempt(given, next(self.world.serials))
                    self._attempts[attempt.key] = attempt
                    self._ready.append(attempt)
                self._fill()
            case Interrupt(job_id, claim, reason):
                self._interrupt(job_id, claim, reason)
            case AskReply():
                self._answered(message)
            case Recall():
                back = [attempt.given.job_id for attempt in self._ready]
                for attempt in self._ready:
                    self._attempts.pop(attempt.key, None)
                self._ready.clear()
                self._say(Returned(back))
            case Quit():
                self.die(0)

    def _fill(self) -> None:
        running = sum(1 for attempt in self._attempts.values() if attempt.script is not None)
        while self._ready and running < self._slots:
            self._begin(self._ready.popleft())
            running += 1

    def _begin(self, attempt: Attempt) -> None:
        given = attempt.given
        nature = msgspec.json.decode(given.args)["nature"]
        rng = self.world.stream(f"{given.job_id}/{given.attempt}")
        attempt.script = draw_script(rng, nature, given.attempt, given.timeout_s, self.world.config.longest_s)
        attempt.began = self.clock.monotonic()
        self.world.plan_round.truth.began(self.process, given, attempt.began)
        if given.timeout_s is not None or given.tells_start:
            self._say(Started(given.job_id, given.claim, attempt.began))
        if given.timeout_s is not None:
            error = f"it ran for more than its timeout of {given.timeout_s:g} s"
            self.after_s(given.timeout_s, lambda: self._insist(attempt, "timed_out", error))
        self._go_on(attempt)

    def _go_on(self, attempt: Attempt) -> None:
        """Schedule the next step of the handler, or its end; the steps are evenly spaced over its run time."""
        script = attempt.script
        if script is not None:
            share = script.takes_s / (len(script.steps) + 1)
            self.after_s(share, lambda: self._step(attempt))

    def _step(self, attempt: Attempt) -> None:
        script = attempt.script
        if attempt.over or script is None:
            return
        if attempt.step == len(script.steps):
            self._reach_end(attempt, script)
            return
        step = script.steps[attempt.step]
        attempt.step += 1
        job_id, claim = attempt.key
        match step:
            case "log":
                self._write(attempt)
            case "progress":
                self._say(Progressed(job_id, claim, attempt.step / len(script.steps), None))
            case "save" | "load":
                attempt.asked = next(self._requests)
                state = f'"{job_id}:{attempt.given.attempt}:{attempt.step}"'.encode() if step == "save" else None
                self._say(Ask(attempt.asked, job_id, claim, state))
                return  # it continues when the reply arrives
            case "spawn":
                if not self._spawn_job(attempt):
                    return
        self._go_on(attempt)

    def _write(self, attempt: Attempt) -> None:
        job_id, claim = attempt.key
        log = NewLog(JobId(job_id), ClaimId(claim), len(attempt.wrote), "a line")
        attempt.wrote.append(log)
        self._say(Wrote(log.job_id, log.claim, log.seq, log.text))
        self.world.plan_round.truth.wrote(attempt.key)

    def _spawn_job(self, attempt: Attempt) -> bool:
        """Enqueue a job from the handler of this attempt; return False if that failed the handler."""
        job = self.world.workload.child_job(self.world, self._rng)
        if job is None:
            return True
        try:
            self._store.insert_jobs([job], by=attempt.asking)
        except (Unreachable, LeaseLost) as error:
            if not attempt.over:
                self._end(attempt, "failed", error=type(error).__name__)
        return not attempt.over

    def _answered(self, answer: AskReply) -> None:
        for attempt in self._attempts.values():
            if attempt.asked == answer.request:
                attempt.asked = None
                if answer.accepted:
                    self._go_on(attempt)
                else:
                    self._end(attempt, "failed", error="LeaseLost")
                return

    def _reach_end(self, attempt: Attempt, script: Script) -> None:
        match script.end:
            case "ok":
                self._end(attempt, "succeeded", result=_result(attempt))
            case "fail":
                self._end(attempt, "failed", error="it raised")
            case "fatal":
                self._end(attempt, "failed", error="Fatal", fatal=True)
            case "retry":
                self._end(attempt, "failed", error="Retry", after_s=script.after_s)
            case "snooze":
                self._end(attempt, "snoozed", after_s=script.after_s)
            case "cancel":
                self._end(attempt, "cancelled", error="it cancelled itself")
            case "die":
                self.world.trace.count("child died")
                self.die(KILLED)
            case "hang":
                pass
            case "ruin":
                self.world.trace.count("worker taken down")
                self.process.crash()
            case "transaction":
                self._settle_in_transaction(attempt)

    def _settle_in_transaction(self, attempt: Attempt) -> None:
        """Commit a transactional handler's own writes together with the end of its job."""
        given = attempt.asking
        self.world.plan_round.truth.returned(attempt.key, _result(attempt))
        outcome = decide(JobCounts(), Succeeded(_result(attempt)), self._rng)
        try:
            self._store.commit_with([Finish(*given, outcome)], attempt.wrote)
        except (Unreachable, LeaseLost) as error:
            if not attempt.over:
                self._end(attempt, "failed", error=type(error).__name__)
            return
        if not attempt.over:
            self._end(attempt, "succeeded", result=_result(attempt), settled=True)

    def _end(self, attempt: Attempt, kind: Any, **more: Any) -> None:
        hold(not attempt.over, "SIM", f"the handler of {attempt.key} ends twice")
        attempt.over = True
        took = self.clock.monotonic() - attempt.began
        self._attempts.pop(attempt.key, None)
        end = AttemptEnd(attempt.given.job_id, attempt.given.claim, kind, attempt.began, took=took, **more)
        self.world.plan_round.truth.ended(attempt.key, end)
        self._say(AttemptsEnded([end]))
        self._fill()

    # -- interrupting attempts

    def _interrupt(self, job_id: str, claim: int, reason: str) -> None:
        attempt = self._attempts.get((job_id, claim))
        if attempt is None:
            return
        if reason == "stop":
            self._insist(attempt, "released", "its worker had to let go of it")
        elif attempt.script is not None and attempt.script.listens and attempt.ending is None:
            self._end(attempt, "cancelled", error="it saw that it was cancelled")
        else:
            self.after_s(CANCEL_GRACE_S, lambda: self._insist(attempt, "cancelled", "cancelled while it ran"))

    def _insist(self, attempt: Attempt, kind: Literal["timed_out", "cancelled", "released"], error: str) -> None:
        if attempt.over or attempt.ending is not None or attempt.key not in self._attempts:
            return
        attempt.ending = (kind, error)
        if attempt.script is None:
            self._ready.remove(attempt)
        if attempt.script is None or not attempt.script.stubborn:
            self._end(attempt, kind, error=error)
        else:
            self.after_s(STUCK_GRACE_S, lambda: self._give_up(attempt, kind, error))

    def _give_up(self, attempt: Attempt, kind: Literal["timed_out", "cancelled", "released"], error: str) -> None:
        if not attempt.over and attempt.key in self._attempts:
            self.world.plan_round.truth.stuck(attempt.key)
            self._say(Stuck(attempt.given.job_id, attempt.given.claim, kind, error, attempt.began))


def _result(attempt: Attempt) -> bytes:
    return f'"{attempt.given.job_id}:{attempt.given.attempt}:{attempt.serial}"'.encode()
