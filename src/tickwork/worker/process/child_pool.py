"""The supervisor's pool of child processes: start them, distribute attempts, detect deaths, kill and replace children.

General children run several attempts at a time. A solo child runs one: attempts of CPU-bound tasks, and jobs that may
have crashed a child before and are now retried alone.
"""

from __future__ import annotations

import logging
import os
import select
import signal
from collections import deque
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress

from tickwork.clock import Clock
from tickwork.core.placement import home_of, score
from tickwork.errors import InvariantBroken, WorkerError
from tickwork.worker.ipc.protocol import (
    AskReply,
    Assignment,
    ChildDied,
    FromExecutor,
    Hello,
    Interrupt,
    LoadFailed,
    Quit,
    Recall,
    Returned,
    runs_of,
)
from tickwork.worker.process.child_handle import Child
from tickwork.worker.process.child_starter import QUIT_S, ChildSetup, ChildStarter
from tickwork.worker.worker_types import AttemptRunner

_log = logging.getLogger("tickwork.worker")
LOAD_LIMIT_S = 60.0  # the time limit for importing the user's code
STALLED_S = 0.2  # a child that ended no attempt for this long is asked to return those that it has not begun
MEMORY_LOOK_S = 1.0
_PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")


Share = tuple[int, Child, list[Assignment]]
"""The number of attempts that a child holds, the child, and the attempts to send to it."""


class _NoRunner:
    """The source of messages about attempts that no child holds yet."""

    def send(self, message: AskReply) -> None:
        raise InvariantBroken("no runner asked.")


_NOBODY = _NoRunner()


