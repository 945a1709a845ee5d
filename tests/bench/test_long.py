"""The parts of the long benchmark work, on numbers too small to say anything about speed."""

from array import array
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.long import report
from bench.long.base import QUICK, Crowd, Part, Result, windows
from bench.long.burst import burst
from bench.long.crowd import QUIET, WORKER, crowd
from bench.long.held import held, held_limited
from bench.long.pages import pages
from bench.long.plot import Curve, Panel, plot, ticks
from bench.long.reads import reads
from bench.long.scale import scale, timed_ms
from bench.long.sleepers import most_at_once, sleepers
from bench.long.sustained import p99_by_window, sustained
from bench.places import Database, Place, PostgresPlace, SqlitePlace
from bench.rows.base import opened
from bench.worker import BenchFailed
from tests.postgres_server import Postgres, PostgresServer
from tests.ui.browsing import chromium
from tickwork import Tickwork
from tickwork.core.job import JobFilter, JobState
from tickwork.errors import StoreUnreachable

TINY = replace(
    QUICK,
    look_s=0.2,
    held_s=1.5,
    held_window_s=0.5,
    held_round=200,
    batch=100,
    burst=200,
    burst_pause_s=0.1,
    calibration=200,
    sustained_s=1.5,
    sustained_window_s=0.5,
    sleepers=30,
    sleep_s=1.0,
    small=Crowd(finished=100, queued=40, delayed=20, workers=2, keys=5),
    large=Crowd(finished=400, queued=80, delayed=40, workers=4, keys=10),
    crowd=Crowd(finished=100, queued=40, delayed=20, workers=4, keys=5, leases=30, dags=5),
    repeats=2,
    rest_s=0.1,
    idle_s=0.2,
)


def quiet(what: str) -> None: ...


@pytest.mark.process
@pytest.mark.parametrize(
    ("part", "some"),
    [
        (held, {"held_to_plain_ratio", "held_last_size_mb"}),
        (held_limited, {"held_to_plain_ratio", "plain_last_window_per_s"}),
        (burst, {"first_drained_s", "last_rss_mb"}),
        (sustained, {"last_to_second_ratio", "worst_window_p99_ms", "commits_per_job"}),
        (sleepers, {"held_at_once_count", "all_running_s"}),
        (reads, {"/api/v1/workers p95_ms", "/api/v1/dags p95_ms", "/metrics p50_ms"}),
        pytest.param(pages, {"overview_ready_ms", "jobs_ready_ms", "run_ready_ms"}, marks=pytest.mark.timeout(400)),
    ],
)
def test_a_part_measures_a_real_worker_and_leaves_nothing(part: Part, some: set[str], tmp_path: Path) -> None:
    if part is pages:
        chromium()  # it may have to be installed
    result = part(SqlitePlace(tmp_path), TINY, quiet)

    assert some <= result.figures.keys()
    assert all(result.figures[name] > 0 for name in some)
    assert all(len(result.series[name]) > 1 for name in result.series)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.process
def test_two_stores_are_compared_figure_by_figure(tmp_path: Path) -> None:
    result = scale(SqlitePlace(tmp_path), TINY, quiet)

    assert {"claim_10_ms", "enqueue_ms", "list_dead_ms", "queues_ms", "heartbeat_ms", "pss_mb"} <= result.pairs.keys()
    assert all(small > 0 for name, (small, _) in result.pairs.items() if name != "cpu_percent")
    assert not [promise for promise in result.promises if "is answered" in promise], "the store gave up"


# -- the crowd


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "sqlite":
        return SqlitePlace(tmp_path)
    server: Postgres = request.getfixturevalue("postgres_server")
    assert isinstance(server, PostgresServer)
    return PostgresPlace(server, tmp_path)


@pytest.fixture
def crowded(place: Place) -> Iterator[tuple[Tickwork, Database]]:
    with place.fresh() as database:
        crowd(database, TINY.large, quiet)
        with opened(database) as app:
            yield app, database


def test_what_was_filled_in_by_sql_is_read_and_run_by_tickwork(crowded: tuple[Tickwork, Database]) -> None:
    app, database = crowded
    store, size = app.store, TINY.large

    by_name = {queue.name: queue for queue in store.reads.queues()}
    assert by_name["default"].due == size.queued + 1  # the templates stand beside their copies
    assert by_name["default"].later + by_name[QUIET].later == size.delayed + 2
    assert abs(by_name[QUIET].later - size.delayed / 2) <= 1
    assert database.finished() == size.finished + 2
    assert database.unsuccessful() == size.finished // 100 + 1
    assert database.workers() == size.workers + 1
    assert len(store.reads.list_jobs(JobFilter(state=JobState.SUCCEEDED), 1000)) == size.finished * 99 // 100 + 1
    assert len(store.claim_jobs(WORKER, ["default"], ["noop"], 1000).jobs) == size.queued + 1


