"""The hash chain of the audit log: its store verbs, and how it is verified.

Each row gets a link: its number in the chain, a digest of the row, and a hash of the link and of all links before it.
Rows are linked a few seconds after their commit, in a transaction of a service, so that no change waits for another
one. A row that was changed does not match its digest, and a link that was changed does not match the next one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

import msgspec

from tickwork.store.admin.access import AUDIT_KEPT, AuditView

BEHIND = 10_000  # A row may commit after this many rows with higher ids have been linked, and is still linked.
BEGIN = ""  # The hash before the first link.
PAGE = 1000
NOT_LINKED_YET = timedelta(minutes=1)


class ChainLink(NamedTuple):
    """A link of the chain. `number` counts from 1, `at` is the time of the row."""

    number: int
    audit_id: int
    at_us: int
    digest: str
    hash: str


class LinkedRow(NamedTuple):
    """A link, and its row as it is in the audit log now; None: the row was deleted."""

    link: ChainLink
    row: AuditView | None


class ChainHead(NamedTuple):
    """The last link of a chain. A copy kept elsewhere proves later that all rows before it are unchanged."""

    number: int
    hash: str


class ChainCheck(NamedTuple):
    """The result of verifying the chain. `trouble` describes the first mismatch; None: there is none."""

    rows: int
    head: ChainHead | None
    trouble: str | None


class AuditChainVerbs(Protocol):
    """The verbs of the chain. There is no leader: a second process finds nothing left to link."""

    def newest_change(self) -> int:
        """Return the highest id of the audit log; 0 when it is empty."""

    def link_changes(self, limit: int) -> int:
        """Link up to `limit` unlinked rows of the audit log in one transaction; return how many."""

    def linked_changes(self, after: int, limit: int) -> list[LinkedRow]:
        """Return links with their rows, from just after a number on."""

    def unlinked_changes(self, limit: int) -> list[AuditView]:
        """Return rows that have no link, the oldest first. It reads the whole log."""

    def take_audit_sink(self, sink: str, holder: str, turn: timedelta) -> int | None:
        """Take or keep the right to send links to a sink; return the number of the last link that it has.

        None: another holder has it.
        """

    def move_audit_sink(self, sink: str, holder: str, number: int) -> bool:
        """Store that a sink has all links up to a number; False when another holder has the right by now."""

    def now(self) -> datetime:
        """Return the time of the store."""


def row_digest(id: int, at_us: int, row: AuditView) -> str:
    """Return the digest of all columns of a row, as JSON."""
    change = row.change
    said = (change.who, change.action, change.target, change.before, change.after, change.request_id, change.address)
    texts = [value.decode() if isinstance(value, bytes) else value for value in said]
    return hashlib.sha256(msgspec.json.encode([id, at_us, *texts])).hexdigest()


def link_hash(previous: str, number: int, audit_id: int, at_us: int, digest: str) -> str:
    """Return the hash of a link, which covers the hash of the link before it."""
    return hashlib.sha256(msgspec.json.encode([previous, number, audit_id, at_us, digest])).hexdigest()


def next_links(last: ChainHead, rows: Sequence[tuple[int, AuditView]]) -> list[ChainLink]:
    """Return the links of rows, each with its instant, that continue a chain from its last link."""
    links: list[ChainLink] = []
    number, previous = last
    for at_us, row in rows:
        number += 1
        digest = row_digest(row.id, at_us, row)
        previous = link_hash(previous, number, row.id, at_us, digest)
        links.append(ChainLink(number, row.id, at_us, digest, previous))
    return links


def check_chain(store: AuditChainVerbs, to_us: ToMicroseconds, known: ChainHead | None = None) -> ChainCheck:
    """Verify every link and every row; stop at the first mismatch. `known` must be a link of the chain."""
    now = store.now()
    kept_us = to_us(now - AUDIT_KEPT)
    rows, last, first = 0, None, 1
    for one in _all(store):
        link = one.link
        first = link.number if last is None else first
        trouble = _trouble_of(one, last, to_us, kept_us)
        if trouble is None and first > 1 and link.number == first + 1 and link.at_us >= kept_us:
            trouble = _cut_off(first)
        if trouble is None and known is not None and link.number == known.number and link.hash != known.hash:
            trouble = f"link {link.number} is not the one that was known before: the chain was written anew."
        if trouble is not None:
            return ChainCheck(rows, last, trouble)
        rows += one.row is not None
        last = ChainHead(link.number, link.hash)
    if last is not None and last.number == first > 1:
        return ChainCheck(rows, last, _cut_off(first))
    if known is not None and last is not None and known.number < first:
        said = (
            f"link {known.number}, which was known before, is not there any more: give a head of less than a year ago."
        )
        return ChainCheck(rows, last, said)
    if known is not None and (last is None or last.number < known.number):
        return ChainCheck(
            rows, last, f"link {known.number}, which was known before, is not there: the end was cut off."
        )
    late = [row for row in store.unlinked_changes(1) if abs(row.at - now) > NOT_LINKED_YET]
    # A row with a later time is not linked either, because it would precede rows that should have been linked.
    if late:
        return ChainCheck(
            rows, last, f"{_named(late[0])} has no link: it was added beside the chain, or no service runs."
        )
    return ChainCheck(rows, last, None)


class ToMicroseconds(Protocol):
    """Turns an instant into microseconds since the epoch."""

    def __call__(self, instant: datetime, /) -> int: ...


def _all(store: AuditChainVerbs) -> Iterator[LinkedRow]:
    after = 0
    while page := store.linked_changes(after, PAGE):
        yield from page
        after = page[-1].link.number


def _trouble_of(one: LinkedRow, last: ChainHead | None, to_us: ToMicroseconds, kept_us: int) -> str | None:
    """Return what is wrong with a link, or None."""
    link, row = one
    if last is not None and link.number != last.number + 1:
        return f"link {last.number + 1} is missing."
    if last is None and link.number > 1 and link.at_us >= kept_us:
        return _cut_off(link.number)
    previous = BEGIN if link.number == 1 else None if last is None else last.hash
    # Links before the first remaining one were pruned, so its own hash cannot be checked. The hash of the second can,
    # which must be as old; otherwise an attacker who cuts off the beginning would only have to write another time.
    if previous is not None and link.hash != link_hash(previous, *link[:4]):
        return f"link {link.number} of row {link.audit_id} does not fit the link before it."
    if row is None:
        is_pruned = link.at_us < kept_us
        return None if is_pruned else f"row {link.audit_id} (link {link.number}) was deleted."
    at_us = to_us(row.at)
    if at_us != link.at_us or row_digest(row.id, at_us, row) != link.digest:
        return f"{_named(row)} was changed after it had its link ({link.number})."
    return None


def _cut_off(first: int) -> str:
    return f"the links before {first} are missing, and they are not old enough to have been pruned."


def _named(row: AuditView) -> str:
    return f"row {row.id} ({row.change.who}, {row.change.action}, {row.change.target}, {row.at:%Y-%m-%dT%H:%M:%SZ})"
