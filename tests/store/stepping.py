"""Runs verbs one round trip at a time, so that another session can do something in between.

A verb may take several transactions, and what happens between two of them matters as much as what happens inside one.
"""

import threading
from collections.abc import Callable
from functools import cached_property
from typing import Any

import psycopg

from tests.store.interleaving import LIMIT_S
from tickwork.store.postgres import PostgresStore
from tickwork.store.postgres.connection.session import Session

_LOOK_S = 0.001

Verb = Callable[[PostgresStore], Any]
Make = Callable[[], tuple[Verb, Verb, Callable[[Any, Any], None]]]  # two verbs, and a check of what they answered


class SteppedStore(PostgresStore):
    """A store that asks before each round trip. Its own pause is set while a verb is stepped.

    `repeats` counts the transactions that had to be run again: after a deadlock, or a conflict.
    """

    pause: Callable[[int], None] = staticmethod(lambda pid: None)
    repeats = 0

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.transactions.run_once = self._run_once  # type: ignore[method-assign]

    @cached_property
    def observer(self) -> psycopg.Connection[Any]:
        """Sees what the others wait for."""
        return psycopg.connect(self.url, autocommit=True)

    def close(self) -> None:
        super().close()
        self.observer.close()

    def _run_once(self, connection: Any, work: Callable[[Session], Any], again: bool, begin: tuple[str, ...]) -> Any:
        pause, pid = self.pause, connection.info.backend_pid
        self.repeats += again

        class Stepped(Session):
            def run_sql(self, sql: str, values: Any) -> Any:
                pause(pid)
                return super().run_sql(sql, values)

            def run_together(self, statements: Any) -> Any:
                pause(pid)
                return super().run_together(statements)

            def run_last(self, statements: Any) -> Any:
                pause(pid)
                return super().run_last(statements)

        session = Stepped(connection, self.transactions.sql, self.transactions.test_time(), again)
        if not begin:
            return work(session)
        with connection.transaction():
            result = work(session)
            pause(pid)  # before its commit
        return result


class Stepper:
    """One verb on a store of its own, in a thread that goes on when it is told to."""

    def __init__(self, store: SteppedStore, verb: Callable[[PostgresStore], Any]) -> None:
        self._store = store
        self._verb = verb
        self._changed = threading.Condition()
        self._permits = 0
        self._is_waiting = False
        self._pid: int | None = None
        self.is_done = False
        self.answer: Any = None
        store.pause = self._pause  # type: ignore[method-assign]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.settle()

    def _run(self) -> None:
        try:
            self.answer = self._verb(self._store)
        except Exception as error:
            self.answer = error
        with self._changed:
            self.is_done = True
            self._changed.notify_all()

    def _pause(self, pid: int) -> None:
        with self._changed:
            self._pid = pid
            self._is_waiting = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._permits > 0, LIMIT_S)
            self._permits -= 1
            self._is_waiting = False

    def step(self) -> bool:
        """Let it do one round trip; return False if it waits for a lock, or is done."""
        with self._changed:
            if not self._is_waiting or self.is_done:
                return False
            self._permits += 1
            self._is_waiting = False
            self._changed.notify_all()
        self.settle()
        return True

    def settle(self) -> None:
        """Wait until it asks again, is done, or waits for a lock."""
        while True:
            with self._changed:
                if self._changed.wait_for(lambda: self._is_waiting or self.is_done, _LOOK_S):
                    return
            if self.waits_for_a_lock():
                return

    def waits_for_a_lock(self) -> bool:
        if self._pid is None or self._is_waiting or self.is_done:
            return False
        query = "SELECT wait_event_type FROM pg_stat_activity WHERE pid = %s"
        return self._store.observer.execute(query, (self._pid,)).fetchone() == ("Lock",)

    def finish(self) -> None:
        """Let it continue to its end."""
        with self._changed:
            self._permits = 10_000
            self._changed.notify_all()

    def join(self) -> None:
        self._thread.join(LIMIT_S)
        assert self.is_done, "it hangs"


def meet(one: Stepper, other: Stepper, first: int, second: int) -> tuple[bool, bool]:
    """Let one do its steps, then the other, then both continue; return whether each could do all of its steps."""
    steps = [[stepper.step() for _ in range(count)] for stepper, count in ((one, first), (other, second))]
    did = all(steps[0]), all(steps[1])
    for stepper in (one, other):
        stepper.finish()
    for stepper in (one, other):
        stepper.join()
    return did
