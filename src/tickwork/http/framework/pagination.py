"""Lists a page at a time, and the conditions under which something may be edited."""

from __future__ import annotations

import hashlib
from typing import Annotated

import msgspec

from tickwork.http.framework.problems import Fault, Problem
from tickwork.http.framework.route import Struct
from tickwork.http.request import Call

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
    return Problem(422, "invalid", f"cursor: {said}.", faults=[Fault(said, parameter="cursor")])


def etag_of(text: str) -> str:
    """The ETag of something that is stored as this text."""
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'


def is_conditional(call: Call, etag: str | None) -> bool:
    """Whether the caller says what an edit expects to find. Raises Problem when that is not what is there (`etag`)."""
    headers = call.request.headers
    wanted, unwanted = tags_of(headers.get("if-match")), tags_of(headers.get("if-none-match"))
    if wanted is not None and (etag is None or not ({"*", etag} & wanted)):
        raise changed_meanwhile()
    if unwanted is not None and etag is not None and {"*", etag} & unwanted:
        raise changed_meanwhile()
    return wanted is not None or unwanted is not None


def changed_meanwhile() -> Problem:
    return Problem(412, "changed", "it is not as you expect it: somebody changed it. Nothing was stored.")


def tags_of(header: str | None) -> set[str] | None:
    """The ETags in a header; None where it was not sent."""
    return None if header is None else {tag.strip() for tag in header.split(",")}
