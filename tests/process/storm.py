"""Bad weather for workers and their database: processes are killed and paused, the database restarts."""

import os
import random
import signal
import time
from collections import Counter
from contextlib import suppress

from tests.postgres_server import PostgresServer
from tests.process.harness import WorkerProcess, Workers, command_of

LEASE_S = 2.0


class Storm:
    """Keeps a number of workers alive while it kills and pauses their processes, and restarts their database."""

    def __init__(
        self,
        workers: Workers,
        server: PostgresServer | None,
        size: int,
        rng: random.Random,
        target: str,
        *,
        pauses: bool = True,
    ) -> None:
        self._workers = workers
        self._server = server
        self._rng = rng
        self._target = target
        kills = [self._kill_everything, self._kill_supervisor, self._kill_child]
        self._ways = [*kills, self._pause] if pauses else kills
        self.alive = [self.start() for _ in range(size)]
        for worker in self.alive:
            workers.wait_for(worker)
        self.did: Counter[str] = Counter()
        self._paused: dict[int, float] = {}  # until when, by pid
        self._hit: Counter[str] = Counter()
        self._restart_at = time.monotonic() + rng.uniform(1, 3)

    def start(self) -> WorkerProcess:
        return self._workers.start(slots=3, processes=1, lease_s=LEASE_S, target=self._target, wait=False)

    def strike(self) -> None:
        """Do one of the bad things."""
        self.resume(time.monotonic())
        for worker in [one for one in self.alive if not one.is_running()]:  # it could not start, for all of this
            self._replace(worker)
        if self._server is not None and time.monotonic() > self._restart_at:
            mode = self._rng.choice(["fast", "immediate"])
            self._server.restart(mode)  # type: ignore[arg-type]
            self.did[f"restart {mode}"] += 1
            self._restart_at = time.monotonic() + self._rng.uniform(4, 12)
        awake = [one for one in self.alive if one.pid not in self._paused]
        if not awake:
            return
        worker = self._rng.choice(awake)
        how = self._rng.choice(self._ways)
        if how(worker):
            self.did[how.__name__.strip("_").replace("_", " ")] += 1

    def _kill_everything(self, worker: WorkerProcess) -> bool:
        worker.kill_everything()
        self._replace(worker)
        return True

    def _kill_supervisor(self, worker: WorkerProcess) -> bool:
        worker.kill()
        self._replace(worker)
        return True

    def _kill_child(self, worker: WorkerProcess) -> bool:
        """No job loses its child a third time: dying so often would be its own fault."""
        children = worker.children()
        jobs = {one.job for one in self._workers.witness.running() if one.pid in children}
        if not children or any(self._hit[job] >= 2 for job in jobs):
            return False
        self._hit.update(jobs)
        for child in children:
            _send(child, signal.SIGKILL)
        return True

    def _pause(self, worker: WorkerProcess) -> bool:
        """Stop a worker for less than its lease, or for more."""
        pids = [worker.pid, *(worker.children() if self._rng.random() < 0.5 else [])]
        until = time.monotonic() + self._rng.uniform(0.1, 1.5 * LEASE_S)
        for pid in pids:
            _send(pid, signal.SIGSTOP)
            self._paused[pid] = until
        return True

    def resume(self, now: float) -> None:
        """Continue the processes whose pause is over."""
        for pid, until in list(self._paused.items()):
            if until <= now:
                del self._paused[pid]
                _send(pid, signal.SIGCONT)

    def _replace(self, worker: WorkerProcess) -> None:
        self.alive[self.alive.index(worker)] = self.start()


def _send(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process of a worker, unless it has ended by itself."""
    if "tickwork" in command_of(pid) or "in_a_hurry" in command_of(pid):
        with suppress(ProcessLookupError):
            os.kill(pid, number)
