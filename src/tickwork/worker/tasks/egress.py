"""The way out for built-in tasks: a name is resolved once, all of its addresses are judged, and one of them is dialled.

What is dialled is the address that was judged, so a name that resolves to something else a moment later leads nowhere.
Host header and TLS keep the name.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

from tickwork.clock import SystemClock
from tickwork.core.web.addresses import Address, AllowedAddresses, disguised, read_address
from tickwork.core.web.url import HOST_LIMIT
from tickwork.errors import Fatal, RequestFailed

Resolve = Callable[[str, int], list[str]]


def resolve(host: str, port: int) -> list[str]:
    """All addresses of a host, in the order in which the machine prefers them."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class Egress:
    """Dials hosts that may be reached: public ones, and those that the operator of this worker allows."""

    def __init__(self, allowed: AllowedAddresses, resolve: Resolve = resolve) -> None:
        self._allowed = allowed
        self._resolve = resolve

    def addresses(self, host: str, port: int) -> list[Address]:
        """The addresses of a host. Raises Fatal where one of them must not be reached, RequestFailed where none is."""
        if len(host) > HOST_LIMIT:
            raise Fatal(f"the host has more than {HOST_LIMIT} characters: nothing was sent.")
        if ":" not in host and disguised(host):
            raise Fatal(f"{host} is a number in disguise, not a host: nothing was sent.")
        try:
            found = [read_address(one) for one in self._resolve(host, port)]
        except (OSError, UnicodeError, ValueError):
            raise RequestFailed(f"{host} has no address: nothing was sent.") from None
        refusal = self._allowed.refusal(host, found)
        if refusal is not None:
            raise Fatal(f"{refusal}: nothing was sent. TICKWORK_HTTP_ALLOW of a worker names what else it may reach.")
        if not found:
            raise RequestFailed(f"{host} has no address: nothing was sent.")
        return found

    def dial(self, host: str, port: int, timeout_s: float) -> socket.socket:
        """Connect to a host from a thread, within so many seconds for all of its addresses."""
        clock = SystemClock()
        until = clock.monotonic() + timeout_s
        failed: OSError | None = None
        for address in self.addresses(host, port):
            try:
                return socket.create_connection((str(address), port), max(0.05, until - clock.monotonic()))
            except OSError as error:
                failed = error
        raise RequestFailed(unreachable(host, port, failed)) from None


def unreachable(host: str, port: int, error: OSError | None) -> str:
    """What to say of a host that nobody answers at."""
    why = "it did not answer in time" if isinstance(error, TimeoutError) else getattr(error, "strerror", None)
    return f"{host}:{port} cannot be reached: {why or 'the connection failed'}."
