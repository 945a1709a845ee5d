"""SSRF protection: requests may go to public addresses, and to addresses that an operator allows.

The check applies to the address that is dialled, after the name was resolved. An IPv6 address that embeds an IPv4
address (mapped, 6to4, NAT64) is checked as that IPv4 address.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from tickwork.errors import InvalidInput

Address = IPv4Address | IPv6Address

_V4 = {
    "0.0.0.0/8": "unspecified",
    "10.0.0.0/8": "private",
    "100.64.0.0/10": "shared by a carrier",
    "127.0.0.0/8": "loopback",
    "169.254.0.0/16": "link-local",
    "172.16.0.0/12": "private",
    "192.0.0.0/24": "reserved",
    "192.0.2.0/24": "reserved",
    "192.88.99.0/24": "reserved",
    "192.168.0.0/16": "private",
    "198.18.0.0/15": "reserved",
    "198.51.100.0/24": "reserved",
    "203.0.113.0/24": "reserved",
    "224.0.0.0/4": "multicast",
    "240.0.0.0/4": "reserved",
}
_V6 = {
    "::/128": "unspecified",
    "::1/128": "loopback",
    "fc00::/7": "private",
    "fe80::/10": "link-local",
    "fec0::/10": "private",
    "ff00::/8": "multicast",
    "2001::/23": "reserved",
    "2001:db8::/32": "reserved",
    "3fff::/20": "reserved",
}
_CLOSED_V4 = [(IPv4Network(network), said) for network, said in _V4.items()]
_CLOSED_V6 = [(IPv6Network(network), said) for network, said in _V6.items()]
_GLOBAL_V6 = IPv6Network("2000::/3")  # only these are routed; everything else is refused
_6TO4 = IPv6Network("2002::/16")
_EMBEDDING = (IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96"))
_OF_ONE_CLIENT = 64  # prefix length of the IPv6 network of one client
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")


def closed(address: Address) -> str | None:
    """Return the kind of a non-public address, which requests must not reach by default; None if it is public."""
    if isinstance(address, IPv4Address):
        return next((said for network, said in _CLOSED_V4 if address in network), None)
    inner = _inside(address)
    if inner is not None:
        return closed(inner)
    said = next((said for network, said in _CLOSED_V6 if address in network), None)
    return said or (None if address in _GLOBAL_V6 else "reserved")


def _inside(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address that an IPv6 address embeds, if any."""
    if any(address in network for network in _EMBEDDING):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    if address in _6TO4:
        return IPv4Address(int(address) >> 80 & 0xFFFFFFFF)
    return None


def read_address(text: str) -> Address:
    """Return an address as resolvers give it, without its zone. Raises ValueError."""
    return ip_address(text.partition("%")[0])


def disguised(host: str) -> bool:
    """Return whether a host is an address in an unusual number format: 2130706433, 0x7f.1, 0177.0.0.1."""
    if not _NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2]):
        return False
    try:
        return str(ip_address(host)) != host
    except ValueError:
        return True


@dataclass(frozen=True, slots=True)
class AllowedAddresses:
    """The hosts and networks that an operator allows besides public addresses."""

    hosts: frozenset[str] = frozenset()
    networks: tuple[IPv4Network | IPv6Network, ...] = ()

    def refusal(self, host: str, addresses: Sequence[Address]) -> str | None:
        """Return why an address of a host may not be dialled; None if all of them may."""
        if host.lower().rstrip(".") in self.hosts:
            return None
        for address in addresses:
            said = closed(address)
            if said is not None and not self._has(address):
                return f"{host} is {address}, which is {said}" if str(address) != host else f"{host} is {said}"
        return None

    def _has(self, address: Address) -> bool:
        inner = _inside(address) if isinstance(address, IPv6Address) else None
        return any(one in network for network in self.networks for one in (address, inner) if one is not None)


def plain_address(host: str) -> str:
    """Return a client address; an IPv4 address in IPv6 form, ::ffff:192.0.2.7, as IPv4.

    Text that is not an address is returned unchanged.
    """
    try:
        mapped = IPv6Address(host.partition("%")[0]).ipv4_mapped if ":" in host else None
    except ValueError:
        return host
    return host if mapped is None else str(mapped)


def network_of(host: str) -> str:
    """Return the key by which clients are counted: an IPv4 address, or the network of an IPv6 address."""
    host = plain_address(host)
    try:
        return str(IPv6Network((int(IPv6Address(host.partition("%")[0])), _OF_ONE_CLIENT), strict=False))
    except ValueError:
        return host


def read_proxies(text: str) -> tuple[IPv4Network | IPv6Network, ...]:
    """Parse a list of addresses and networks such as `10.1.0.0/16, ::1`; `none` is empty. Raises InvalidInput."""
    found = []
    for one in re.split(r"[,\s]+", "" if text.strip() == "none" else text):
        try:
            network = ip_network(one) if one else None
        except ValueError:
            raise InvalidInput(
                f"trusted_proxies has {one!r}, which is neither an address nor a network. Write those of your proxies, "
                f"such as 10.1.0.0/16, or none."
            ) from None
        if network is not None and network.prefixlen == 0:
            raise InvalidInput(f"trusted_proxies has {one}: then every client could name itself any address.")
        found += [] if network is None else [network]
    return tuple(found)


def read_allowed(text: str | None) -> AllowedAddresses:
    """Parse a list of hosts and networks such as `intranet.example.org, 10.1.0.0/16`. Raises InvalidInput."""
    hosts, networks = set(), []
    for one in re.split(r"[,\s]+", text or ""):
        if not one:
            continue
        try:
            networks.append(ip_network(one))
        except ValueError:
            if "/" in one or ":" in one or disguised(one):
                raise InvalidInput(
                    f"http_allow has {one!r}, which is neither a host nor a network. Write names and networks, such as "
                    f"intranet.example.org, 10.1.0.0/16."
                ) from None
            hosts.add(one.lower().rstrip("."))
    return AllowedAddresses(frozenset(hosts), tuple(networks))
