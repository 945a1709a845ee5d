"""A connection that runs Tickwork's own statements through libpq: prepared once, values as text, pipelined.

psycopg's cursors do the same for any statement with any values, and take twice as long for a short one. Users'
transactions, and rare statements, use them.

Every wait for the server ends at the connection's deadline. A server or a proxy can accept each byte and answer
nothing, which neither a timeout of the server nor TCP notices. A connection whose deadline has passed is closed:
whether the server carries out the last request is unknown.
"""

from __future__ import annotations

import contextlib
import re
import select
from collections.abc import Generator, Iterator, Sequence
from functools import cached_property, lru_cache
from math import inf
from typing import Any, TypeVar

import psycopg
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus, TransactionStatus
from psycopg.pq.abc import PGresult

from tickwork.clock import SystemClock

T = TypeVar("T")
Values = dict[str, Any]
Rows = list[Any]
Statement = tuple[str, Values]

PLACE = re.compile(r"%\((\w+)\)s")  # A placeholder of a statement.
_clock = SystemClock()

_LOOK_MS = 100  # How often a wait checks its deadline; an exception can reach its thread then.


class NoAnswer(psycopg.OperationalError):
    """The server did not answer before the deadline; the connection was closed."""


class PgConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection to PostgreSQL that remembers which statements it has prepared.

    With `prepares`, psycopg must not prepare statements (its prepare_threshold is None): it sometimes deallocates all
    prepared statements.
    """

    prepares = False
    idle_since = 0.0
    deadline = inf  # By the monotonic clock; psycopg's calls keep it, too.
    _limit_s = inf

    def answer_within(self, seconds: float) -> None:
        """Set the deadline for all requests from now on."""
        self._limit_s = seconds
        self.deadline = _clock.monotonic() + seconds

    @contextlib.contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Use another time limit for the block. After it the previous limit starts again."""
        before = self._limit_s
        self.answer_within(seconds)
        try:
            yield
        finally:
            self.answer_within(before)

    @contextlib.contextmanager
    def callers_transaction(self, limit_s: float) -> Iterator[None]:
        """Run the block in a transaction. Its begin and its end have a limit; the statements in it are the caller's."""
        transaction = self.transaction()
        with self.within(limit_s):
            transaction.__enter__()
        try:
            yield
        except BaseException as error:
            with self.within(limit_s):
                is_handled = transaction.__exit__(type(error), error, error.__traceback__)
            if not is_handled:
                raise
        else:
            with self.within(limit_s):
                transaction.__exit__(None, None, None)

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **options: Any) -> T:
        """Wait until the deadline for a request of psycopg, and return its result."""
        return super().wait(self._until_deadline(gen), *args, **options)

    def _until_deadline(self, gen: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        """Run a generator of psycopg, and check the deadline whenever its wait returns without an event."""
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready:
                    self._check_deadline()
                wanted = gen.send(ready)
        except StopIteration as done:
            value: T = done.value
            return value

    def _check_deadline(self) -> None:
        """Close the connection and raise NoAnswer once the deadline has passed."""
        if _clock.monotonic() >= self.deadline:
            self.close()
            raise NoAnswer(f"no answer within {self._limit_s:g} s")

    def run(self, statements: Sequence[Statement]) -> list[Rows]:
        """Run statements in one round trip and return the rows of each; outside of a transaction, they are one
        transaction.

        Each statement casts its values to their types.
        """
        return [self._rows(result) for result in self.results(statements)]

    def run_named(self, sql: str, values: Values) -> list[dict[str, Any]]:
        """Run a statement and return its rows as dicts by column name."""
        (result,) = self.results([(sql, values)])
        rows = self._rows(result)
        names = [str((result.fname(number) or b"").decode()) for number in range(result.nfields)]
        return [dict(zip(names, row, strict=True)) for row in rows]

    def results(self, statements: Sequence[Statement]) -> list[PGresult]:
        """Run statements in one round trip and return the server's results, errors included."""
        ready = [(sql, _wired(sql, values), self._name(sql)) for sql, values in statements]
        if len(ready) == 1:
            self._send(*ready[0])
            return self._answers()[-1:]
        self.pgconn.enter_pipeline_mode()
        for one in ready:
            self._send(*one)
        self.pgconn.pipeline_sync()
        results = self._answers(ExecStatus.PIPELINE_SYNC)
        self.pgconn.exit_pipeline_mode()
        return results

    def _send(self, sql: str, wired: list[bytes | None], name: bytes | None) -> None:
        """Send a statement with its values; with a `name`, the prepared statement of that name."""
        if name is None:
            self.pgconn.send_query_params(_numbered(sql)[0], wired)
        else:
            self.pgconn.send_query_prepared(name, wired)

    def _name(self, sql: str) -> bytes | None:
        """Return the name of the prepared statement for this SQL, which is prepared on first use.

        None behind a pooler, where the session may change.
        """
        name = self._names.get(sql)
        if name is None and self.prepares:
            name = b"tickwork_%d" % len(self._names)
            self.pgconn.send_prepare(name, _numbered(sql)[0])
            self._rows(self._answers()[-1])
            self._names[sql] = name
        return name

    @cached_property
    def _names(self) -> dict[str, bytes]:
        """The names of the statements that were prepared on this connection."""
        return {}

    def _answers(self, last: ExecStatus | None = None) -> list[PGresult]:
        """Return all results of the statements sent: up to the end, or to the status that ends a pipeline."""
        pgconn, results = self.pgconn, list[PGresult]()
        while pgconn.flush():
            self._await(self._both_ways)
            pgconn.consume_input()
        while True:
            while pgconn.is_busy():
                self._await(self._input)
                pgconn.consume_input()
            result = pgconn.get_result()
            if (result is None and last is None) or (result is not None and result.status == last):
                return results
            if result is not None:
                results.append(result)

    def _await(self, poll: select.poll) -> None:
        """Wait for an event of the socket; raise NoAnswer at the deadline."""
        while not poll.poll(_LOOK_MS):
            self._check_deadline()

    @cached_property
    def _input(self) -> select.poll:
        return _polling(self.pgconn.socket, select.POLLIN)

    @cached_property
    def _both_ways(self) -> select.poll:
        return _polling(self.pgconn.socket, select.POLLIN | select.POLLOUT)

    def is_quiet(self) -> bool:
        """Return whether the connection works and the server has sent nothing unrequested, such as the end of the
        connection.
        """
        return self.pgconn.status != ConnStatus.BAD and not self._input.poll(0)

    def is_idle(self) -> bool:
        """Return whether the connection is outside of any transaction and has no request in progress."""
        return self.pgconn.transaction_status == TransactionStatus.IDLE

    def _rows(self, result: PGresult) -> Rows:
        """Return the rows of a result. Raise its error."""
        if result.status == ExecStatus.COMMAND_OK:
            return []
        if result.status != ExecStatus.TUPLES_OK:
            raise error_from_result(result)
        transformer = Transformer(self)
        transformer.set_pgresult(result)
        return transformer.load_rows(0, result.ntuples, tuple)


def _polling(descriptor: int, events: int) -> select.poll:
    poll = select.poll()
    poll.register(descriptor, events)
    return poll


@lru_cache(maxsize=256)
def _numbered(sql: str) -> tuple[bytes, tuple[str, ...]]:
    """Return a statement with numbered parameters ($1), and the names of its values in their order."""
    names = tuple(dict.fromkeys(PLACE.findall(sql)))
    return PLACE.sub(lambda place: f"${names.index(place[1]) + 1}", sql).encode(), names


def _wired(sql: str, values: Values) -> list[bytes | None]:
    """Return the values of a statement as text, in the order of its parameters."""
    given = [values[name] for name in _numbered(sql)[1]]
    wired = [None if value is None else str(value).encode() for value in given]
    if b"\0" in b"".join(filter(None, wired)):
        raise psycopg.DataError("PostgreSQL cannot store a text with a zero byte")
    return wired
