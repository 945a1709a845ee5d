"""Text from elsewhere, made safe for a terminal: what could move the cursor or hide something is spelled out."""

from __future__ import annotations

import re

_COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")


def clean(text: str) -> str:
    """One line: every character that does not print, line ends included, as its escape."""
    return text if text.isprintable() else "".join(_spelled(character) for character in text)


def clean_lines(text: str) -> str:
    """Several lines: line ends and tabs stay."""
    if text.isprintable():
        return text
    return "".join(one if one in "\n\t" else _spelled(one) for one in text.replace("\r\n", "\n"))


SHARED = "--- output of the process, shared by the attempts in it ---"  # over such a piece of a log


def clean_log(text: str, *, colours: bool) -> str:
    """What a handler printed. Its colours are kept where they can be seen, and left out elsewhere."""
    parts = _COLOUR.split(text)
    kept = (part if colours else "" for part in parts[1::2])
    cleaned = (clean_lines(part) for part in parts[::2])
    return "".join(part for pair in zip(cleaned, [*kept, ""], strict=True) for part in pair)


def _spelled(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
