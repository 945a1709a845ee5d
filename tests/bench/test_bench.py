"""The harness of the benchmarks works, on numbers too small to say anything about speed."""

from pathlib import Path

import msgspec
import pytest

from bench import report, stats
from bench.places import SqlitePlace
from bench.rows import ROWS, Row, Sample, Sizes
from bench.run import Outcome, run_rows
from bench.worker import BenchFailed

TINY = Sizes(
    one_by_one=5, bulk=20, batch=10, drain=100, backlog=200, latency_s=0.5, timers=5, timers_s=0.2, timers_lead_s=0.3
)


class Silent:
    def begins(self, row: Row, store: str, what: str) -> None: ...

    def measured(self, row: Row, store: str, what: str, sample: Sample) -> None: ...

    def ended(self, outcome: Outcome) -> None: ...


def measured(rows: list[Row], folder: Path) -> list[Outcome]:
    return list(run_rows([SqlitePlace(folder)], rows, TINY, 2, Silent()))


def test_a_percentile_is_a_value_that_was_measured() -> None:
    values = [float(value) for value in range(100, 0, -1)]

    assert stats.percentiles(values) == {"p50": 50.0, "p95": 95.0, "p99": 99.0}
    assert stats.percentile([7.0], 99) == 7.0
    with pytest.raises(ValueError, match="nothing was measured"):
        stats.percentile([], 50)


def test_runs_are_summed_up_by_medians_and_their_spread() -> None:
    assert stats.medians([{"a": 1, "b": 5}, {"a": 9, "b": 6}, {"a": 2}]) == {"a": 2}
    assert stats.spread([90, 100, 110]) == pytest.approx(0.2)
    assert stats.per_job({"wal_bytes": 100.0}, {"wal_bytes": 600.0}, 5) == {"wal_bytes_per_job": 100.0}


@pytest.mark.process
def test_each_row_is_measured_beside_its_raw_loop_and_leaves_nothing(tmp_path: Path) -> None:
    rows = [row for row in ROWS if row.name in {"enqueue", "drain", "latency"}]

    outcomes = measured(rows, tmp_path)

    assert [outcome.error for outcome in outcomes] == [None] * 3
    assert all(value > 0 for outcome in outcomes for value in outcome.ratios().values())
    assert [len(outcome.raw) for outcome in outcomes] == [2, 2, 1]
    assert list(tmp_path.iterdir()) == []


def test_a_row_that_fails_says_why_and_the_others_go_on(tmp_path: Path) -> None:
    def broken(place: object, sizes: Sizes) -> object:
        raise BenchFailed("the disk was on fire")

    failing = Row("broken", "Broken", "jobs/s", broken, broken)  # type: ignore[arg-type]
    outcomes = measured([failing, ROWS[0]], tmp_path)

    assert outcomes[0].error == "BenchFailed: the disk was on fire"
    assert outcomes[1].error is None
    assert report.table(outcomes).row_count == 2
    written = msgspec.json.decode(report.write(outcomes, {"machine": {}}, tmp_path / "out.json").read_bytes())
    assert [row["error"] for row in written["rows"]] == [outcomes[0].error, None]
