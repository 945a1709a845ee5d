"""The pools of simulated handlers: the shipped `ChildPool`, with children that are objects instead of processes.

The supervisor's state and decisions are the shipped code, and so are the frames on the socket. Only the process at the
other end of the socket is simulated, by a `Body`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import TYPE_CHECKING, Any, cast

from sim.body import HELLO, KILLED, Body
from sim.config import WorkerConfig
from tickwork.worker.ipc.protocol import Assignment, Hello
from tickwork.worker.process.child_handle import Child
from tickwork.worker.process.child_output import OutputAttribution
from tickwork.worker.process.child_pool import ChildPool
from tickwork.worker.process.child_starter import ChildLimits, ChildSetup
from tickwork.worker.process.console import PassedOnOutput

if TYPE_CHECKING:
    from sim.processes import WorkerProcess


class SimChildren(ChildPool):
    """The shipped pool of children, except that it starts no processes, and tells the judge of attempts to start."""

    def __init__(self, process: WorkerProcess, config: WorkerConfig) -> None:
        super().__init__(
            ChildSetup(
                general=["sim"] * config.children, slots=config.slots, limits=ChildLimits(max_jobs=config.max_jobs)
            ),
            process.clock,
            target_of=lambda task: "sim",
            solo_tasks=process.world.config.solo_tasks,
            solo_limit=config.solo_limit,
        )
        self._process = process
        self._respawning = False
        self._bodies: list[Body] = []
        self._names = count()

    def submit(self, assignments: Iterable[Assignment], alone: bool = False) -> None:
        """Report the attempts that the worker starts to the judge, and assign them."""
        given = list(assignments)
        if not self._respawning:  # otherwise they were reported before they waited for a child
            self._process.world.plan_round.truth.handed_out(self._process, given)
        super().submit(given, alone)

    def tend(self, now: float) -> None:
        self._respawning = True
        super().tend(now)
        self._respawning = False

    def start(self) -> Hello:
        """Start the general children as already loaded, because the shipped pool waits until they have loaded."""
        for target in self._general:
            child = self._spawn(target, solo=False, loaded=True)
            child.hello = HELLO
        return HELLO

    def _spawn(self, target: str, *, solo: bool, loaded: bool = False) -> Child:
        name = f"{self._process.name}/c{next(self._names)}"
        body = Body(self._process, name, 1 if solo else self._slots, loaded=loaded)
        self._bodies = [one for one in self._bodies if not one.dead]
        self._bodies.append(body)
        output = SimOutput()
        self._reader._outputs.append(cast(Any, output))  # without the thread that reads real pipes
        console = PassedOnOutput(self._reader.show, lambda: 0, self._clock.monotonic, as_json=False)
        child = SimChild(
            name=name,
            process=cast(Any, body),
            connection=cast(Any, body),
            solo=solo,
            target=target,
            output=cast(Any, output),
            credit=OutputAttribution(console),
            clock=self._clock,
            moved_at=self._clock.monotonic(),
        )
        self._children.append(child)
        return child

    def vanish(self) -> None:
        """Let all children die with their supervisor."""
        for body in self._bodies:
            body.die(KILLED)

    def freeze(self, until_us: int) -> None:
        for body in self._bodies:
            body.freeze(until_us, children=False)


class SimOutput:
    """The output descriptors of a simulated child, which are always empty."""

    @property
    def board(self) -> SimOutput:
        return self

    def drain(self) -> None: ...

    def take(self) -> list[Any]:
        return []

    def unsent(self) -> list[Any]:
        return []

    def close(self) -> None: ...


class SimChild(Child):
    """A child whose process is a `Body`."""

    def kill(self) -> None:
        cast(Body, self.process).die(KILLED)
