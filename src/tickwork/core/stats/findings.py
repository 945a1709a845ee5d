"""Findings: problems of a store that an operator should look at, most severe first.

All input is passed as values, so every situation can be tested. Each check looks at one kind of object and reports what
is wrong with it, since when, and where to look; it reports nothing that is as expected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from tickwork.core.job import QueueView, WorkerView
from tickwork.core.stats.error_groups import FailedEnd, last_line
from tickwork.core.text.duration import format_duration

Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
Page = Literal["jobs", "queues", "workers", "schedules", "dead", "runs", "limits", "gates", "settings"]

LIMIT = 50
LATELY = timedelta(minutes=15)  # failures are reported for this long
# due jobs that wait longer than this are reported, as a warning or as an error
LATE, VERY_LATE = timedelta(minutes=5), timedelta(minutes=30)
UNSERVED = timedelta(minutes=1)
OVERDUE = timedelta(seconds=30)  # for schedules that no scheduler has looked at
SILENT = timedelta(seconds=20)  # without a heartbeat, which is sent every few seconds
SKEWED = timedelta(seconds=5)
MANY_FAILED = 10
MANY_HELD = 1000
TITLE_LIMIT = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A problem to look at. `page` and `query` locate it in the web UI."""

    kind: str
    severity: Severity
    title: str
    detail: str
    count: int
    since: datetime | None
    page: Page
    query: str = ""


class QueueFacts(NamedTuple):
    """The counts of a queue, the number of workers that serve it, and whether a gate pauses all of it."""

    view: QueueView
    workers: int
    is_paused: bool


class OverdueSchedule(NamedTuple):
    """A schedule and when it was due; for a paused schedule since when, by whom and why."""

    name: str
    since: datetime
    by: str | None = None
    why: str | None = None


class HoldingLimit(NamedTuple):
    """A limit, breaker or gate with a description, and how many jobs it holds."""

    name: str
    said: str
    held: int
    since: datetime | None = None


class PendingApproval(NamedTuple):
    """A step of a run that waits for approval. `text` is its question, if the run computed it."""

    run_id: str
    dag: str
    step: str
    text: str | None
    since: datetime


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """The facts read of a store, at one instant of its clock. The number of each kind may be bounded.

    `failed` and `retried` are ends of jobs and attempts, latest first; `dead` is the number of dead letters. `skew` is
    the difference between the server's clock and the store's.
    """

    now: datetime
    queues: Sequence[QueueFacts] = ()
    workers: Sequence[WorkerView] = ()
    lease: timedelta = timedelta(seconds=30)
    failed: Sequence[FailedEnd] = ()
    retried: Sequence[FailedEnd] = ()
    dead: int = 0
    dead_since: datetime | None = None
    dead_causes: Sequence[tuple[str, str, int]] = ()
    late_schedules: Sequence[OverdueSchedule] = ()
    paused_schedules: Sequence[OverdueSchedule] = ()
    gates: Sequence[HoldingLimit] = ()
    limits: Sequence[HoldingLimit] = ()
    breakers: Sequence[HoldingLimit] = ()
    approvals: Sequence[PendingApproval] = ()
    skew: timedelta = timedelta(0)


def judge(scene: StoreFacts) -> list[Finding]:
    """Return the findings, most severe first, then by count. At most LIMIT of them."""
    matters = [matter for look in _JUDGES for matter in look(scene)]
    return sorted(matters, key=lambda one: (SEVERITIES.index(one.severity), -one.count, one.kind, one.title))[:LIMIT]


def _no_worker(scene: StoreFacts) -> Iterator[Finding]:
    """Report due jobs if no worker is running."""
    due = [one.view for one in scene.queues if one.view.due and not one.is_paused]
    if due and not any(worker.serves for worker in scene.workers):
        count = sum(view.due for view in due)
        yield Finding(
            kind="no_worker",
            severity="error",
            title=f"no worker is running, and {_jobs(count)} {_are(count)} due",
            detail="Start one: tickwork worker MODULE_OR_FILE",
            count=count,
            since=min((view.oldest_due_at for view in due if view.oldest_due_at is not None), default=None),
            page="workers",
        )


