"""The states of the steps of a run, from their rows and the times of their jobs."""

from datetime import UTC, datetime, timedelta

import pytest

from tickwork.core.dag.advance import StepState
from tickwork.core.dag.graph import ApprovalStep, Graph, Map, Step, Template
from tickwork.core.dag.overview import StepLine, StepTimes, overview

START = datetime(2026, 11, 15, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
GRAPH = Graph(
    name="d",
    steps=(
        Step(name="one", job=Template("t")),
        Step(name="many", job=Template("t"), map=Map({"x": [1, 2]})),
        Step(name="asked", approval=ApprovalStep("Go on?")),
    ),
)


def line(standing: StepState, queued: int = 0, running: int = 0, *times: datetime) -> StepLine:
    started, ended = (*times, None, None)[:2]
    seen = [StepTimes(standing.step, queued, running, started, ended)] if standing.total else []
    (found,) = [one for one in overview(GRAPH, [standing], seen) if one.name == standing.step]
    return found


def test_before_a_run_has_begun_all_of_it_waits() -> None:
    assert [(one.name, one.state) for one in overview(GRAPH, [], [])] == [
        ("one", "waiting"),
        ("many", "waiting"),
        ("asked", "waiting"),
    ]


@pytest.mark.parametrize(
    ("standing", "queued", "running", "state"),
    [
        (StepState("one"), 0, 0, "waiting"),
        (StepState("one", "open", total=1), 1, 0, "queued"),
        (StepState("one", "open", total=1), 0, 1, "running"),
        (StepState("one", "failed", total=1, ended=1), 0, 0, "failed"),
        (StepState("one", "skipped"), 0, 0, "skipped"),
        (StepState("many", "open", total=2, mapped=True), 2, 0, "queued"),
        (StepState("many", "open", total=2, mapped=True), 1, 1, "running"),
        (StepState("many", "open", total=2, ended=1, mapped=True), 1, 0, "running"),
        (StepState("asked", "open", total=1), 0, 0, "waiting"),
        (StepState("asked", "succeeded", total=1), 0, 0, "succeeded"),
    ],
)
def test_a_step_is_in_one_state(standing: StepState, queued: int, running: int, state: str) -> None:
    assert line(standing, queued, running).state == state


def test_a_step_took_from_its_first_start_to_its_last_end_or_until_now() -> None:
    now = START + 5 * SECOND
    assert line(StepState("one", "open", total=1), 1).took(now) is None
    assert line(StepState("one", "open", total=1), 0, 1, START).took(now) == 5 * SECOND
    assert line(StepState("one", "succeeded", total=1), 0, 0, START, START + SECOND).took(now) == SECOND
    running = StepState("many", "open", total=2, ended=1, mapped=True)
    assert line(running, 0, 1, START, START + SECOND).took(now) == 5 * SECOND


def test_an_approval_asks_once_it_waits_for_nothing_else() -> None:
    assert line(StepState("asked", "open", total=1)).is_asking
    assert not line(StepState("asked", "waiting")).is_asking
    assert not line(StepState("asked", "succeeded", total=1)).is_asking
