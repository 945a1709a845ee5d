"""Outgoing connections of built-in tasks, with protection against requests to internal addresses (SSRF).

A host name is resolved once, all its addresses are checked, and the connection is made to a checked address. So a name
that resolves to another address a moment later (DNS rebinding) has no effect. Host header and TLS use the name.
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
    """Return all addresses of a host, in the order of preference of the system."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class Egress:
    """Connects to allowed hosts: those with public addresses, and those that the operator of the worker allows."""

    def __init__(self, allowed: AllowedAddresses, resolve: Resolve = resolve) -> None:
        self._allowed = allowed
        self._resolve = resolve

    def addresses(self, host: str, port: int) -> list[Address]:
        """Return the addresses of a host. Raises Fatal if any is forbidden, RequestFailed if there are none."""
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
        """Connect to a host, blocking, within `timeout_s` seconds for all of its addresses together."""
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
    """Return the error message for a host that cannot be connected to."""
    why = "it did not answer in time" if isinstance(error, TimeoutError) else getattr(error, "strerror", None)
    return f"{host}:{port} cannot be reached: {why or 'the connection failed'}."
