"""Counts of a minute are added to every period and total that contain it."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.stats.rollups import (
    ALL,
    EVER,
    KEPT,
    CountedRows,
    RollupCounts,
    RollupKey,
    begin,
    fold,
    instant_of,
    minute_of,
)

NOW = datetime(2026, 3, 1, 12, 34, 56, tzinfo=UTC)
COUNTED = st.builds(
    CountedRows,
    what=st.sampled_from(["enqueued", "succeeded", "failed", "retried"]),
    queue=st.sampled_from(["mail", "crm"]),
    task=st.sampled_from(["send", "push"]),
    minute=st.integers(minute_of(NOW) - 170, minute_of(NOW)),
    digits=st.none(),
    lead=st.none(),
    rows=st.integers(1, 1000),
)


@given(st.lists(COUNTED, max_size=30))
def test_every_span_and_every_total_add_up_to_what_was_counted(counted: list[CountedRows]) -> None:
    places = fold(counted, NOW)
    for span in (EVER, *KEPT):
        of_all = [figures for place, figures in places.items() if place[:3] == (span, ALL, ALL)]
        assert sum(one.failed for one in of_all) == sum(one.rows for one in counted if one.what == "failed")
        of_pairs = [figures for place, figures in places.items() if place.span == span and ALL not in place[1:3]]
        assert sum(one.enqueued for one in of_pairs) == sum(one.enqueued for one in of_all)
        of_tasks = [figures for place, figures in places.items() if place[:2] == (span, ALL) and place.task != ALL]
        assert sum(one.retried for one in of_tasks) == sum(one.retried for one in of_all)


def test_what_is_older_than_a_span_is_kept_is_not_kept_in_it() -> None:
    minute = minute_of(NOW - timedelta(days=1))
    places = fold([CountedRows("failed", "mail", "send", minute, None, None, 2)], NOW)
    assert {place.span for place in places} == {EVER, 15, 60}
    assert places[RollupKey(60, "mail", ALL, begin(minute, 60))] == RollupCounts(failed=2)


def test_a_run_of_a_dag_is_not_among_all_jobs() -> None:
    places = fold([CountedRows("succeeded", "@dag", "nightly", minute_of(NOW), None, None, 1)], NOW)
    assert RollupKey(1, ALL, "nightly", minute_of(NOW)) in places
    assert RollupKey(1, ALL, ALL, minute_of(NOW)) not in places


def test_waits_are_of_attempts_that_started_and_runs_of_those_that_ended() -> None:
    minute = minute_of(NOW)
    counted = [
        CountedRows("started", "q", "t", minute, 7, 12, 3),
        CountedRows("started", "q", "t", minute, None, None, 2),
        CountedRows("run", "q", "t", minute, 4, 99, 5),
    ]
    figures = fold(counted, NOW)[RollupKey(1, "q", "t", minute)]
    assert (figures.started, sum(figures.waits.values()), sum(figures.runs.values())) == (5, 3, 5)


def test_a_minute_is_when_it_began() -> None:
    assert instant_of(minute_of(NOW)) == NOW.replace(second=0)