def test_a_crowd_has_leases_over_rest_and_dags_that_ran(place: Place) -> None:
    with place.fresh() as database:
        crowd(database, TINY.crowd, quiet)
        with opened(database) as app:
            remote = [one for one in app.store.reads.workers() if one.state == "remote"]
            assert sum(one.running for one in remote) == TINY.crowd.leases + 1  # with what they are copies of
            assert len(app.store.reads.newest_dags(100, "")) == TINY.crowd.dags + 1
            runs = app.store.reads.list_jobs(JobFilter(runs=True), 100)
            assert len(runs) == TINY.crowd.dags + 1
            assert {step.standing.state for run in runs for step in app.store.dags.run_steps(run.id)} == {"succeeded"}


def test_a_crowd_spreads_its_delayed_jobs_over_400_days_and_gives_some_a_key(
    crowded: tuple[Tickwork, Database],
) -> None:
    app, _ = crowded
    delayed = [
        one for one in app.store.reads.list_jobs(JobFilter(state=JobState.QUEUED), 1000) if one.run_at > app.store.now()
    ]
    keyed = [one for one in delayed if one.key is not None and one.key.startswith("key-")]

    assert len(keyed) == TINY.large.keys
    assert all(app.store.reads.find_key(one.key or "") == one.id for one in keyed)
    assert 350 < (max(one.run_at for one in delayed) - app.store.now()).days < 400


# -- arithmetic


def test_a_window_in_which_nothing_ended_counts() -> None:
    assert windows({0: 20, 2: 10, 3: 99}, window_s=2.0, seconds=6.5) == [10.0, 0.0, 5.0]


def test_those_who_sleep_at_the_same_time_are_counted() -> None:
    second = 1_000_000_000
    assert most_at_once([0, second // 2, second, 3 * second], sleep_s=1.0) == 2
    assert most_at_once([0, 1, 2], sleep_s=1.0) == 3


def test_the_latency_of_each_window_is_that_of_what_was_sent_in_it() -> None:
    second = 1_000_000_000
    sent = array("q", [second, second, 2 * second])
    started = array("q", [second + 1_000_000, second + 3_000_000, 2 * second + 7_000_000])

    assert p99_by_window(sent, started, 1.0) == [(1.0, 3.0), (2.0, 7.0)]
    with pytest.raises(BenchFailed, match="1 of 3 jobs never started"):
        p99_by_window(sent, array("q", [*started[:2], 0]), 1.0)


def test_a_call_that_the_store_gives_up_is_said_to_be() -> None:
    def never() -> None:
        raise StoreUnreachable("it took too long.")

    assert timed_ms(never, 3)[1] == "StoreUnreachable"
    assert timed_ms(lambda: None, 3)[1] is None


# -- the report


def test_a_part_that_is_measured_again_replaces_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "long.json"
    report.write({"at": "then"}, {"held": {"sqlite": Result({"a_s": 1.0})}, "burst": {"sqlite": Result({})}}, path)
    report.write({"at": "now"}, {"held": {"postgres": Result({"a_s": 3.0})}, "burst": {"sqlite": Result({})}}, path)

    found = report.read(path)
    assert {(part, store, found[part][store]["at"]) for part in found for store in found[part]} == {
        ("held", "sqlite", "then"),
        ("held", "postgres", "now"),
        ("burst", "sqlite", "now"),
    }


def test_promises_that_were_not_kept_are_named() -> None:
    result = Result({}, promises={"it is quick": False, "it is right": True})
    assert report.verdicts({"sqlite": result}) == [
        "sqlite: NOT kept: it is quick",
        "sqlite: 1 of 2 promises kept",
    ]


def test_small_and_large_stand_beside_each_other() -> None:
    table = report.table("scale", {"sqlite": Result({}, pairs={"claim_ms": (2.0, 3.0)})})
    assert list(table.columns[1].cells) == ["2.00 ms → 3.00 ms (1.50x)"]


def test_a_plot_is_a_picture_with_every_curve(tmp_path: Path) -> None:
    drawn = plot([Panel("rate & size", [Curve("sqlite", [(0, 0), (5, 10)]), Curve("a < b", [(0, 3)])])] * 4)
    names = [element.text for element in ElementTree.fromstring(drawn).iter() if element.tag.endswith("text")]

    assert names.count("rate & size") == names.count("a < b") == 4
    assert drawn.count("<polyline") == 8


@pytest.mark.parametrize("most", [0.3, 1, 7, 99, 100, 12_345])
def test_ticks_are_few_and_reach_the_highest_value(most: float) -> None:
    marks = ticks(most)
    assert marks[0] == 0
    assert marks[-1] >= most > marks[-2]
    assert 4 <= len(marks) <= 9
