"""The interface of all shapes."""

from __future__ import annotations

import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from tickwork.core.ids import IdMaker

QUEUE = "default"
TASK = "noop"
ARGS = '{"args":[1],"kwargs":{}}'
POLICY = (
    '{"retry":{"retries":3,"base":"PT1S","factor":2.0,"cap":"PT3600S","jitter":0.5},"timeout":null,"expires":null,'
    '"key_for":null,"retry_on":[],"give_up_on":[],"on_lost":"retry"}'
)
RESULT = '{"answer":42}'
LEVELS = range(10)  # of priority, 0 the most urgent
LEASE_S = 3600

_ids = IdMaker(lambda: time.time_ns() // 1_000_000, secrets.randbits)


class ShapeFailed(Exception):
    """A shape violated its interface; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One line of the table: a shape and its options.

    `bound`: claims start from a remembered lower bound. `fused`: one statement (on SQLite one transaction) finishes a
    batch and claims the next. `passing`: how a batch is passed to the database.
    """

    store: Literal["sqlite", "postgres"]
    shape: Literal["wide", "split", "append"]
    passing: Literal["json", "unnest", "literal", "set", "rows"]
    bound: bool = False
    fused: bool = False
    only_drain: bool = False  # its difference does not depend on the state of the tables

    @property
    def name(self) -> str:
        usual = {"sqlite": "set", "postgres": "json"}[self.store]
        marks = [("bound", self.bound), ("fused", self.fused), (self.passing, self.passing != usual)]
        return " + ".join([self.shape, *(mark for mark, on in marks if on)])


class NewJob(NamedTuple):
    """A job to enqueue."""

    job_id: str
    priority: int = 5
    task: str = TASK
    queue: str = QUEUE
    args: str = ARGS
    policy: str = POLICY
    labels: str = "[]"


class Claimed(NamedTuple):
    """A claimed job. `slot` is the partition of a rotating shape; 0 for other shapes."""

    job_id: str
    attempt: int
    slot: int
    priority: int
    run_at: Any
    args: str
    policy: str


def new_jobs(count: int) -> list[NewJob]:
    """Return jobs of which one in ten is more urgent, and one in ten less urgent, than the others."""
    priorities = [2, 5, 5, 5, 5, 5, 5, 5, 5, 8]
    return [NewJob(id, priorities[number % 10]) for number, id in enumerate(_ids.new_ids(count))]


class Shape(ABC):
    """A session of one worker on tables of one shape. Each verb is one transaction, durable when it returns."""

    history: str  # a query that reads all that has ended
    depth: str  # a query that counts what is queued

    def __init__(self, variant: Variant, url: str, worker: str) -> None:
        self.variant = variant
        self.url = url
        self.worker = worker
        self.tally: dict[str, float] = {}  # writes of this session, if the database does not count them

    @abstractmethod
    def create(self) -> None:
        """Create the tables."""

    @abstractmethod
    def register(self, lease_s: float = LEASE_S) -> None:
        """Give this worker a lease, without which it cannot claim."""

    @abstractmethod
    def insert(self, jobs: Sequence[NewJob]) -> None:
        """Queue jobs, due now."""

    @abstractmethod
    def claim(self, limit: int) -> list[Claimed]:
        """Claim the most urgent due jobs, by priority, run_at and id, each with its next attempt number."""

    @abstractmethod
    def finish(self, claims: Sequence[Claimed]) -> list[str]:
        """Close attempts that are still current, store their results, and return the ids of their jobs."""

    @abstractmethod
    def finish_and_claim(self, claims: Sequence[Claimed], limit: int) -> tuple[list[str], list[Claimed]]:
        """Finish and claim in one step."""

    @abstractmethod
    def reclaim(self) -> int:
        """Requeue the jobs of this worker, as a reaper does for a dead worker; return their number."""

    @abstractmethod
    def tend(self) -> None:
        """Run the maintenance that the shape needs once a second."""

    @abstractmethod
    def ended(self) -> list[str]:
        """Return the job of each stored success."""

    @abstractmethod
    def query(self, sql: str) -> Any:
        """Run one of the queries above and return its first value."""

    @abstractmethod
    def relax(self) -> None:
        """Reset the planner settings of this session to the defaults, as for other clients."""

    @abstractmethod
    def hold(self) -> None:
        """Open a transaction, read the history in it, and leave it open until `close`."""

    @abstractmethod
    def settle(self) -> None:
        """Update the planner's statistics of the tables."""

    @abstractmethod
    def close(self) -> None: ...
