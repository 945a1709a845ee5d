"""Mask passwords in the address of a store: in a URL, before its host or in its query, or in a libpq string.

A libpq string is `host=db user=ada password='o pen'`. libpq reads both forms, and so does the setting `listen_url`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote

MASK = "***"
_SECRET_WORDS = ("password", "passphrase", "secret", "token")


class _Password(NamedTuple):
    """A password in a text: its position, and its value with quotes and escapes resolved."""

    start: int
    end: int
    meaning: str


def masked(text: str) -> str:
    """Return an address with *** for each password in it."""
    for part in reversed(list(_passwords(text))):
        text = f"{text[: part.start]}{MASK}{text[part.end :]}"
    return text


def passwords_in(text: str) -> set[str]:
    """Return the passwords in an address, both as written and with escapes resolved."""
    return {said for part in _passwords(text) for said in (text[part.start : part.end], part.meaning) if said}


def _passwords(text: str) -> Iterator[_Password]:
    """Return the passwords in an address, in their order."""
    is_url = "://" in text or (":" in text and "@" in text and "=" not in text)  # the slashes may be missing
    return _of_url(text) if is_url else _of_libpq(text)


def _of_url(text: str) -> Iterator[_Password]:
    """Yield the passwords of a URL: the one before its host, and those in its query."""
    scheme, slashes, _ = text.partition("://")
    start = len(scheme + slashes) if slashes else text.index(":") + 1
    host = text.rfind("@") + 1  # the last one: a password may contain unescaped @ signs
    colon = text.find(":", start, host)
    if colon >= 0:
        yield _Password(colon + 1, host - 1, unquote(text[colon + 1 : host - 1]))
        start = host
    at = text.find("?", start) + 1
    while at > 0:
        following = text.find("&", at)
        end = len(text) if following < 0 else following
        equals = text.find("=", at, end)
        if equals >= 0 and _is_secret(unquote(text[at:equals])):
            yield _Password(equals + 1, end, unquote(text[equals + 1 : end]))
        at = following + 1


def _of_libpq(text: str) -> Iterator[_Password]:
    """Yield the passwords of a libpq string."""
    at = 0
    while (equals := text.find("=", at)) >= 0:
        name = text[at:equals].split()
        start = equals + 1
        while text[start : start + 1].isspace():
            start += 1
        meaning, at = _value(text, start)
        if name and _is_secret(name[-1]):
            yield _Password(start, at, meaning)


def _value(text: str, start: int) -> tuple[str, int]:
    """Return a value of a libpq string, and its end: a space, or the closing quote."""
    is_quoted = text.startswith("'", start)
    at, said = start + is_quoted, ""
    while at < len(text):
        char = text[at]
        if (char == "'") if is_quoted else char.isspace():
            return said, at + is_quoted
        at += 1 if char != "\\" else 2
        said += char if char != "\\" else text[at - 1 : at]
    return said, len(text)


def _is_secret(name: str) -> bool:
    return any(word in name.lower() for word in _SECRET_WORDS)
