"""What every shape can do, whatever its tables are."""

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
    """A shape did not do what every shape must; the message says what."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One line of the table: a shape, and how it is used.

    `bound`: claims start from a remembered lower bound. `fused`: one statement (on SQLite one transaction) finishes a
    batch and claims the next. `passing`: how a batch gets to the database.
    """

    store: Literal["sqlite", "postgres"]
    shape: Literal["wide", "split", "append"]
    passing: Literal["json", "unnest", "literal", "set", "rows"]
    bound: bool = False
    fused: bool = False
    only_drain: bool = False  # what it differs in does not depend on the state of the tables

    @property
    def name(self) -> str:
        usual = {"sqlite": "set", "postgres": "json"}[self.store]
        marks = [("bound", self.bound), ("fused", self.fused), (self.passing, self.passing != usual)]
        return " + ".join([self.shape, *(mark for mark, on in marks if on)])


class NewJob(NamedTuple):
    """What is asked for."""

    job_id: str
    priority: int = 5
    task: str = TASK
    queue: str = QUEUE
    args: str = ARGS
    policy: str = POLICY
    labels: str = "[]"


class Claimed(NamedTuple):
    """A job in the hands of a worker. `slot` says where a rotating shape keeps it; others say 0."""

    job_id: str
    attempt: int
    slot: int
    priority: int
    run_at: Any
    args: str
    policy: str


def new_jobs(count: int) -> list[NewJob]:
    """Jobs of which one in ten is more urgent, and one less, than the others."""
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
        self.tally: dict[str, float] = {}  # what this session has written, where the database does not count it

    @abstractmethod
    def create(self) -> None:
        """Make the tables."""

    @abstractmethod
    def register(self, lease_s: float = LEASE_S) -> None:
        """Give this worker a lease. Without one it claims nothing."""

    @abstractmethod
    def insert(self, jobs: Sequence[NewJob]) -> None:
        """Queue jobs, due now."""

    @abstractmethod
    def claim(self, limit: int) -> list[Claimed]:
        """Take the most urgent due jobs, by priority, run_at and id, each with its next attempt number."""

    @abstractmethod
    def finish(self, claims: Sequence[Claimed]) -> list[str]:
        """Close attempts that are still their job's current ones, keep their results, and say which those were."""

    @abstractmethod
    def finish_and_claim(self, claims: Sequence[Claimed], limit: int) -> tuple[list[str], list[Claimed]]:
        """Do both at once."""

    @abstractmethod
    def reclaim(self) -> int:
        """Queue anew what this worker holds, as a reaper does to a dead one; return how many jobs."""

    @abstractmethod
    def tend(self) -> None:
        """Do what the shape needs done once a second beside the work."""

    @abstractmethod
    def ended(self) -> list[str]:
        """The job of each success that is stored."""

    @abstractmethod
    def query(self, sql: str) -> Any:
        """Run one of the queries above and return its first value."""

    @abstractmethod
    def relax(self) -> None:
        """Plan queries as a stranger's are planned."""

    @abstractmethod
    def hold(self) -> None:
        """Open a transaction, read the history in it, and leave it open until `close`."""

    @abstractmethod
    def settle(self) -> None:
        """Tell the planner what the tables have become."""

    @abstractmethod
    def close(self) -> None: ...
