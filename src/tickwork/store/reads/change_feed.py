"""What a store tells of what changed lately, so that whoever shows it can look again; shared by both stores.

A look reads what indexes give of the last seconds, at most so many rows of each kind: with nothing going on it costs
next to nothing, however many jobs there are. What becomes visible late, since its transaction was open for a while, is
found by looking further back than the last look. So the same thing is told more than once; `Happening.keys` tell it
from what is new.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from hashlib import blake2s
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from tickwork.core.ids import JobId, first_id

Kind = Literal["created", "running", "returned", "ended", "failed", "edited"]
Key = tuple[str, str, str]

# Of these it is only told that something about them changed.
TOPICS = ("dags", "gates", "hooks", "limits", "notifications", "operations", "schedules", "tasks", "tenants", "workers")
RUNNING_WALK = 5_000  # so many running jobs a look goes through, the newest first
TOPIC_ROWS = 1_000  # and so many rows of a topic
AHEAD = timedelta(seconds=5)  # ids are made by other clocks, which may be fast


class JobChange(NamedTuple):
    """Something that happened to a job. `mark` tells it from the same at another time.

    A job that `returned` is to be tried again; `edited` is what somebody did to it over REST. `began`: its attempt did,
    since the instant that was asked for. `run_id` is the run that it is a step of.
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
        """What this tells, by which it is known when it is told again: itself, and that its attempt began."""
        kind = "ended" if self.kind == "failed" else self.kind
        itself = (kind, self.job_id, f"{self.attempt} {self.mark}")
        return [itself, ("started", self.job_id, str(self.attempt))] if self.began else [itself]


class Changes(msgspec.Struct, frozen=True):
    """What happened to jobs up to an instant; `is_partial`: of some kind there was more than is told."""

    at: datetime
    happenings: list[JobChange]
    is_partial: bool


class ChangeVerbs(Protocol):
    """The verbs. They only read."""

    def happenings(self, since: datetime, most: int) -> Changes:
        """Return what happened to jobs since an instant, at most so much of each kind.

        Running jobs that told of their progress are always among it; what the library did to jobs that wait is not.
        """

    def topics(self) -> dict[str, str]:
        """Return for each of the TOPICS a short text that is another one once something about it has changed."""


def happenings(
    run: Callable[[str, dict[str, Any]], Sequence[Any]],
    now: datetime,
    since: datetime,
    most: int,
    wire: Callable[[datetime], Any],
) -> Changes:
    """Look on any store that can run the statements of changes.sql. `wire` says how it writes instants."""
    ids = {"first": first_id(since), "last": first_id(now + AHEAD)}
    rows = run("job_changes", {**ids, "since": wire(since), "most": most, "walk": RUNNING_WALK})
    found = [_happening(row) for row in rows]
    counts: defaultdict[str, int] = defaultdict(int)
    for one in found:
        counts[one.kind] += 1
    return Changes(now, found, any(count >= most for count in counts.values()))


def _happening(row: Sequence[Any]) -> JobChange:
    kind, job_id, attempt, mark, began, run_id, is_run = row
    return JobChange(kind, JobId(job_id), attempt, mark, bool(began), run_id, bool(is_run))


def topics(rows: Sequence[Any]) -> dict[str, str]:
    """The text of each topic from the rows of the `topics` select: topic, name, and how that stands."""
    told: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for topic, name, mark in rows:
        told[topic].append((name, mark))
    return {topic: _digest(sorted(told[topic])) for topic in TOPICS}


def _digest(rows: list[tuple[str, str]]) -> str:
    return blake2s(msgspec.json.encode(rows), digest_size=4).hexdigest()
