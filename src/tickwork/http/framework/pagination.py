"""Lists a page at a time: the parameters of a page, and cursors that are names."""

from __future__ import annotations

from typing import Annotated

import msgspec

from tickwork.http.framework.problems import Problem, ProblemDetail
from tickwork.http.framework.route import Struct

Limit = Annotated[int, msgspec.Meta(ge=1, le=1000)]


class PageQuery(Struct):
    """A page of a list: so many, from where an earlier page ended (`next_cursor`)."""

    limit: Limit = 50
    cursor: str | None = None


def is_sayable(text: str) -> bool:
    """Whether something could have this name. A store cannot even be asked for some of the others."""
    return 0 < len(text) <= 200 and text.isprintable()


def name_after(query: PageQuery) -> str:
    """The name after which a page of a list by names begins."""
    if query.cursor is None:
        return ""
    if not is_sayable(query.cursor):
        raise bad_cursor()
    return query.cursor


def bad_cursor() -> Problem:
    said = "it is not a next_cursor of this list"
    return Problem(422, "invalid", f"cursor: {said}.", faults=[ProblemDetail(said, parameter="cursor")])
