"""Suggestions for misspelled names, at a bounded cost: callers choose the names and how many there are."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from heapq import nsmallest
from itertools import islice, pairwise

NAME_LIMIT = 40  # characters; longer names are not compared
KNOWN_LIMIT = 1000  # known names that are ranked; all time zones are
COMPARED = 5  # known names that are compared in full


def guess(name: str, known: Iterable[str]) -> str:
    """Return a suggestion for an unknown name: " (did you mean 'fetch'?)", or an empty text."""
    near = closest(name, known)
    return f" (did you mean {near!r}?)" if near else ""


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that a misspelled one probably means.

    Known names are ranked by the letters and pairs of letters that they share with it, and the first ones are compared
    in full.
    """
    if len(name) > NAME_LIMIT:
        return None
    parts = _parts(name)
    short = [one for one in islice(known, KNOWN_LIMIT) if len(one) <= NAME_LIMIT]
    ranked = nsmallest(COMPARED, short, key=lambda one: (abs(len(one) - len(name)) - len(parts & _parts(one)), one))
    return next(iter(get_close_matches(name, ranked, n=1)), None)


def _parts(name: str) -> set[str | tuple[str, str]]:
    return {*name, *pairwise(name)}