class ChildPool(ChildStarter):
    """A pool of child processes.

    Not thread-safe: only the thread that ticks the worker may call it. `stop_running` and `kill_running` are safe from
    any thread.
    """

    def __init__(
        self,
        setup: ChildSetup,
        clock: Clock,
        *,
        target_of: Callable[[str], str],
        solo_tasks: Collection[str],
        solo_limit: int,
    ) -> None:
        super().__init__(setup, clock)
        self._target_of = target_of
        self._solo_tasks = solo_tasks
        self._solo_limit = solo_limit
        self._waiting: deque[Assignment] = deque()  # attempts that wait for a solo child
        self._homeless: list[Assignment] = []  # attempts that wait for a general child, while none exists
        self._last_words: list[tuple[AttemptRunner, FromExecutor | ChildDied]] = []
        self._looked_at = 0.0

    # -- starting and ending

    def start(self) -> Hello | None:
        """Start the general children and wait until they have loaded the user's code; return the first one's `Hello`.

        Returns None if the pool has no general children. Raises WorkerError if a child does not load.
        """
        children = [self._spawn(target, solo=False) for target in self._general]
        until = self._clock.monotonic() + LOAD_LIMIT_S
        while any(child.hello is None for child in children):
            left = until - self._clock.monotonic()
            if left <= 0:
                raise WorkerError(f"{self._general[0]} took more than {LOAD_LIMIT_S:.0f} s to import.")
            select.select([one for one in self.filenos() if one >= 0], [], [], min(left, 1.0))
            for _, message in self.poll():
                if isinstance(message, LoadFailed):
                    raise WorkerError(message.error)
                if isinstance(message, ChildDied):
                    raise WorkerError(f"a child process ended while it loaded {self._general[0]}: {message.error}.")
        return children[0].hello if children else None

    def stop(self) -> None:
        """Stop every child, and kill all processes that its handlers left running."""
        for child in self._children:
            child.send(Quit())
        until = self._clock.monotonic() + QUIT_S
        for child in self._children:
            with suppress(TimeoutError):
                child.process.wait(max(0.0, until - self._clock.monotonic()))
        self.kill_all()
        self._reader.stop()
        if self._fork_server is not None:
            self._fork_server.close()

    def kill_all(self) -> None:
        """Kill every child now, and discard the attempts that wait for a child."""
        self._waiting.clear()
        self._homeless.clear()
        for child in list(self._children):
            self._end(child)

    def abandon(self) -> None:
        """Kill and replace every child that holds attempts, and discard the messages about them."""
        self._waiting.clear()
        self._homeless.clear()
        for child in [child for child in self._children if child.held]:
            self._end(child)
            self._replace(child)
        self._last_words.clear()

    def _end(self, child: Child) -> None:
        """Kill a child; keep the messages that it sent before its death for the next `poll`."""
        child.kill()
        child.process.wait()
        self._last_words += self._heard(child, child.remaining())
        self._forget(child)

    def stop_running(self) -> None:
        """Tell all children to stop their attempts, which are then released."""
        for child in tuple(self._children):
            for one in () if child.fenced else tuple(child.held.values()):
                child.interrupted.add(one.job_id)
                child.send(Interrupt(one.job_id, one.claim, "stop"))

    def kill_running(self) -> None:
        """Kill the children that hold attempts. The next `poll` reports these attempts as returned."""
        for child in tuple(self._children):
            if child.held:
                child.fence()

    # -- work

    def submit(self, assignments: Iterable[Assignment], alone: bool = False) -> None:
        """Assign attempts to children: to a solo child if required, otherwise to the least busy child.

        Attempts with a sticky key go to the same child as before, unless another child is much less busy.
        """
        shares: list[Share] = [(len(one.held), one, []) for one in self._serving()]
        for assignment in assignments:
            if alone or assignment.task in self._solo_tasks or not self._general:
                self._waiting.append(assignment)
            elif shares:
                self._share_for(assignment, shares)[2].append(assignment)
            else:
                self._homeless.append(assignment)
        for _, child, batch in shares:
            if batch:
                self._hand(child, batch)
        self._start_waiting()

    def _share_for(self, assignment: Assignment, shares: list[Share]) -> Share:
        """Return the child to assign an attempt to: the child of its sticky key if not overloaded, else the idlest."""
        idlest = min(shares, key=_load)
        if assignment.spot is None or len(shares) == 1:
            return idlest
        home = home_of(assignment.spot, (child.name for _, child, _ in shares))
        theirs = next(share for share in shares if share[1].name == home)
        spare = 0 if _load(idlest) < self._slots else _load(idlest)  # if all are full, allow one more load of slots
        return theirs if _load(theirs) < spare + self._slots else idlest

    def _serving(self) -> list[Child]:
        """Return the general children that take work: those that have loaded the code, or all if none has."""
        serving = [child for child in self._children if not child.solo and not child.retiring]
        return [child for child in serving if child.hello is not None] or serving

    def _hand(self, child: Child, batch: list[Assignment]) -> None:
        if not child.held:
            child.moved_at = self._clock.monotonic()
        child.held.update((assignment.job_id, assignment) for assignment in batch)
        for message in runs_of(batch):
            child.send(message)

    def _start_waiting(self) -> None:
        """Assign waiting attempts to solo children, one each, up to the limit of solo children."""
        while self._waiting:
            child = self._idle_solo(self._target_of(self._waiting[0].task), self._waiting[0].spot)
            if child is None:
                return
            self._hand(child, [self._waiting.popleft()])

    def _idle_solo(self, target: str, spot: int | None) -> Child | None:
        """Return an idle or new solo child for a target, preferably the child of a sticky key; None if all are busy."""
        solos = [child for child in self._children if child.solo]
        idle = [child for child in solos if not child.held and not child.retiring]
        loaded = [child for child in idle if child.target == target]
        if loaded:
            return loaded[0] if spot is None else max(loaded, key=lambda child: score(spot, child.name))
        if self._clock.monotonic() < self._spawn_at:
            return None
        if len(solos) >= self._solo_limit and idle:
            self._end(idle[0])  # it has loaded another target, and the limit of solo children is reached
        elif len(solos) >= self._solo_limit:
            return None
        return self._spawn(target, solo=True)

    def solo_room(self) -> int:
        """Return how many more attempts could start in a solo child now."""
        busy = sum(1 for child in self._children if child.solo and child.held)
        return max(0, self._solo_limit - busy - len(self._waiting))

    def interrupt(self, job_id: str, claim: int, reason: str) -> None:
        """Tell a job's child to stop or cancel it; report the job as returned if it still waits for a child."""
        child = self._holder(job_id)
        if child is not None:
            child.interrupted.add(job_id)
            child.send(Interrupt(job_id, claim, "stop" if reason == "stop" else "cancel"))
            return
        for waiting in (self._waiting, self._homeless):
            for assignment in [one for one in waiting if one.job_id == job_id]:
                waiting.remove(assignment)
                self._last_words.append((_NOBODY, Returned([job_id])))

    def kill_holder(self, job_id: str) -> list[str]:
        """Kill and replace the child that holds a job; return the ids of the other jobs that it held."""
        child = self._holder(job_id)
        if child is None:
            return []
        self._end(child)
        self._replace(child)
        return [held for held in child.held if held != job_id]

    def _holder(self, job_id: str) -> Child | None:
        return next((child for child in self._children if job_id in child.held), None)

    # -- messages from children

    def filenos(self) -> list[int]:
        """Return the descriptors that are readable when `poll` has messages.

        A child that has closed its socket is left out; the fork server reports its end.
        """
        said = [child.connection.fileno() for child in self._children if not child.silent]
        said.append(self._reader.fileno())
        return said if self._fork_server is None else [*said, self._fork_server.fileno()]

    def unsent(self) -> list[int]:
        """Return the sockets of children that have unsent messages."""
        return [child.connection.fileno() for child in self._children if child.unsent]

    def poll(self) -> list[tuple[AttemptRunner, FromExecutor | ChildDied]]:
        """Return the messages of the children since the last call, with a `ChildDied` for each one that died."""
        news: list[tuple[AttemptRunner, FromExecutor | ChildDied]] = []
        if self._fork_server is not None and not self._children:
            self._fork_server.hear()  # without children, only this call detects that the fork server was lost
        self._reader.heard()
        for child in list(self._children):
            child.flush()
            news += self._heard(child, child.received())
            code = child.process.poll()
            if code is not None:
                child.kill()  # processes that its handlers started must not outlive it
                news += self._heard(child, child.remaining())
                news.append((child, self._died(child, code)))
        self._start_waiting()
        news, self._last_words = self._last_words + news, []
        return news

    def _heard(self, child: Child, messages: Iterable[FromExecutor]) -> list[tuple[Child, FromExecutor]]:
        """Return messages with their source; a child that has loaded ends the series of failed loads."""
        heard = [(child, message) for message in messages]
        if any(isinstance(message, Hello) for _, message in heard):
            self._failed_loads = 0
        return heard

    def _died(self, child: Child, code: int) -> ChildDied | Returned:
        """Remove and replace a child that ended; return the message about its attempts."""
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
        self._forget(child)
        unloaded = child.hello is None and bool(self._general)
        if unloaded and not child.fenced:
            self._keep_unstarted(child)
        self._replace(child)
        if child.fenced or (unloaded and child.held):
            return Returned(list(child.held))
        error = f"the process that ran it {how}" if child.trouble is None else f"no process for it: {child.trouble}"
        return ChildDied(list(child.held), error, len(child.held) == 1)

    def _keep_unstarted(self, child: Child) -> None:
        """Requeue the jobs of a child that died while it loaded, except interrupted ones; it had begun none of them."""
        unstarted = [one for one in child.held.values() if one.job_id not in child.interrupted]
        for one in unstarted:
            del child.held[one.job_id]
        if child.solo:
            self._waiting.extendleft(reversed(unstarted))
        else:
            self._homeless += unstarted

    # -- housekeeping

    def tend(self, now: float) -> None:
        """Recall attempts that wait behind slow ones, and retire children that reached their job or memory limit.

        Raises WorkerError when the user's code failed to load `LOAD_TRIES` times in a row, because the worker could
        run nothing.
        """
        if self._missing and self._respawn(now):
            homeless, self._homeless = self._homeless, []
            self.submit(homeless)
        look = now - self._looked_at > MEMORY_LOOK_S
        if look:
            self._looked_at = now
        for child in list(self._children):
            stalled = now - child.moved_at > STALLED_S and not child.recalled
            if stalled and not child.solo and len(child.held) > self._slots:
                child.recalled = True
                child.send(Recall())
            self._retire_if_due(child, look, now)

    def _retire_if_due(self, child: Child, look: bool, now: float) -> None:
        """Replace a child that reached a limit; tell a retiring child to exit when it is idle, or kill it if it takes
        too long.
        """
        if not child.retiring and self._used_up(child, look):
            child.name = ""  # the replacement takes the name
            self._replace(child)
            child.retiring = True
        if child.retiring and not child.held and child.leaves_by is None:
            child.leaves_by = now + QUIT_S
            child.send(Quit())
        if child.leaves_by is not None and child.leaves_by < now:
            child.kill()  # a thread that a handler left running prevents its exit

    def _used_up(self, child: Child, look: bool) -> bool:
        """Return whether a child has reached its job limit or, if `look`, its memory limit for recycling."""
        jobs, megabytes = self._setup.limits.max_jobs, self._setup.limits.recycle_mb
        if jobs is not None and child.done >= jobs:
            return True
        return look and megabytes is not None and _memory_mb(child.process.pid) > megabytes

    def stalled(self) -> bool:
        """Return whether a child was asked to return attempts and no attempt of it has ended since."""
        return any(child.recalled for child in self._children)


def _memory_mb(pid: int | None) -> float:
    """Return the resident memory of a process in MiB; 0 if it cannot be read."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * _PAGE_SIZE / (1 << 20)
    except (OSError, ValueError, IndexError):
        return 0.0


def _load(share: Share) -> int:
    return share[0] + len(share[2])
