"""The audit log and its hash chain: the store verbs, and how the chain is verified.

A hash chain makes later changes of the log detectable. For each row of the log a second table has a link: the link's
number, a digest of the row, and a hash of this link and the hash of the link before it. A row that was changed does not
match the digest in its link, and a link that was changed does not match the hash in the next link. A service adds the
links a few seconds after the rows were committed, so that no change waits for another one. A sink is an external
receiver to which the links are sent.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol

import msgspec

from tickwork.store.admin.access import Instant

AUDIT_KEPT = timedelta(days=365)
VALUE_LIMIT = 16 * 1024  # Bytes of `before`, and of `after`.
BEHIND = 10_000  # A row may commit after this many rows with higher ids have been linked, and is still linked.
BEGIN = ""  # The hash before the first link.
PAGE = 1000
NOT_LINKED_YET = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class AuditRow:
    """A change to record in the audit log. `before` and `after` are JSON."""

    who: str
    action: str
    target: str
    before: bytes | None = None
    after: bytes | None = None
    request_id: str = ""
    address: str = ""


@dataclass(frozen=True, slots=True)
class AuditView:
    """A stored row of the audit log. Later rows have higher ids."""

    id: int
    at: datetime
    change: AuditRow


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """A filter of audit log rows. A field that is None matches all rows."""

    who: str | None = None
    action: str | None = None
    target: str | None = None
    since: datetime | None = None


class ChainLink(NamedTuple):
    """A link of the hash chain for the row `audit_id`. `number` counts from 1, `at_us` is the instant of the row."""

    number: int
    audit_id: int
    at_us: int
    digest: str
    hash: str


class LinkedRow(NamedTuple):
    """A link of the hash chain and the audit row that it covers, as it is now; the row is None if it was deleted."""

    link: ChainLink
    row: AuditView | None


class ChainHead(NamedTuple):
    """The number and the hash of the last link. A user who keeps a copy can prove later that no earlier row was
    changed.
    """

    number: int
    hash: str


class ChainCheck(NamedTuple):
    """The result of a verification: the number of rows read, the last link, and a description of the first mismatch.

    `trouble` is None if all links and rows match.
    """

    rows: int
    head: ChainHead | None
    trouble: str | None


class AuditVerbs(Protocol):
    """The verbs of the audit log and its hash chain. Several processes may call them; only one adds links at a time."""

    def record_changes(self, changes: Sequence[AuditRow]) -> None:
        """Append rows to the audit log."""

    def list_changes(self, which: AuditFilter, limit: int, before: int | None = None) -> list[AuditView]:
        """Return up to `limit` audit rows that match a filter and whose id is less than `before`, the newest first."""

    def newest_change(self) -> int:
        """Return the highest id of the audit log; 0 when it is empty."""

    def link_changes(self, limit: int) -> int:
        """Append links for up to `limit` audit rows that have none, in one transaction; return how many were added."""

    def linked_changes(self, after: int, limit: int) -> list[LinkedRow]:
        """Return up to `limit` links whose number is greater than `after`, each with its audit row, in order."""

    def unlinked_changes(self, limit: int) -> list[AuditView]:
        """Return up to `limit` audit rows that have no link yet, the oldest first. It reads the whole log."""

    def take_audit_sink(self, sink: str, holder: str, turn: timedelta) -> int | None:
        """Acquire or renew, for the time `turn`, the exclusive right to send links to a sink.

        Return the number of the last link that was sent to it; None if another holder has the right.
        """

    def move_audit_sink(self, sink: str, holder: str, number: int) -> bool:
        """Record that all links up to `number` were sent to a sink; return False if another holder now has the right to
        send.
        """


def audit_view(row: Any, instant: Instant) -> AuditView:
    """Build an AuditView from its row; `instant` converts the store's instants."""
    id, at, who, action, target, before, after, request_id, address = row
    was, became = (None if text is None else text.encode() for text in (before, after))
    return AuditView(id, instant(at), AuditRow(who, action, target, was, became, request_id, address))


