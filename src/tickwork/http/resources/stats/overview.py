"""Data for the overview page: findings that need attention, the next occurrences, and recent failures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

from msgspec import Meta

from tickwork.core.job import JobFilter, QueueView, WorkerView
from tickwork.core.limits.breaker import Breaker
from tickwork.core.limits.gates import Gate
from tickwork.core.recurrence.base_rule import Calendars
from tickwork.core.schedule.upcoming import upcoming
from tickwork.core.stats import findings
from tickwork.core.stats.error_groups import ErrorGroup, ErrorGroups, FailedEnd, FailedJob
from tickwork.core.stats.findings import Finding, HoldingLimit, OverdueSchedule, Page, QueueFacts, Severity, StoreFacts
from tickwork.http.framework.route import Routes, Scope, Struct
from tickwork.http.request import Call
from tickwork.store.base import LEASE
from tickwork.store.limits import GateView, LimitView
from tickwork.store.schedules import ScheduleView

routes = Routes("stats")
LOOKED = 1_000  # ended jobs and attempts, dead letters and schedules that are read
SHOWN = 20  # of each kind
CAUSES = 100

Range = Literal["1h", "6h", "24h", "7d"]
_RANGES: dict[Range, timedelta] = {
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
}


class PageLinkBody(Struct):
    """A page of the web UI, and the query for it."""

    page: Page
    query: str


class FindingBody(Struct):
    """A finding: what is wrong with which object, since when, and what to do."""

    kind: str
    severity: Severity
    title: str
    detail: str
    count: int
    since: datetime | None
    link: PageLinkBody


class AttentionList(Struct):
    """Findings that need attention, most severe first."""

    at: datetime
    items: list[FindingBody]
    next_cursor: str | None


class DueQuery(Struct):
    """The number of occurrences to list."""

    limit: Annotated[int, Meta(ge=1, le=100)] = 20


class DueBody(Struct):
    """The next occurrence of a schedule.

    `kind` is the kind of its target, a task or a dag; `rule` is the rule in words.
    """

    schedule: str
    kind: Literal["task", "dag"]
    target: str
    due_at: datetime
    zone: str
    rule: str


class DueList(Struct):
    """The next occurrences of schedules, soonest first."""

    at: datetime
    items: list[DueBody]
    next_cursor: str | None


class FailuresQuery(Struct):
    """How far to look back."""

    range: Range = "24h"


class FailureBody(Struct):
    """Jobs of one task that failed with the same last line of the error. `newest_id` is the newest of them.

    `dead` is how many of them are dead letters now, and can be redriven.
    """

    task: str
    error: str
    count: int
    dead: int
    newest_id: str
    newest_at: datetime
    oldest_at: datetime


class FailureList(Struct):
    """Failures, most frequent first. `is_partial`: only the latest were read."""

    at: datetime
    items: list[FailureBody]
    next_cursor: str | None
    total: int
    is_partial: bool


@routes.get("/stats/attention", Scope.READ)
def stats_attention(call: Call) -> AttentionList:
    """List the findings that an operator should look at, most severe first."""
    scene = _scene(call)
    return AttentionList(scene.now, [_matter(one) for one in findings.judge(scene)], None)


@routes.get("/stats/next", Scope.READ)
def stats_next(call: Call, query: DueQuery) -> DueList:
    """List the next occurrence of each schedule, soonest first."""
    store = call.app.store
    now, calendars = store.now(), store.schedules.calendars()
    found: list[DueBody] = []
    for view in store.schedules.waking_schedules(LOOKED):
        found.sort(key=lambda one: (one.due_at, one.schedule))
        if len(found) >= query.limit and view.wake_at is not None and view.wake_at > found[query.limit - 1].due_at:
            break  # this and the following schedules are due later than those found
        found += _due(view, now, calendars)
    found.sort(key=lambda one: (one.due_at, one.schedule))
    return DueList(now, found[: query.limit], None)


@routes.get("/stats/failures", Scope.READ)
def stats_failures(call: Call, query: FailuresQuery) -> FailureList:
    """List recent failures by task and error, most frequent first."""
    now = call.app.store.now()
    looked = call.app.store.reads.failed_lately(now - _RANGES[query.range], LOOKED)
    failed = [one for one in looked if one.state == "failed"]
    dead = {(one.task, one.error): one.count for one in _causes(one for one in failed if one.is_dead)}
    items = [_failure(one, dead.get((one.task, one.error), 0)) for one in _causes(iter(failed))[:CAUSES]]
    return FailureList(now, items, None, len(failed), len(looked) == LOOKED)


def _causes(troubles: Iterator[FailedEnd]) -> list[ErrorGroup]:
    causes = ErrorGroups()
    causes.add(FailedJob(one.id, one.task, one.error, one.ended_at) for one in troubles)
    return causes.most_frequent_first()


def _failure(one: ErrorGroup, dead: int) -> FailureBody:
    return FailureBody(one.task, one.error, one.count, dead, one.newest_id, one.newest_at, one.oldest_at)


def _due(view: ScheduleView, now: datetime, calendars: Calendars) -> Iterator[DueBody]:
    spec = view.spec
    for due in upcoming(spec, view.standing, 1, now, calendars):
        yield DueBody(spec.name, spec.kind, spec.target, due, spec.rule.zone, spec.rule.explain())


def _matter(one: Finding) -> FindingBody:
    link = PageLinkBody(one.page, one.query)
    return FindingBody(one.kind, one.severity, one.title, one.detail, one.count, one.since, link)


# -- reads of the store


def _scene(call: Call) -> StoreFacts:
    """Read the facts of the store from which the findings are derived."""
    store = call.app.store
    now, workers, gates, limits = (
        store.now(),
        call.parts.registrations.workers(),
        store.limits.list_gates(),
        store.limits.list_limits(),
    )
    causes, _ = call.app.client.causes(JobFilter(dead=True), LOOKED)
    lately = now - findings.LATELY
    return StoreFacts(
        now=now,
        queues=[_queue(view, workers, gates) for view in store.reads.queues()],
        workers=workers,
        lease=LEASE,
        failed=store.reads.failed_lately(lately, LOOKED),
        retried=store.reads.retried_lately(lately, LOOKED),
        dead=sum(one.count for one in causes),
        dead_since=min((one.oldest_at for one in causes), default=None),
        dead_causes=[(one.task, one.error, one.count) for one in causes[:SHOWN]],
        late_schedules=[
            OverdueSchedule(one.name, one.wake_at) for one in store.schedules.waking_schedules(SHOWN) if one.wake_at
        ],
        paused_schedules=[_paused(one) for one in store.schedules.paused_schedules(SHOWN)],
        gates=[_gate(one) for one in gates[:SHOWN]],
        limits=[_limit(one) for one in limits if not isinstance(one.rule, Breaker)],
        breakers=[_limit(one) for one in limits if isinstance(one.rule, Breaker)],
        approvals=store.dags.waiting_approvals(SHOWN),
        skew=datetime.fromtimestamp(call.parts.clock.wall_us() / 1e6, UTC) - now,
    )


def _queue(view: QueueView, workers: Sequence[WorkerView], gates: Sequence[GateView]) -> QueueFacts:
    serving = sum(worker.serves and view.name in worker.queues for worker in workers)
    pauses = (one.gate for one in gates if one.gate.kind == "pause")
    return QueueFacts(view, serving, any(gate.selects == {"queue": view.name} for gate in pauses))


def _paused(view: ScheduleView) -> OverdueSchedule:
    return OverdueSchedule(view.name, view.paused_at or view.edited_at, view.paused_by, view.paused_why)


def _limit(view: LimitView) -> HoldingLimit:
    return HoldingLimit(view.name, "" if view.rule is None else view.rule.said, view.held)


def _gate(view: GateView) -> HoldingLimit:
    return HoldingLimit(view.gate.name, _order(view.gate), view.held, view.since)


def _order(gate: Gate) -> str:
    """Return a sentence that describes the effect of a gate."""
    whom = ", ".join(f"{name} {value}" for name, value in gate.selects.items())
    by, why = f" by {gate.by}" if gate.by else "", f": {gate.reason}" if gate.reason else ""
    return f"It was put there{by} to {gate.kind} {whom}{why}."