def _queues(scene: StoreFacts) -> Iterator[Finding]:
    """Report queues that no worker serves, or whose jobs wait long.

    Without any worker, report nothing: `_no_worker` does.
    """
    if not any(worker.serves for worker in scene.workers):
        return
    for view, workers, is_paused in scene.queues:
        if is_paused or not view.due or view.oldest_due_at is None:
            continue  # jobs that a limit holds are not late
        waited = scene.now - view.oldest_due_at
        told = f"{_jobs(view.due)} {_are(view.due)} due, the oldest for {format_duration(waited)}"
        late = Finding(
            kind="queue_late",
            severity="error" if waited >= VERY_LATE else "warning",
            title=f"the queue {view.name} does not keep up",
            detail=f"{told}. {workers} worker(s) serve it: start more, or look at what they are busy with.",
            count=view.due,
            since=view.oldest_due_at,
            page="jobs",
            query=f"state:queued queue:{_quoted(view.name)}",
        )
        if not workers and waited >= UNSERVED:
            yield replace(
                late,
                kind="queue_unserved",
                severity="error",
                title=f"no worker serves the queue {view.name}",
                detail=f"{told}. Start a worker that does: tickwork worker -q {view.name}",
            )
        elif waited >= LATE:
            yield late


def _workers(scene: StoreFacts) -> Iterator[Finding]:
    """Report lost and silent workers."""
    for worker in scene.workers:
        beat_at = worker.lease_until - scene.lease
        silent = format_duration(max(timedelta(0), scene.now - beat_at))
        lost = Finding(
            kind="worker_lost",
            severity="warning",
            title=f"worker {worker.name} was lost",
            detail=f"It has been silent for {silent}; what it ran was queued again. Look at its host and its log.",
            count=1,
            since=beat_at,
            page="workers",
            query=worker.id,
        )
        if worker.state == "lost":
            yield lost
        elif worker.state == "running" and scene.now - beat_at >= SILENT:
            yield replace(
                lost,
                kind="worker_silent",
                title=f"worker {worker.name} has been silent for {silent}",
                detail=f"It holds {_jobs(worker.running)}, which others take over when its lease ends.",
                count=max(1, worker.running),
            )


def _failing(scene: StoreFacts) -> Iterator[Finding]:
    """Report tasks whose jobs fail now, and dags whose runs do."""
    for (name, is_run), found in _by_task(one for one in scene.failed if one.state == "failed").items():
        count, period = len(found), format_duration(LATELY)
        title = f"task {name} fails: {_jobs(count)} in {period}"
        if is_run:
            title = f"{_counted(count, 'run')} of the dag {name} failed in {period}"
        yield Finding(
            kind="run_failed" if is_run else "failing",
            severity="error" if is_run or count >= MANY_FAILED else "warning",
            title=_cut(title),
            detail=_top_error(found),
            count=count,
            since=found[-1].ended_at,
            page="runs" if is_run else "jobs",
            query=f"state:failed {'dag' if is_run else 'task'}:{_quoted(name)}",
        )


def _retrying(scene: StoreFacts) -> Iterator[Finding]:
    """Report tasks whose attempts fail and are retried."""
    tried = (one for one in scene.retried if one.state in ("failed", "timed_out", "lost"))
    for (task, _), found in _by_task(tried).items():
        jobs = len({one.id for one in found})
        were = "was" if jobs == 1 else "were"
        yield Finding(
            kind="retrying",
            severity="warning" if jobs >= MANY_FAILED else "info",
            title=_cut(f"task {task}: {_jobs(jobs)} {were} tried again in {format_duration(LATELY)}"),
            detail=_top_error(found),
            count=jobs,
            since=found[-1].ended_at,
            page="jobs",
            query=f"state:retrying task:{_quoted(task)}",
        )


def _dead(scene: StoreFacts) -> Iterator[Finding]:
    """Report dead letters."""
    if scene.dead:
        some = "; ".join(f"{count:,} of {task}: {error}" for task, error, count in scene.dead_causes[:3])
        yield Finding(
            kind="dead",
            severity="warning",
            title=_counted(scene.dead, "dead letter"),
            detail=f"Redrive or discard them. The most frequent: {some}" if some else "Redrive or discard them.",
            count=scene.dead,
            since=scene.dead_since,
            page="dead",
        )


