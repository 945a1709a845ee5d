"""Findings name everything that is wrong, the most severe problem first, and nothing else."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.ids import JobId
from tickwork.core.job import QueueView, WorkerView
from tickwork.core.stats import findings
from tickwork.core.stats.error_groups import FailedEnd
from tickwork.core.stats.findings import (
    SEVERITIES,
    Finding,
    HoldingLimit,
    OverdueSchedule,
    PendingApproval,
    QueueFacts,
    StoreFacts,
    judge,
)

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


def worker(**changes: object) -> WorkerView:
    alive = WorkerView("w", "host", 7, "1", ("mail",), ("send",), 4, "running", NOW, NOW + 28 * SECOND, 2)
    return replace(alive, **changes)  # type: ignore[arg-type]


def queue(waited: timedelta | None, *, workers: int = 1, paused: bool = False, name: str = "mail") -> QueueFacts:
    oldest = None if waited is None else NOW - waited
    return QueueFacts(QueueView(name, 0 if waited is None else 5, 0, 0, 0, oldest), workers, paused)


def trouble(task: str = "send", state: str = "failed", error: str = "Trace\nValueError: no", **more: bool) -> FailedEnd:
    about = {"is_run": False, "is_dead": state == "failed", **more}
    return FailedEnd(JobId(f"{id(object())}"), task, "mail", state, error, NOW - SECOND, **about)


def kinds(scene: StoreFacts) -> list[tuple[str, str]]:
    return [(one.kind, one.severity) for one in judge(scene)]


def only(scene: StoreFacts) -> Finding:
    (matter,) = judge(scene)
    return matter


def test_where_all_is_well_there_is_nothing_to_look_at() -> None:
    calm = StoreFacts(NOW, [queue(None), queue(MINUTE)], [worker()], limits=[HoldingLimit("l", "5 at once", 12)])
    assert judge(calm) == judge(StoreFacts(NOW)) == []


def test_jobs_that_are_due_without_workers_are_told_once() -> None:
    for workers in ([], [worker(state="lost")]):
        scene = StoreFacts(NOW, [queue(MINUTE), queue(2 * MINUTE, workers=0, name="crm")], workers)
        first = judge(scene)[0]
        assert (first.kind, first.severity, first.count, first.since) == ("no_worker", "error", 10, NOW - 2 * MINUTE)
        assert "queue_unserved" not in [one.kind for one in judge(scene)]


def test_a_queue_that_does_not_keep_up() -> None:
    for waited, severity in ((findings.LATE, "warning"), (findings.VERY_LATE, "error")):
        told = only(StoreFacts(NOW, [queue(waited)], [worker()]))
        assert (told.kind, told.severity, told.query) == ("queue_late", severity, "state:queued queue:mail")
        assert "5 jobs are due, the oldest for" in told.detail


def test_a_queue_that_no_worker_serves_says_how_to_serve_it() -> None:
    told = only(StoreFacts(NOW, [queue(2 * MINUTE, workers=0)], [worker(queues=("crm",))]))
    assert (told.kind, told.severity) == ("queue_unserved", "error")
    assert "tickwork worker -q mail" in told.detail


def test_a_queue_that_is_paused_is_the_gates_matter() -> None:
    scene = StoreFacts(
        NOW, [queue(findings.VERY_LATE, paused=True)], [worker()], gates=[HoldingLimit("pause queue=mail", "", 5)]
    )
    assert kinds(scene) == [("gate", "info")]


def test_workers_that_are_lost_or_silent() -> None:
    assert kinds(StoreFacts(NOW, workers=[worker(state="lost", lease_until=NOW - MINUTE)])) == [
        ("worker_lost", "warning")
    ]
    told = only(StoreFacts(NOW, workers=[worker(lease_until=NOW + 5 * SECOND)]))
    assert (told.kind, told.title, told.count) == ("worker_silent", "worker host:7 has been silent for 25s", 2)


def test_a_task_that_fails_is_told_with_its_most_frequent_error() -> None:
    failed = [trouble(), trouble(error="KeyError: x"), trouble(), trouble(state="cancelled")]
    told = only(StoreFacts(NOW, failed=failed))
    assert (told.kind, told.severity, told.count) == ("failing", "warning", 3)
    assert told.detail == "ValueError: no (2 of 3)"
    assert told.query == "state:failed task:send"
    many = StoreFacts(NOW, failed=[trouble() for _ in range(findings.MANY_FAILED)])
    assert only(many).severity == "error"


def test_runs_that_failed_are_told_by_their_dag() -> None:
    told = only(StoreFacts(NOW, failed=[trouble("my dag", is_run=True)]))
    assert (told.kind, told.page, told.query) == ("run_failed", "runs", 'state:failed dag:"my dag"')


def test_a_queue_whose_jobs_are_all_held_is_not_late() -> None:
    held = QueueView("mail", due=0, later=0, running=2, held=7, oldest_due_at=NOW - findings.VERY_LATE)
    assert judge(StoreFacts(NOW, [QueueFacts(held, 1, False)], [worker()])) == []


def test_a_job_that_is_retried_twice_is_one_job() -> None:
    one = trouble()
    told = only(StoreFacts(NOW, retried=[one, one, trouble(state="released")]))
    assert (told.kind, told.count, told.title) == ("retrying", 1, "task send: 1 job was tried again in 15m")


def test_dead_letters_with_their_causes() -> None:
    told = only(StoreFacts(NOW, dead=2, dead_causes=[("send", "ValueError: no", 2)]))
    assert told.title == "2 dead letters"
    assert "2 of send: ValueError: no" in told.detail


def test_schedules_that_are_late_or_paused() -> None:
    late = [
        OverdueSchedule("a", NOW - 6 * MINUTE),
        OverdueSchedule("b", NOW - MINUTE),
        OverdueSchedule("c", NOW - SECOND),
        OverdueSchedule("d", NOW + MINUTE),
    ]
    scene = StoreFacts(NOW, late_schedules=late, paused_schedules=[OverdueSchedule("e", NOW, "ada", "too loud")])
    assert kinds(scene) == [("schedule_late", "error"), ("schedule_late", "warning"), ("schedule_paused", "info")]
    assert judge(scene)[0].title == "schedule a is late by 6m"
    assert judge(scene)[2].detail == "It was paused by ada (too loud) and starts nothing until it is resumed."


def test_breakers_that_hold_jobs_are_open_and_limits_may_hold_some() -> None:
    scene = StoreFacts(
        NOW,
        breakers=[HoldingLimit("task:send#breaker", "3 failures in 1m pause 5m", 4), HoldingLimit("b", "", 0)],
        limits=[HoldingLimit("stripe", "5 at once", findings.MANY_HELD), HoldingLimit("few", "5 at once", 3)],
    )
    assert kinds(scene) == [("breaker", "error"), ("limit", "warning")]


def test_approvals_and_clocks() -> None:
    approval = PendingApproval("r", "release", "ask", "ship it?", NOW)
    told = only(StoreFacts(NOW, approvals=[approval]))
    assert told.title == "step ask of a run of release waits for approval"
    assert told.detail == "ship it? Approve it, or reject it: tickwork runs approve r ask"
    assert only(StoreFacts(NOW, skew=-7 * SECOND)).title == "the clock of this server is 7s behind the store's"


TROUBLES = st.lists(
    st.builds(
        FailedEnd,
        id=st.sampled_from([JobId("a"), JobId("b")]),
        task=st.text(min_size=1, max_size=300),
        queue=st.just("q"),
        state=st.sampled_from(["failed", "cancelled", "timed_out", "lost", "released"]),
        error=st.none() | st.text(max_size=300),
        ended_at=st.just(NOW),
        is_run=st.booleans(),
        is_dead=st.booleans(),
    ),
    max_size=80,
)
QUEUES = st.lists(
    st.builds(
        queue,
        st.none() | st.timedeltas(timedelta(0), timedelta(days=3)),
        workers=st.integers(0, 2),
        paused=st.booleans(),
    ),
    max_size=5,
)


@given(
    QUEUES,
    TROUBLES,
    TROUBLES,
    st.lists(st.sampled_from([worker(), worker(state="lost")]), max_size=3),
    st.integers(0, 5),
)
def test_whatever_there_is_is_told_in_order_and_bounded(
    queues: list[QueueFacts], failed: list[FailedEnd], retried: list[FailedEnd], workers: list[WorkerView], dead: int
) -> None:
    scene = StoreFacts(NOW, queues, workers, failed=failed, retried=retried, dead=dead)
    told = judge(scene)
    ranks = [(SEVERITIES.index(one.severity), -one.count) for one in told]
    assert ranks == sorted(ranks)
    assert len(told) <= findings.LIMIT
    assert all(one.title and one.detail and one.count > 0 for one in told)
    assert all(len(one.title) <= findings.TITLE_LIMIT for one in told)
    assert any(one.kind == "dead" for one in told) == bool(dead) or len(told) == findings.LIMIT
    failing = {(one.task, one.is_run) for one in failed if one.state == "failed"}
    assert sum(one.kind in ("failing", "run_failed") for one in told) == len(failing) or len(told) == findings.LIMIT
