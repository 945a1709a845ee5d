"""The list of measured job queues and their configurations: for each, the fastest known one of equal durability.

A peer has the same configuration for all workloads. Handlers are async if a peer runs async handlers without a thread.
All peers have two worker processes, like Tickwork.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench.worker import ROOT, command

VENVS = ROOT / ".venv-peers"
REQUIREMENTS = Path(__file__).parent / "requirements"
Store = Literal["sqlite", "postgres", "redis"]


@dataclass(frozen=True, slots=True)
class Peer:
    """A job queue, which is one line of every table."""

    name: str
    store: Store
    driver: str  # its module in drivers/
    shape: str  # its configuration, as text for readers
    per_s: int  # approximate drain rate of two cores; determines only the number of jobs of a drain
    workers: tuple[tuple[str, ...], ...] = ()  # a command each, of a program in its environment; ours has its own
    stored: str | None = None  # counts the completions that are stored, asked of the store itself; None: it keeps none
    environment: str | None = None  # the name of its requirements; None: our own

    @property
    def ours(self) -> bool:
        return self.environment is None

    @property
    def counted(self) -> str:
        """Return what a drain counts: stored completions or handler calls."""
        return "stored" if self.stored else "bodies run"

    @property
    def python(self) -> str:
        """Return the path of its environment's Python interpreter."""
        return sys.executable if self.environment is None else str(VENVS / self.environment / "bin" / "python")

    def commands(self, url: str) -> list[list[str]]:
        """Return the commands that start its workers on a store."""
        if self.environment is None:
            return [command()]
        programs = Path(self.python).parent
        return [[str(programs / one[0]), *(word.format(url=url) for word in one[1:])] for one in self.workers]


def _finished(table: str, state: str = "state = 'succeeded'") -> str:
    return f"SELECT count(*) FROM {table} WHERE {state}"


def _once(words: str) -> tuple[tuple[str, ...], ...]:
    return (tuple(words.split()),)


def _twice(words: str) -> tuple[tuple[str, ...], ...]:
    """Return the same command for both workers; `{worker}` is replaced by the name of each."""
    return tuple(tuple(words.replace("{worker}", name).split()) for name in ("one", "two"))


# Completions that Awa has pruned are counted in its rollups.
_AWA = (
    "SELECT (SELECT count(*) FROM awa.terminal_jobs WHERE state = 'completed')"
    " + (SELECT coalesce(sum(pruned_completed_count), 0) FROM awa.queue_terminal_rollups)"
)
_CELERY = (
    "celery --app on_celery worker --hostname {worker}@%h --pool solo --loglevel WARNING "
    "--without-gossip --without-mingle --without-heartbeat"
)
_RQ = "rq worker --url {url} --name {worker} --worker-class rq.SimpleWorker --with-scheduler --quiet"
_PROCRASTINATE = "procrastinate --app on_procrastinate.app --log-level warning worker --name {worker} --concurrency 10"
_HUEY = "huey_consumer on_huey.huey --workers 2 --worker-type process --quiet"

PEERS = (
    Peer(
        name="tickwork-sqlite",
        store="sqlite",
        driver="on_tickwork",
        shape="tickwork worker --processes 2",
        per_s=6_000,
        stored=_finished("tickwork_finished"),
    ),
    Peer(
        name="tickwork-postgres",
        store="postgres",
        driver="on_tickwork",
        shape="tickwork worker --processes 2",
        per_s=6_000,
        stored=_finished("tickwork.finished"),
    ),
    Peer(
        name="celery",
        store="redis",
        driver="on_celery",
        workers=_twice(_CELERY),
        shape="2 solo pools, prefetch 128, no results, gossip, mingle, heartbeat, remote control",
        per_s=750,
        environment="celery",
    ),
    Peer(
        name="dramatiq",
        store="redis",
        driver="on_dramatiq",
        workers=_once("dramatiq on_dramatiq --processes 2 --threads 8"),
        shape="2 processes of 8 threads (default)",
        per_s=3_800,
        environment="dramatiq",
    ),
    Peer(
        name="huey",
        store="redis",
        driver="on_huey",
        workers=_once(_HUEY),
        shape="2 worker processes",
        per_s=3_400,
        environment="huey",
    ),
    Peer(
        name="huey-sqlite",
        store="sqlite",
        driver="on_huey",
        workers=_once(_HUEY),
        shape="2 worker processes; its default, synchronous=OFF",
        per_s=3_100,
        environment="huey",
    ),
    Peer(
        name="rq",
        store="redis",
        driver="on_rq",
        workers=_twice(_RQ),
        shape="2 SimpleWorkers (no fork), with scheduler",
        per_s=350,
        stored="ZCARD rq:finished:default",
        environment="rq",
    ),
    Peer(
        name="procrastinate",
        store="postgres",
        driver="on_procrastinate",
        workers=_twice(_PROCRASTINATE),
        shape="2 workers, concurrency 10, pool 10, async handlers",
        per_s=600,
        stored=_finished("procrastinate_jobs", "status = 'succeeded'"),
        environment="procrastinate",
    ),
    Peer(
        name="pgqueuer",
        store="postgres",
        driver="on_pgqueuer",
        workers=_twice("pgq run --batch-size 100 --log-level WARNING on_pgqueuer:main"),
        shape="2 workers, batches of 100, asyncpg, uvloop, async handlers",
        per_s=14_000,
        stored=_finished("pgqueuer_log", "status = 'successful'"),
        environment="pgqueuer",
    ),
    Peer(
        name="dbos",
        store="postgres",
        driver="on_dbos",
        workers=_twice("python -m on_dbos {worker}"),
        shape="2 executors, queue polled every 0.1 s",
        per_s=600,
        stored=_finished("dbos.workflow_status", "status = 'SUCCESS'"),
        environment="dbos",
    ),
    Peer(
        name="awa",
        store="postgres",
        driver="on_awa",
        workers=_twice("python -m on_awa"),
        shape="2 processes of 256 slots, queue storage, async handlers",
        per_s=8_800,
        stored=_AWA,
        environment="awa",
    ),
)