def _schedules(scene: StoreFacts) -> Iterator[Finding]:
    """Report late and paused schedules."""
    for one in scene.late_schedules:
        late = scene.now - one.since
        if late >= OVERDUE:
            yield Finding(
                kind="schedule_late",
                severity="error" if late >= LATE else "warning",
                title=_cut(f"schedule {one.name} is late by {format_duration(late)}"),
                detail="No scheduler has read it. Every worker and server fires schedules: is one running?",
                count=1,
                since=one.since,
                page="schedules",
                query=one.name,
            )
    for one in scene.paused_schedules:
        told = " ".join(part for part in (f"by {one.by}" if one.by else "", f"({one.why})" if one.why else "") if part)
        yield Finding(
            kind="schedule_paused",
            severity="info",
            title=_cut(f"schedule {one.name} is paused"),
            detail=f"It was paused {told}".rstrip() + " and starts nothing until it is resumed.",
            count=1,
            since=one.since,
            page="schedules",
            query=one.name,
        )


def _limits(scene: StoreFacts) -> Iterator[Finding]:
    """Report gates, open breakers, and limits that hold many jobs."""
    for one in scene.gates:
        yield Finding(
            kind="gate",
            severity="info",
            title=_cut(f"the gate {one.name} is in force"),
            detail=f"{one.said} It holds {_jobs(one.held)}.",
            count=one.held,
            since=one.since,
            page="gates",
            query=one.name,
        )
    for one in scene.breakers:
        if one.held:
            yield Finding(
                kind="breaker",
                severity="error",
                title=_cut(f"the breaker {one.name} is open and holds {_jobs(one.held)}"),
                detail=f"{one.said}. When its pause is over one job tries whether it works again.",
                count=one.held,
                since=one.since,
                page="limits",
                query=one.name,
            )
    for one in scene.limits:
        if one.held >= MANY_HELD:
            yield Finding(
                kind="limit",
                severity="warning",
                title=_cut(f"the limit {one.name} holds {_jobs(one.held)}"),
                detail=f"It lets through {one.said}. Raise it if what it protects can take more.",
                count=one.held,
                since=one.since,
                page="limits",
                query=one.name,
            )


def _approvals(scene: StoreFacts) -> Iterator[Finding]:
    """Report steps that wait for approval."""
    for one in scene.approvals:
        asks = "" if one.text is None else f"{_cut(one.text)} "
        yield Finding(
            kind="approval",
            severity="info",
            title=_cut(f"step {one.step} of a run of {one.dag} waits for approval"),
            detail=f"{asks}Approve it, or reject it: tickwork runs approve {one.run_id} {one.step}",
            count=1,
            since=one.since,
            page="runs",
            query=one.run_id,
        )


def _clock(scene: StoreFacts) -> Iterator[Finding]:
    """Report a difference between the server's clock and the store's."""
    if abs(scene.skew) >= SKEWED:
        way = "ahead of" if scene.skew > timedelta(0) else "behind"
        yield Finding(
            kind="clock",
            severity="warning",
            title=f"the clock of this server is {format_duration(abs(scene.skew))} {way} the store's",
            detail="Schedules and leases follow the store's clock; ids and logs do not. Set the clock by NTP.",
            count=1,
            since=None,
            page="settings",
        )


_JUDGES: tuple[Callable[[StoreFacts], Iterator[Finding]], ...] = (
    _no_worker,
    _queues,
    _workers,
    _failing,
    _retrying,
    _dead,
    _schedules,
    _limits,
    _approvals,
    _clock,
)


def _by_task(troubles: Iterator[FailedEnd]) -> dict[tuple[str, bool], list[FailedEnd]]:
    found: dict[tuple[str, bool], list[FailedEnd]] = {}
    for one in troubles:
        found.setdefault((one.task, one.is_run), []).append(one)
    return found


def _top_error(troubles: Sequence[FailedEnd]) -> str:
    """Return the most frequent error."""
    counts: dict[str, int] = {}
    for one in troubles:
        error = last_line(one.error)
        counts[error] = counts.get(error, 0) + 1
    error, count = max(counts.items(), key=lambda item: (item[1], item[0]))
    return _cut(f"{error or 'without an error'} ({count:,} of {len(troubles):,})")


def _quoted(name: str) -> str:
    """Return a name quoted for the query box."""
    return f'"{name}"' if " " in name else name


def _cut(text: str) -> str:
    return text if len(text) <= TITLE_LIMIT else text[: TITLE_LIMIT - 1] + "…"


def _counted(count: int, what: str) -> str:
    return f"1 {what}" if count == 1 else f"{count:,} {what}s"


def _jobs(count: int) -> str:
    return _counted(count, "job")


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
