"""Connection limits, in total and per client address, and the choice of the connection to close at a limit.

A connection either waits for its client (to send a request or the rest of one, or to read an answer), or the server
works on its request. At a limit, the connection that has waited longest is closed for the new one. Requests that the
server works on, such as long polls and streams, are never ended for others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from tickwork.core.web.addresses import network_of
from tickwork.errors import InvalidInput

MOST = 2_000  # connections, by default
MOST_TLS = 1_000  # with TLS, as such a connection takes four times as much memory
RESERVED = 128  # open files left for the store, the log and outgoing calls


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The maximum number of open connections, in total and from one address."""

    total: int
    per_address: int


def connection_limits(
    open_files: int, total: int | None, per_address: int | None, most: int = MOST
) -> ConnectionLimits:
    """Return the connection limits for a limit of open files; `total` and `per_address` are settings.

    Without these settings, `most` connections may be open in total, and half of that number from one address.

    Raises InvalidInput if the limit of open files is too low for `total`.
    """
    room = max(open_files - RESERVED, open_files // 2)
    if total is not None and total > room:
        raise InvalidInput(
            f"{total} connections need a limit of {total + RESERVED} open files, and it is {open_files}. Raise it "
            f"(ulimit -n, LimitNOFILE of systemd), or set `connections` to {room} at most."
        )
    total = min(room, most) if total is None else total
    return ConnectionLimits(total, max(1, total // 2) if per_address is None else per_address)


@dataclass(eq=False, slots=True)
class ClientConnection:
    """A connection of a client. `close` closes it at once, and discards unsent data."""

    address: str
    close: Callable[[], None]


@dataclass(slots=True)
class _AddressGroup:
    """The connections of one address. `waiting` is ordered, the longest waiting first."""

    count: int = 0
    waiting: dict[ClientConnection, None] = field(default_factory=dict)


class Connections:
    """The open connections of a server. Not thread-safe: for its event loop only."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._open: set[ClientConnection] = set()
        self._waiting: dict[ClientConnection, None] = {}
        self._groups: dict[str, _AddressGroup] = defaultdict(_AddressGroup)

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, host: str, close: Callable[[], None]) -> ClientConnection | None:
        """Add a connection, closing another if a limit is reached; return None if none can be closed."""
        address = network_of(host)
        group = self._groups.get(address, _NO_GROUP)
        if group.count >= self.limits.per_address:
            has_room = self._close_first(group.waiting)
        else:
            has_room = len(self._open) < self.limits.total or self._close_first(self._waiting)
        if not has_room:
            return None
        connection = ClientConnection(address, close)
        self._open.add(connection)
        self._groups[address].count += 1
        self.waits(connection)
        return connection

    def waits(self, connection: ClientConnection) -> None:
        """Record that a connection now waits for its client."""
        if connection in self._open:
            for waiting in (self._waiting, self._groups[connection.address].waiting):
                waiting.pop(connection, None)
                waiting[connection] = None

    def is_served(self, connection: ClientConnection) -> None:
        """Record that the server now works on a request of a connection."""
        if connection in self._open:
            self._waiting.pop(connection, None)
            self._groups[connection.address].waiting.pop(connection, None)

    def leave(self, connection: ClientConnection) -> None:
        """Remove a closed connection, unless it has already been removed."""
        if connection not in self._open:
            return
        self.is_served(connection)
        self._open.remove(connection)
        group = self._groups[connection.address]
        group.count -= 1
        if not group.count:
            del self._groups[connection.address]

    def make_room(self, count: int) -> None:
        """Close up to `count` connections, the longest waiting first."""
        while count > 0 and self._close_first(self._waiting):
            count -= 1

    def _close_first(self, waiting: dict[ClientConnection, None]) -> bool:
        """Close the connection that has waited longest; return whether there was one.

        It is removed from the counts at once, before its socket is closed.
        """
        first = next(iter(waiting), None)
        if first is None:
            return False
        self.leave(first)
        first.close()
        return True


_NO_GROUP = _AddressGroup()