def audit_value(value: Any) -> bytes | None:
    """Return a value as JSON; if it exceeds VALUE_LIMIT, its beginning and a digest of the whole. None stays None."""
    if value is None:
        return None
    data = msgspec.json.encode(value, enc_hook=str)
    if len(data) <= VALUE_LIMIT:
        return data
    shown = data[:VALUE_LIMIT].decode("utf-8", "ignore")
    return msgspec.json.encode({"truncated": shown, "sha256": hashlib.sha256(data).hexdigest()})


def change_row(change: AuditRow) -> dict[str, str | None]:
    """Return a change as the parameters of the statement that inserts it; both stores use the same names."""
    return {
        "who": change.who,
        "action": change.action,
        "target": change.target,
        "before": None if change.before is None else change.before.decode(),
        "after": None if change.after is None else change.after.decode(),
        "request_id": change.request_id,
        "address": change.address,
    }


def row_digest(id: int, at_us: int, row: AuditView) -> str:
    """Return the SHA-256 digest, in hexadecimal, of all columns of an audit row."""
    change = row.change
    said = (change.who, change.action, change.target, change.before, change.after, change.request_id, change.address)
    texts = [value.decode() if isinstance(value, bytes) else value for value in said]
    return hashlib.sha256(msgspec.json.encode([id, at_us, *texts])).hexdigest()


def link_hash(previous: str, number: int, audit_id: int, at_us: int, digest: str) -> str:
    """Return the hash of a link, computed from its fields and from the hash of the link before it."""
    return hashlib.sha256(msgspec.json.encode([previous, number, audit_id, at_us, digest])).hexdigest()


def next_links(last: ChainHead, rows: Sequence[tuple[int, AuditView]]) -> list[ChainLink]:
    """Return new links for these rows, in order, that continue the chain after `last`.

    Each row comes with its instant in microseconds.
    """
    links: list[ChainLink] = []
    number, previous = last
    for at_us, row in rows:
        number += 1
        digest = row_digest(row.id, at_us, row)
        previous = link_hash(previous, number, row.id, at_us, digest)
        links.append(ChainLink(number, row.id, at_us, digest, previous))
    return links


def check_chain(audit: AuditVerbs, now: datetime, to_us: ToMicroseconds, known: ChainHead | None = None) -> ChainCheck:
    """Verify every link and every audit row against each other, up to the first mismatch, and return the result.

    `known` is a copy of an earlier link, if the caller has one: the chain must still contain it. `now` is the store's
    time.
    """
    kept_us = to_us(now - AUDIT_KEPT)
    rows, last, first = 0, None, 1
    for one in _all(audit):
        link = one.link
        first = link.number if last is None else first
        trouble = _trouble_of(one, last, to_us, kept_us)
        if trouble is None and first > 1 and link.number == first + 1 and link.at_us >= kept_us:
            trouble = _cut_off(first)
        if trouble is None and known is not None and link.number == known.number and link.hash != known.hash:
            trouble = f"link {link.number} is not the one that was known before: the chain was rewritten."
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
    late = [row for row in audit.unlinked_changes(1) if abs(row.at - now) > NOT_LINKED_YET]
    # A row with a later time is not linked either, because it would precede rows that should have been linked.
    if late:
        return ChainCheck(
            rows, last, f"{_named(late[0])} has no link: it was added beside the chain, or no service runs."
        )
    return ChainCheck(rows, last, None)


class ToMicroseconds(Protocol):
    """Turns an instant into microseconds since the epoch."""

    def __call__(self, instant: datetime, /) -> int: ...


def _all(audit: AuditVerbs) -> Iterator[LinkedRow]:
    """Yield all links with their rows, in order, read PAGE at a time."""
    after = 0
    while page := audit.linked_changes(after, PAGE):
        yield from page
        after = page[-1].link.number


def _trouble_of(one: LinkedRow, last: ChainHead | None, to_us: ToMicroseconds, kept_us: int) -> str | None:
    """Return a description of the mismatch of a link with its row or with `last`, the link before it; None if it
    matches.

    Rows older than `kept_us` may have been pruned.
    """
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
    """Return the message that the beginning of the chain was deleted."""
    return f"the links before {first} are missing, and they are not old enough to have been pruned."


def _named(row: AuditView) -> str:
    """Return a description of an audit row for an error message."""
    return f"row {row.id} ({row.change.who}, {row.change.action}, {row.change.target}, {row.at:%Y-%m-%dT%H:%M:%SZ})"
