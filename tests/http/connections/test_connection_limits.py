"""Which connections there may be, which is closed when there are too many, and how little is logged about that."""

import logging
from collections.abc import Callable

import pytest

from tickwork.config import load_settings
from tickwork.errors import InvalidInput
from tickwork.http.connections.connection_limits import (
    MOST_TLS,
    ClientConnection,
    ConnectionLimits,
    Connections,
    connection_limits,
)
from tickwork.http.connections.log_limit import MOST, WINDOW_S, LogLimit


class Clients:
    """Clients that connect, and are closed."""

    def __init__(self, total: int, per_address: int) -> None:
        self.among = Connections(ConnectionLimits(total, per_address))
        self.closed: list[str] = []

    def connect(self, name: str, host: str = "192.0.2.1") -> ClientConnection:
        found = self.among.admit(host, self._closes(name))
        assert found is not None
        return found

    def _closes(self, name: str) -> Callable[[], None]:
        return lambda: self.closed.append(name)


def test_the_connection_that_waited_longest_is_closed_for_a_new_one() -> None:
    clients = Clients(total=3, per_address=3)
    first, second, _ = (clients.connect(name) for name in ("first", "second", "third"))
    clients.among.is_served(first)
    clients.among.waits(first)
    clients.among.is_served(second)
    for name in ("fourth", "fifth"):
        clients.connect(name)
    assert clients.closed == ["third", "first"]
    assert len(clients.among) == 3


def test_a_connection_is_refused_when_the_server_works_for_all_others() -> None:
    clients = Clients(total=2, per_address=2)
    first, second = clients.connect("first"), clients.connect("second")
    clients.among.is_served(first)
    clients.among.is_served(second)
    assert clients.among.admit("192.0.2.9", lambda: None) is None
    clients.among.leave(first)
    clients.among.leave(first)
    assert clients.among.admit("192.0.2.9", lambda: None) is not None
    assert clients.closed == []


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
    ],
)
def test_one_address_cannot_take_what_is_left_to_others(one: str, other: str, is_same: bool) -> None:
    clients = Clients(total=10, per_address=2)
    clients.connect("first", one)
    clients.connect("second", one)
    clients.connect("third", other)
    assert clients.closed == (["first"] if is_same else [])


def test_caps_follow_from_the_limit_of_open_files_and_the_settings() -> None:
    assert connection_limits(1024, None, None) == ConnectionLimits(896, 448)
    assert connection_limits(128, None, None) == ConnectionLimits(64, 32)
    assert connection_limits(1_000_000, None, None) == ConnectionLimits(2_000, 1_000)
    assert connection_limits(1_000_000, None, None, MOST_TLS) == ConnectionLimits(1_000, 500)
    assert connection_limits(20_000, 15_000, 15_000) == ConnectionLimits(15_000, 15_000)
    assert connection_limits(1024, 1, None) == ConnectionLimits(1, 1)
    with pytest.raises(InvalidInput, match="2000 connections need a limit of 2128 open files, and it is 1024"):
        connection_limits(1024, 2000, None)


@pytest.mark.parametrize("text", ["0", "-1", "many", "1e3", "9" * 5000])
@pytest.mark.parametrize("name", ["connections", "connections_per_address"])
def test_a_cap_that_is_none_is_refused(name: str, text: str) -> None:
    with pytest.raises(InvalidInput, match=f"{name} must be a whole number"):
        load_settings({name: text}, {})


class Watch:
    """A clock of these tests."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


def test_errors_of_a_kind_are_logged_a_few_times_and_counted() -> None:
    watch = Watch()
    limit = LogLimit(watch)  # type: ignore[arg-type]

    def logged(message: str, *args: object) -> str | None:
        record = logging.LogRecord("tickwork.http", logging.ERROR, "", 0, message, args, None)
        return record.getMessage() if limit.filter(record) else None

    assert [logged("no %s", n) for n in range(1000)] == [f"no {n}" for n in range(MOST)] + [None] * (1000 - MOST)
    assert logged("something else") == "something else"
    watch.now += WINDOW_S
    assert logged("no %s", 7) == f"no 7 ({1000 - MOST} more like this since 10 s)"
    assert logged("no %s", 8) == "no 8"
    for n in range(2000):
        logged(f"made up {n}")
    assert logged("something else") == "something else"
