"""Strict URL parsing for outgoing requests: the parsed URL is exactly what is dialled.

Parsers that disagree on where a host ends allow requests to be misdirected. So anything unusual is refused: user names,
backslashes, spaces, hosts that are numbers in disguise.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv6Address
from urllib.parse import quote, urljoin, urlsplit

from tickwork.core.web.addresses import disguised
from tickwork.errors import InvalidArguments

PORTS = {"http": 80, "https": 443}
URL_LIMIT = 8192
HOST_LIMIT = 253
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_UNSAFE = re.compile(r"[\x00-\x20\x7f\\]")


@dataclass(frozen=True, slots=True)
class Url:
    """A parsed URL. `host` is a name, or an address without brackets."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def shown(self) -> str:
        """The part that may appear in messages: paths and queries often hold tokens."""
        return f"{self.scheme}://{self.authority}"


def read_url(text: str) -> Url:
    """Parse a URL. Raises InvalidArguments, whose message does not contain the URL, since it may hold a secret."""
    if len(text) > URL_LIMIT or _UNSAFE.search(text):
        raise InvalidArguments("the url is too long, or has a space, a backslash or a control character in it.")
    try:
        parts = urlsplit(text)
        port, host = parts.port, (parts.hostname or "").lower()
    except ValueError:
        raise InvalidArguments("the url cannot be read: its host or its port is none.") from None
    if parts.scheme not in PORTS:
        raise InvalidArguments("the url must begin with http:// or https://.")
    if "@" in parts.netloc:
        raise InvalidArguments("the url names a user: give the credentials under auth.")
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    query = quote(parts.query, safe="/%:@!$&'()*+,;=~-._?")
    target = f"{path}?{query}" if query else path
    return Url(parts.scheme, _host(host, parts.netloc), PORTS[parts.scheme] if port is None else port, target)


def literal_origin(text: str) -> str | None:
    """Return the origin at the beginning of a text if further text cannot change it, otherwise None.

    `http://host` alone has no such origin: `.example`, `:81` or `@other` may follow.
    """
    start = text.find("://") + 3
    ends = [at for end in "/?#" if (at := text.find(end, start)) >= 0]
    if start < 3 or not ends:
        return None
    try:
        return read_url(text[: min(ends)]).shown
    except InvalidArguments:
        return None


def redirected(url: Url, location: str) -> Url:
    """Return the URL that a redirect leads to. Raises InvalidArguments."""
    if len(location) > URL_LIMIT:
        raise InvalidArguments(f"the url is longer than {URL_LIMIT:,} characters.")
    return read_url(urljoin(f"{url.shown}{url.target}", location))


def _host(host: str, netloc: str) -> str:
    """Return the host in ASCII. Raises InvalidArguments if it is not a valid name or address."""
    if "[" in netloc:
        try:
            return str(IPv6Address(host if "%" not in host else ""))
        except ValueError:
            raise InvalidArguments("the url has brackets, and no IPv6 address in them.") from None
    if len(host) > HOST_LIMIT:  # checked before IDNA, whose time grows with the square of the length
        raise InvalidArguments(f"the url has a host of more than {HOST_LIMIT} characters.")
    try:
        ascii_host = host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        ascii_host = ""
    if not _is_name(ascii_host):
        raise InvalidArguments(
            "the url has no host, or one that is not a name: labels of up to 63 letters, digits, - and _, which do not "
            "begin or end with -, and a dot between them."
        )
    if disguised(ascii_host):
        raise InvalidArguments("the url has a host that is a number in disguise: write 192.0.2.7, or a name.")
    return ascii_host


def _is_name(host: str) -> bool:
    """Return whether a text is labels of up to 63 characters joined by dots; a final dot is allowed."""
    return len(host) <= HOST_LIMIT and all(_LABEL.fullmatch(label) for label in host.removesuffix(".").split("."))
