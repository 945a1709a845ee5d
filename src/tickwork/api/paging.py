"""Pagination of lists from the store: one page, or all pages read while iterating."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar, overload

Item = TypeVar("Item")


class Page(list[Item]):
    """One page of a list. Pass `next_cursor` as `cursor` to get the next page; it is None on the last page."""

    def __init__(self, items: Sequence[Item], next_cursor: Any) -> None:
        super().__init__(items)
        self.next_cursor = next_cursor


class Pages(Sequence[Item], Generic[Item]):
    """All items of a list. Each page is read when iteration reaches it, and then kept; `len()` and `==` read all
    pages.

    `async for` reads pages on a thread.
    """

    def __init__(self, read: Callable[[Any], Page[Item]], cursor: Any = None) -> None:
        self._read = read
        self._cursor = cursor
        self._items: list[Item] = []
        self._is_whole = False
        self._more()  # the first read is here, so that errors of the query are raised by the call that makes it

    def _more(self) -> bool:
        """Read the next page; return False if there is none."""
        if self._is_whole:
            return False
        page = self._read(self._cursor)
        self._items += page
        self._cursor = page.next_cursor
        self._is_whole = page.next_cursor is None
        return True

    def load(self) -> list[Item]:
        """Read all pages; return all items."""
        while self._more():
            pass
        return self._items

    def __iter__(self) -> Iterator[Item]:
        at = 0
        while at < len(self._items) or self._more():
            if at < len(self._items):
                yield self._items[at]
                at += 1

    async def __aiter__(self) -> AsyncIterator[Item]:
        at = 0
        while at < len(self._items) or await asyncio.to_thread(self._more):
            if at < len(self._items):
                yield self._items[at]
                at += 1

    @overload
    def __getitem__(self, at: int) -> Item: ...

    @overload
    def __getitem__(self, at: slice) -> list[Item]: ...

    def __getitem__(self, at: int | slice) -> Item | list[Item]:
        last = at.stop if isinstance(at, slice) else at
        if last is None or last < 0:
            self.load()
        else:
            while len(self._items) <= last and self._more():
                pass
        return self._items[at]

    def __len__(self) -> int:
        return len(self.load())

    def __bool__(self) -> bool:
        return next(iter(self), None) is not None

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Pages):
            return self.load() == other.load()
        return self.load() == other if isinstance(other, list) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # it grows

    def __repr__(self) -> str:
        return f"<{len(self._items)} items{'' if self._is_whole else ', and more'}>"
