"""The change feed: what happened to jobs and other objects lately, for live views; shared by both stores.

A read uses indexes on the last seconds and returns a bounded number of rows of each kind, so that it costs almost
nothing while nothing happens, however many jobs there are. Changes that become visible late, because their transaction
was open for a while, are found by reading further back than the last read ended. The same change is therefore returned
more than once; `JobChange.keys` identifies it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from hashlib import blake2s
from typing import Any, Literal, NamedTuple

import msgspec

from tickwork.core.ids import JobId, first_id

Kind = Literal["created", "running", "returned", "ended", "failed", "edited"]
Key = tuple[str, str, str]

# For these, the feed only says that something about them has changed.
TOPICS = ("dags", "gates", "hooks", "limits", "notifications", "operations", "schedules", "tasks", "tenants", "workers")
RUNNING_WALK = 5_000  # Running jobs that a read goes through, the newest first.
TOPIC_ROWS = 1_000  # Rows of a topic that a read goes through.
AHEAD = timedelta(seconds=5)  # Ids are made by other clocks, which may be fast.


class JobChange(NamedTuple):
    """A change of a job. `mark` distinguishes repeated changes of the same kind.

    Kind "returned": the job is queued again after an attempt; "edited": a caller changed it over REST. `began`: an
    attempt began after the instant from which the feed was read. `run_id` is the run whose step the job is.
    """

    kind: Kind
    job_id: JobId
    attempt: int
    mark: str
    began: bool
    run_id: str | None
    is_run: bool

    @property
    def keys(self) -> list[Key]:
        """Return the keys that identify this change when it is returned again.

        They are the change itself, and the start of its attempt if that `began`.
        """
        kind = "ended" if self.kind == "failed" else self.kind
        itself = (kind, self.job_id, f"{self.attempt} {self.mark}")
        return [itself, ("started", self.job_id, str(self.attempt))] if self.began else [itself]


class Changes(msgspec.Struct, frozen=True):
    """The changes of jobs up to an instant. `is_partial`: there were more changes of some kind than were returned."""

    at: datetime
    happenings: list[JobChange]
    is_partial: bool


def happenings(
    run: Callable[[str, dict[str, Any]], Sequence[Any]],
    now: datetime,
    since: datetime,
    most: int,
    wire: Callable[[datetime], Any],
) -> Changes:
    """Return the changes of jobs from `since` up to now, at most `most` of each kind.

    `run` runs a named statement of the store's change_feed.sql. `wire` converts an instant to the store's format.
    """
    ids = {"first": first_id(since), "last": first_id(now + AHEAD)}
    rows = run("job_changes", {**ids, "since": wire(since), "most": most, "walk": RUNNING_WALK})
    found = [_happening(row) for row in rows]
    counts: defaultdict[str, int] = defaultdict(int)
    for one in found:
        counts[one.kind] += 1
    return Changes(now, found, any(count >= most for count in counts.values()))


def _happening(row: Sequence[Any]) -> JobChange:
    """Build a JobChange from a row of the statement `job_changes`."""
    kind, job_id, attempt, mark, began, run_id, is_run = row
    return JobChange(kind, JobId(job_id), attempt, mark, bool(began), run_id, bool(is_run))


def topics(rows: Sequence[Any]) -> dict[str, str]:
    """Return the digest of each topic, from the rows (topic, name, state) of the statement `topics`."""
    told: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for topic, name, mark in rows:
        told[topic].append((name, mark))
    return {topic: _digest(sorted(told[topic])) for topic in TOPICS}


def _digest(rows: list[tuple[str, str]]) -> str:
    """Return a short hash of the rows of a topic."""
    return blake2s(msgspec.json.encode(rows), digest_size=4).hexdigest()
