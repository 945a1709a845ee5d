"""The supervisor's pool of child processes: start them, distribute attempts, detect deaths, kill and replace children.

General children run several attempts at a time. A solo child runs one: attempts of CPU-bound tasks, and jobs that may
have crashed a child before and are now retried alone.
"""

from __future__ import annotations

import itertools
import logging
import os
import select
import signal
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from tickwork.clock import Clock
from tickwork.core.placement import home_of, score
from tickwork.errors import InvariantBroken, WorkerError
from tickwork.observe.json_log import wants_json
from tickwork.worker.handler_pools import AttemptRunner
from tickwork.worker.ipc.protocol import (
    AskReply,
    Assignment,
    AttemptsEnded,
    ChildDied,
    FrameReader,
    FromExecutor,
    Hello,
    HideSecret,
    Interrupt,
    LoadFailed,
    Quit,
    Recall,
    Returned,
    ToExecutor,
    Wrote,
    encode,
    from_executor,
    runs_of,
    socket_pair,
)
from tickwork.worker.process.child import ChildOptions
from tickwork.worker.process.console import PassedOnOutput
from tickwork.worker.process.fork_server import ForkedChild, ForkServer, start_fork_server
from tickwork.worker.process.fork_server_main import NOT_BORN
from tickwork.worker.process.output_attribution import OutputAttribution
from tickwork.worker.process.output_pipes import ChildOutput, OutputReader

_log = logging.getLogger("tickwork.worker")
LOAD_LIMIT_S = 60.0  # the time limit for importing the user's code
STALLED_S = 0.2  # a child that ended no attempt for this long is asked to return those that it has not begun
MEMORY_LOOK_S = 1.0
QUIT_S = 2.0
RESPAWN_S = 0.25  # the wait before replacing a child that failed to load; doubled each time
LOAD_TRIES = 5
_PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class ChildLimits:
    """The limits of a child process. `memory_mb` is a hard cap; at the others, the child is replaced between jobs."""

    max_jobs: int | None = None
    recycle_mb: int | None = None
    memory_mb: int | None = None


@dataclass(eq=False)
class Child:
    """A child process, its connection, and the attempts that it holds."""

    name: str
    process: ForkedChild
    connection: socket.socket
    solo: bool
    target: str
    output: ChildOutput
    credit: OutputAttribution
    frames: FrameReader = field(default_factory=FrameReader)
    held: dict[str, Assignment] = field(default_factory=dict)
    unsent: bytearray = field(default_factory=bytearray)
    hello: Hello | None = None
    trouble: str | None = None
    done: int = 0
    retiring: bool = False
    leaves_by: float | None = None
    moved_at: float = 0.0
    recalled: bool = False
    silent: bool = False  # its end of the socket is closed
    fenced: bool = False  # it was killed because the lease ended, so its attempts are released, not charged
    interrupted: set[str] = field(default_factory=set)  # ids of jobs that it was told to stop or cancel
    lock: threading.RLock = field(default_factory=threading.RLock)  # for sending and killing, also by `LeaseWatch`

    def send(self, message: ToExecutor) -> None:
        """Queue a message, and send as much as the socket takes without blocking the supervisor."""
        with self.lock:
            self.unsent += encode(message)
            self.flush()

    def flush(self) -> None:
        with self.lock, suppress(OSError):  # the socket is full, or the child is gone
            while self.unsent:
                sent = self.connection.send(self.unsent)
                del self.unsent[:sent]

    def kill(self) -> None:
        """Kill the child with all processes that its handlers started."""
        self.process.kill()

    def fence(self) -> None:
        """Kill the child at once because the worker's lease ends. May be called from any thread."""
        with self.lock:
            self.fenced = True
            self.process.kill_now()

    def release(self) -> None:
        """Release the resources of a child that has ended."""
        with self.lock:
            self.connection.close()
            self.process.release()


Share = tuple[int, Child, list[Assignment]]
"""The number of attempts that a child holds, the child, and the attempts to send to it."""


class _NoRunner:
    """The source of messages about attempts that no child holds yet."""

    def send(self, message: AskReply) -> None:
        raise InvariantBroken("no runner asked.")


_NOBODY = _NoRunner()


