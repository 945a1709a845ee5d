"""Pagination of lists: the parameters of a page, and cursors that are names."""

from __future__ import annotations

from typing import Annotated

import msgspec

from tickwork.http.framework.problems import Problem, ProblemDetail
from tickwork.http.framework.route import Struct

Limit = Annotated[int, msgspec.Meta(ge=1, le=1000)]


class PageQuery(Struct):
    """A page of a list: its size, and `next_cursor` of the page before."""

    limit: Limit = 50
    cursor: str | None = None


def is_storable_name(text: str) -> bool:
    """Return whether a text can be a stored name. The stores cannot even be queried for some other texts."""
    return 0 < len(text) <= 200 and text.isprintable()


def name_after(query: PageQuery) -> str:
    """Return the name after which a page of a list by names begins."""
    if query.cursor is None:
        return ""
    if not is_storable_name(query.cursor):
        raise bad_cursor()
    return query.cursor


def bad_cursor() -> Problem:
    said = "it is not a next_cursor of this list"
    return Problem(422, "invalid", f"cursor: {said}.", faults=[ProblemDetail(said, parameter="cursor")])
