"""Escape untrusted text for a terminal: characters that could move the cursor or hide text are written as escapes."""

from __future__ import annotations

import re

_COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")


def clean(text: str) -> str:
    """Return a text as one line, with every unprintable character, line ends included, as an escape."""
    return text if text.isprintable() else "".join(_spelled(character) for character in text)


def clean_lines(text: str) -> str:
    """Return a text with unprintable characters as escapes, except line ends and tabs."""
    if text.isprintable():
        return text
    return "".join(one if one in "\n\t" else _spelled(one) for one in text.replace("\r\n", "\n"))


SHARED = "--- output of the process, shared by the attempts in it ---"  # heading of shared output in a log


def clean_log(text: str, *, colours: bool) -> str:
    """Return the output of a handler for a terminal.

    Colours are kept or removed; other control sequences are escaped.
    """
    parts = _COLOUR.split(text)
    kept = (part if colours else "" for part in parts[1::2])
    cleaned = (clean_lines(part) for part in parts[::2])
    return "".join(part for pair in zip(cleaned, [*kept, ""], strict=True) for part in pair)


def _spelled(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