class ChildPool:
    """A pool of child processes.

    Not thread-safe: only the thread that ticks the worker may call it. `stop_running` and `kill_running` are safe from
    any thread.
    """

    def __init__(
        self,
        target_of: Callable[[str], str],
        is_solo: Callable[[str], bool],
        general: list[str],
        slots: int,
        solo_limit: int,
        clock: Clock,
        limits: ChildLimits,
        shell: bool = False,
        fork_server: ForkServer | None = None,
        run_as: str | None = None,
    ) -> None:
        self._target_of = target_of
        self._is_solo = is_solo
        self._general = general  # the target of each general child
        self._slots = max(1, -(-slots // max(1, len(general))))
        self._solo_limit = solo_limit
        self._clock = clock
        self._limits = limits
        self._shell = shell
        self._run_as = run_as  # the system user that the commands of jobs run as
        self._fork_server = fork_server  # None: a fork server is started for the first child
        self._children: list[Child] = []
        self._waiting: deque[Assignment] = deque()  # attempts that wait for a solo child
        self._homeless: list[Assignment] = []  # attempts that wait for a general child, while none exists
        self._last_words: list[tuple[AttemptRunner, FromExecutor | ChildDied]] = []
        self._missing: list[str] = []  # targets of general children that did not load
        self._failed_loads = 0
        self._spawn_at = 0.0
        self._looked_at = 0.0
        self._reader = OutputReader(clock)

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

    def _spawn(self, target: str, *, solo: bool) -> Child:
        """Fork a child, through a new fork server if the last one was lost."""
        ours, theirs = socket_pair()
        ours.setblocking(False)
        if self._fork_server is None or self._fork_server.lost:
            self._fork_server = start_fork_server()
        slots = 1 if solo else self._slots
        output = ChildOutput()
        given = [theirs.fileno(), *output.descriptors()]
        options = ChildOptions(target, slots, self._limits.memory_mb or 0, self._shell, self._run_as)
        process = self._fork_server.spawn(given, options)
        theirs.close()
        output.hand_over()
        self._reader.add(output)
        credit = OutputAttribution(
            PassedOnOutput(self._reader.show, lambda: process.pid, self._clock.monotonic, as_json=wants_json())
        )
        child = Child(self._free_name(), process, ours, solo, target, output, credit, moved_at=self._clock.monotonic())
        self._children.append(child)
        return child

    def _free_name(self) -> str:
        """Return the lowest number that no child has as a name.

        The replacement of a child gets its name, and with it the jobs that are sticky to that name.
        """
        taken = {child.name for child in self._children}
        return next(name for name in map(str, itertools.count(1)) if name not in taken)

    def resize(self, count: int) -> None:
        """Start or retire general children until there are `count`. A retiring child finishes its work and exits."""
        serving = [child for child in self._children if not child.solo and not child.retiring]
        while self._missing and len(serving) + len(self._missing) > count:
            self._missing.pop()
        for _ in range(len(serving) + len(self._missing), count):
            self._spawn(self._general[0], solo=False)
        too_many = max(0, len(serving) - count)
        for child in sorted(serving, key=lambda child: (child.hello is not None, len(child.held)))[:too_many]:
            child.retiring = True

    def loaded(self) -> int:
        """Return how many general children have loaded the code and take work."""
        return sum(1 for child in self._children if not child.solo and not child.retiring and child.hello is not None)

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
        """Kill a child; keep the messages that it sent before, for the next `poll`."""
        child.kill()
        child.process.wait()
        self._last_words += [(child, message) for message in self._left_by(child)]
        self._forget(child)

    def _forget(self, child: Child) -> None:
        self._reader.remove(child.output)
        self._children.remove(child)
        child.release()

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
        """Assign attempts to children: to a solo child where they need one, otherwise to the least busy child.

        Attempts with a sticky key go to the same child as before, unless another child is much less busy.
        """
        shares: list[Share] = [(len(one.held), one, []) for one in self._serving()]
        for assignment in assignments:
            if alone or self._is_solo(assignment.task) or not self._general:
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
            news += [(child, message) for message in self._received(child)]
            code = child.process.poll()
            if code is not None:
                child.kill()  # processes that its handlers started must not outlive it
                news += [(child, message) for message in self._left_by(child)]
                news.append((child, self._died(child, code)))
        self._start_waiting()
        news, self._last_words = self._last_words + news, []
        return news

    def _left_by(self, child: Child) -> Iterator[FromExecutor]:
        """Yield the remaining messages and output of a child that has ended."""
        child.output.drain()
        yield from self._received(child)
        yield from self._held_of(child, child.credit.flush())
        yield from self._held_of(child, child.credit.recovered(child.output.board.unsent()))

    def _received(self, child: Child) -> Iterator[FromExecutor]:
        """Yield the messages of a child and the output from its descriptors, in the order in which logs store them.

        The output is taken between two reads of the socket. The first read returns no end of an attempt whose output
        is missing here; the second returns every secret that an attempt received before it wrote the output.
        """
        messages = list(self._messages(child))
        pieces = child.output.take()
        if pieces:
            messages += self._messages(child)
        for message in messages:
            if isinstance(message, HideSecret):
                child.credit.hide(message.value)
        for message in messages:
            if isinstance(message, Wrote):
                child.credit.sent(message)
            elif isinstance(message, AttemptsEnded):
                yield from self._held_of(child, child.credit.credit(pieces))
                ended = ((end.job_id, end.claim) for end in message.ends)
                yield from self._held_of(child, child.credit.flush(ended))
                pieces = []
            self._note(child, message)
            yield message
        yield from self._held_of(child, child.credit.credit(pieces))

    def _held_of(self, child: Child, chunks: Iterable[Wrote]) -> Iterator[Wrote]:
        """Yield the chunks that belong to attempts which the child holds."""
        for chunk in chunks:
            held = child.held.get(chunk.job_id)
            if held is not None and held.claim == chunk.claim:
                yield chunk

    def _messages(self, child: Child) -> Iterator[FromExecutor]:
        """Yield the messages that can be read from a child's socket without blocking."""
        while True:
            try:
                data = child.connection.recv(1 << 18)
            except (BlockingIOError, ConnectionResetError):
                return
            if not data:
                child.silent = True
                if child.process.returncode is None:
                    child.kill()  # without its socket, it cannot be controlled any more
                return
            for frame in child.frames.feed(data):
                yield from_executor.decode(frame)

    def _note(self, child: Child, message: FromExecutor) -> None:
        """Update the state of a child by one of its messages."""
        match message:
            case Hello():
                child.hello = message
                child.credit.always_hide(message.hidden)
                self._failed_loads = 0
            case LoadFailed(error):
                child.trouble = error
            case AttemptsEnded(ends):
                for end in ends:
                    child.held.pop(end.job_id, None)
                    child.credit.forget(end.job_id, end.claim)
                child.done += len(ends)
                child.moved_at, child.recalled = self._clock.monotonic(), False
            case Returned(job_ids):
                for job_id in job_ids:
                    child.held.pop(job_id, None)
            case _:
                pass

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

    def _replace(self, child: Child) -> None:
        """Start the replacement of a general child: at once, or after a delay if the child failed to load.

        A retiring child is not replaced: its replacement was started when it began to retire, or none is wanted.
        """
        if child.retiring:
            return
        if child.hello is None:
            self._spawn_at = self._clock.monotonic() + RESPAWN_S * 2**self._failed_loads
            if child.process.returncode != NOT_BORN:  # a failed fork, such as for lack of memory, is no load failure
                self._failed_loads += 1
        if not child.solo and child.hello is not None:
            self._spawn(child.target, solo=False)
        elif not child.solo:
            self._missing.append(child.target)
            _log.error("A child process ended while it loaded %s; another one is started in a moment.", child.target)

    # -- housekeeping

    def tend(self, now: float) -> None:
        """Recall attempts that wait behind slow ones, and retire children that reached their job or memory limit.

        Raises WorkerError when the user's code failed to load `LOAD_TRIES` times in a row, because the worker could
        run nothing.
        """
        self._respawn(now)
        look = now - self._looked_at > MEMORY_LOOK_S
        if look:
            self._looked_at = now
        for child in list(self._children):
            stalled = now - child.moved_at > STALLED_S and not child.recalled
            if stalled and not child.solo and len(child.held) > self._slots:
                child.recalled = True
                child.send(Recall())
            self._retire_if_due(child, look, now)

    def stalled(self) -> bool:
        """Return whether a child was asked to return attempts and has ended none since."""
        return any(child.recalled for child in self._children)

    def _respawn(self, now: float) -> None:
        """Start the replacements of children that failed to load, once their delay is over."""
        if not self._missing or now < self._spawn_at:
            return
        if self._failed_loads >= LOAD_TRIES:
            raise WorkerError(f"{self._missing[0]} could not be loaded again, {LOAD_TRIES} times in a row.")
        for target in self._missing:
            self._spawn(target, solo=False)
        self._missing.clear()
        homeless, self._homeless = self._homeless, []
        self.submit(homeless)

    def _retire_if_due(self, child: Child, look: bool, now: float) -> None:
        """Replace a child that reached a limit; tell a retiring child to exit when it is idle, and kill it if late."""
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
        jobs, megabytes = self._limits.max_jobs, self._limits.recycle_mb
        if jobs is not None and child.done >= jobs:
            return True
        return look and megabytes is not None and _memory_mb(child.process.pid) > megabytes


def _memory_mb(pid: int | None) -> float:
    """Return the resident memory of a process in MiB; 0 if it cannot be read."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * _PAGE_SIZE / (1 << 20)
    except (OSError, ValueError, IndexError):
        return 0.0


def _load(share: Share) -> int:
    return share[0] + len(share[2])
