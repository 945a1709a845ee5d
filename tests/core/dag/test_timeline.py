"""When the jobs of a run ran, and which of them determined its end."""

from datetime import UTC, datetime, timedelta

from tickwork.core.dag.graph import Graph, Step, Template
from tickwork.core.dag.overview import LastAttempt, critical_path, timeline

BEGAN = datetime(2026, 11, 15, 2, 0, tzinfo=UTC)
PARENTS = {"fetch": (), "slow": ("fetch",), "quick": ("fetch",), "skipped": ("slow",), "load": ("skipped", "quick")}
GRAPH = Graph(
    name="g", steps=tuple(Step(name=name, parents=parents, job=Template("t")) for name, parents in PARENTS.items())
)


def at(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def ran(step: str, start_s: float, end_s: float | None, idx: int = 0) -> LastAttempt:
    return LastAttempt(step, idx, at(start_s), None if end_s is None else at(end_s))


WHOLE = [
    ran("load", 12, 15),
    ran("fetch", 1, 2),
    ran("slow", 2, 9, idx=1),
    ran("slow", 2, 4),
    ran("quick", 2.5, 3),
]


def test_the_path_leads_through_what_ended_last_and_looks_through_what_was_skipped() -> None:
    path = critical_path(GRAPH, WHOLE, at(99))
    assert [(one.step, one.idx) for one in path] == [("fetch", 0), ("slow", 1), ("load", 0)]


def test_bars_come_in_the_order_of_their_starts_and_the_path_says_what_was_waited_for() -> None:
    drawn = timeline(GRAPH, WHOLE, began_at=BEGAN, now=at(99))
    assert [(bar["step"], bar["idx"], bar["offset_s"], bar["duration_s"]) for bar in drawn["bars"]] == [
        ("fetch", 0, 1.0, 1.0),
        ("slow", 0, 2.0, 2.0),
        ("slow", 1, 2.0, 7.0),
        ("quick", 0, 2.5, 0.5),
        ("load", 0, 12.0, 3.0),
    ]
    assert [bar["is_critical"] for bar in drawn["bars"]] == [True, False, True, False, True]
    assert [(link["step"], link["waited_s"]) for link in drawn["critical_path"]] == [
        ("fetch", 1.0),
        ("slow", 0.0),
        ("load", 3.0),
    ]
    assert sum(link["waited_s"] + link["duration_s"] for link in drawn["critical_path"]) == drawn["duration_s"] == 15.0
    assert drawn["ended_at"] == at(15).isoformat()


def test_what_runs_reaches_until_now() -> None:
    drawn = timeline(GRAPH, [ran("fetch", 0, 1), ran("slow", 1, None)], began_at=BEGAN, now=at(5))
    assert drawn["bars"][1]["ended_at"] is None
    assert drawn["bars"][1]["duration_s"] == 4.0
    assert [link["step"] for link in drawn["critical_path"]] == ["fetch", "slow"]


def test_a_run_of_which_nothing_has_started_has_no_bars() -> None:
    drawn = timeline(GRAPH, [], began_at=BEGAN, now=at(5))
    assert (drawn["bars"], drawn["critical_path"], drawn["duration_s"]) == ([], [], 0.0)
