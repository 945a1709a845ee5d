"""Runs the steps of several sessions in every order that is possible, as PostgreSQL's own isolation tester does.

Each session is a store whose verbs run inside one open transaction; its last step commits, or rolls back. A step that
waits for another session's lock is left waiting while that one goes on.
"""

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import psycopg

from tickwork.store.postgres import PostgresStore
from tickwork.store.postgres.connection.session import Session

LIMIT_S = 10.0
_LOOK_S = 0.002


class HeldPool:
    """Lends the one connection of a session, whose transaction stays open."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection

    @contextlib.contextmanager
    def lend(self) -> Iterator[psycopg.Connection[Any]]:
        yield self.connection


class HeldStore(PostgresStore):
    """A store whose verbs happen in one transaction, until it is told how that ends."""

    def begin(self) -> None:
        transactions = self.transactions
        with transactions.pool.lend() as connection:
            transactions.check_schema(connection)
        self.held = self.server.connect()
        self.held.execute("BEGIN")
        transactions.pool = transactions.reserved = HeldPool(self.held)  # type: ignore[assignment]
        transactions.run_once = self._run_once  # type: ignore[method-assign]

    def _run_once(self, connection: Any, work: Callable[[Session], Any], again: bool, begin: tuple[str, ...]) -> Any:
        with connection.transaction():  # a savepoint: a retry begins here
            return work(Session(connection, self.transactions.sql, self.transactions.test_time(), again))


Step = Callable[[HeldStore], Any]


def wipe(store: PostgresStore) -> None:
    """Empty the tables of jobs, flow control and runs."""
    tables = ["jobs", "queue", "running", "finished", "attempts", "keys", "logs", "saved", "workers", "tasks"]
    tables += ["limits", "limit_states", "holds", "gates", "tenants", "dags", "runs", "steps"]
    with store.connection() as tx:
        tx.execute("; ".join(f"DELETE FROM {table(store, name)}" for name in tables).encode())


def table(store: PostgresStore, name: str) -> str:
    return f'"{store.schema.name}".{name}'


@dataclass
class Actor:
    """A session and what it does before it ends its transaction; `answers` is what its verbs gave."""

    steps: Sequence[Step]
    commits: bool = True
    store: HeldStore = field(init=False)
    answers: list[Any] = field(default_factory=list)

    def all_steps(self) -> list[Callable[[], None]]:
        return [*(lambda step=step: self._do(step) for step in self.steps), self._end]

    def _do(self, step: Step) -> None:
        self.answers.append(_answer(lambda: step(self.store)))

    def _end(self) -> None:
        self.store.held.execute("COMMIT" if self.commits else "ROLLBACK")


def _answer(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:
        return error


def orders(actors: Sequence[Actor]) -> list[tuple[int, ...]]:
    """Every order in which the steps of the actors can follow each other."""
    tokens = [n for n, actor in enumerate(actors) for _ in range(len(actor.steps) + 1)]
    return sorted(set(itertools.permutations(tokens)))


def run_round(open_held: Callable[[], HeldStore], actors: Sequence[Actor], order: Sequence[int]) -> None:
    """Run the actors' steps in this order, as far as their locks allow."""
    with ThreadPoolExecutor(len(actors)) as threads:
        for actor in actors:
            actor.store = open_held()
            actor.store.begin()
        left = [actor.all_steps() for actor in actors]
        waiting: dict[int, Future[None]] = {}
        for n in _feasible(order, waiting):
            waiting[n] = threads.submit(left[n].pop(0))
            _until_done_or_blocked(waiting[n], actors[n].store)
        for future in waiting.values():
            future.result(LIMIT_S)
    for actor in actors:
        actor.store.held.close()


def _feasible(order: Sequence[int], waiting: dict[int, Future[None]]) -> Iterator[int]:
    """The order, except that a session that waits for a lock lets the others go first."""
    queue = list(order)
    while queue:
        n = next((n for n in queue if n not in waiting or waiting[n].done()), None)
        if n is None:
            waiting[queue[0]].result(LIMIT_S)
            continue
        queue.remove(n)
        yield n


def _until_done_or_blocked(step: "Future[None]", store: HeldStore) -> None:
    nap = threading.Event()
    with psycopg.connect(store.url, autocommit=True) as observer:
        while not step.done():
            found = observer.execute(
                "SELECT wait_event_type FROM pg_stat_activity WHERE pid = %s", (store.held.info.backend_pid,)
            ).fetchone()
            if found == ("Lock",):
                return
            nap.wait(_LOOK_S)
    step.result()
