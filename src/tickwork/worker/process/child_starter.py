"""Start, replace, resize and retire the child processes of a pool."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from tickwork.clock import Clock
from tickwork.errors import WorkerError
from tickwork.observe.json_log import wants_json
from tickwork.worker.ipc.protocol import socket_pair
from tickwork.worker.process.child_handle import Child
from tickwork.worker.process.child_main import ChildOptions
from tickwork.worker.process.child_output import ChildOutput, OutputAttribution, OutputReader
from tickwork.worker.process.console import PassedOnOutput
from tickwork.worker.process.fork_server import ForkServer, start_fork_server
from tickwork.worker.process.fork_server_main import NOT_BORN

_log = logging.getLogger("tickwork.worker")
QUIT_S = 2.0
RESPAWN_S = 0.25  # the wait before replacing a child that failed to load; doubled each time
LOAD_TRIES = 5


@dataclass(frozen=True, slots=True)
class ChildLimits:
    """The limits of a child process. `memory_mb` is a hard cap; at the others, the child is replaced between jobs."""

    max_jobs: int | None = None
    recycle_mb: int | None = None
    memory_mb: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSetup:
    """How a pool starts its children.

    `general` is the target of each general child, and `slots` the total of their slots. `run_as` is the system user
    that runs the commands of jobs. Without `fork_server`, a fork server is started for the first child.
    """

    general: Sequence[str]
    slots: int
    limits: ChildLimits = ChildLimits()
    shell: bool = False
    run_as: str | None = None
    fork_server: ForkServer | None = None


class ChildStarter:
    """The child processes of a pool, and the children that are still to be started."""

    def __init__(self, setup: ChildSetup, clock: Clock) -> None:
        self._setup = setup
        self._general = setup.general
        self._slots = max(1, -(-setup.slots // max(1, len(setup.general))))
        self._clock = clock
        self._fork_server = setup.fork_server
        self._children: list[Child] = []
        self._missing: list[str] = []  # targets of general children that did not load
        self._failed_loads = 0
        self._spawn_at = 0.0
        self._reader = OutputReader(clock)

    def _spawn(self, target: str, *, solo: bool) -> Child:
        """Fork a child, through a new fork server if the last one was lost."""
        ours, theirs = socket_pair()
        ours.setblocking(False)
        if self._fork_server is None or self._fork_server.lost:
            self._fork_server = start_fork_server()
        setup, slots = self._setup, 1 if solo else self._slots
        output = ChildOutput()
        given = [theirs.fileno(), *output.descriptors()]
        options = ChildOptions(target, slots, setup.limits.memory_mb or 0, setup.shell, setup.run_as)
        process = self._fork_server.spawn(given, options)
        theirs.close()
        output.hand_over()
        self._reader.add(output)
        credit = OutputAttribution(
            PassedOnOutput(self._reader.show, lambda: process.pid, self._clock.monotonic, as_json=wants_json())
        )
        child = Child(
            name=self._free_name(),
            process=process,
            connection=ours,
            solo=solo,
            target=target,
            output=output,
            credit=credit,
            clock=self._clock,
            moved_at=self._clock.monotonic(),
        )
        self._children.append(child)
        return child

    def _free_name(self) -> str:
        """Return the lowest number that is not the name of a child.

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

    def _forget(self, child: Child) -> None:
        self._reader.remove(child.output)
        self._children.remove(child)
        child.release()

    def _replace(self, child: Child) -> None:
        """Start the replacement of a general child: at once, or after a delay if the child failed to load.

        A retiring child is not replaced: its replacement was started when it began to retire, or none is needed.
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

    def _respawn(self, now: float) -> bool:
        """Start the replacements of children that failed to load, once their delay is over; return whether any were."""
        if now < self._spawn_at:
            return False
        if self._failed_loads >= LOAD_TRIES:
            raise WorkerError(f"{self._missing[0]} could not be loaded again, {LOAD_TRIES} times in a row.")
        for target in self._missing:
            self._spawn(target, solo=False)
        self._missing.clear()
        return True
