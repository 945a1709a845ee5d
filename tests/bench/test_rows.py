"""Rows for the cost of an idle worker and for its latency under load: the harness works, on tiny numbers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench import proc
from bench.feeder import feeding
from bench.places import SqlitePlace
from bench.rows import ROWS, Row, Sizes
from bench.rows.base import opened
from bench.rows.limited import in_a_row, in_turn
from bench.worker import BenchFailed
from tests.waiting import eventually

TINY = Sizes(
    drain=100,
    batch=10,
    latency_s=0.5,
    steady_per_s=200,
    steady_batch=10,
    steady_s=0.5,
    rest_s=0.1,
    idle_s=0.3,
    schedules=20,
    ticks=5,
    timers_s=0.5,
    limited_keys=10,
    held=(0, 30),
    claims=2,
    tenant_jobs=12_000,
    tenant_s=0.5,
    dag_chain=5,
    dag_fan=20,
    dag_fan_large=30,
    dag_runs=5,
    dag_small=20,
    dag_large=50,
)


def row_of(name: str) -> Row:
    return next(row for row in ROWS if row.name == name)


@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "figures"),
    [
        ("steady", ["p50", "p95", "p99", "per_s"]),
        ("limited", ["per_s", "plain_ratio"]),
        ("limited-row", ["per_s", "plain_ratio"]),
        ("held-limit", ["p50", "p95", "p99", "claim_ms", "claim_growth_ratio"]),
        ("held-gate", ["p50", "p95", "p99", "claim_ms", "claim_growth_ratio"]),
        ("others", ["p50", "p95", "p99", "moved_ratio"]),
        ("tenants", ["p50", "p95", "p99", "moved_ratio", "queued_ratio"]),
        ("cold", ["first_done_s"]),
        ("idle", ["pss_mb", "cpu_percent"]),
        ("herd", ["last_done_s", "p50", "p95", "p99"]),
        ("ticks", ["p50", "p95", "p99"]),
        ("idle-schedules", ["pss_mb", "cpu_percent"]),
        ("dag-chain", ["ended_s"]),
        ("dag-fan", ["ended_s"]),
        ("dag-runs", ["per_s", "first_mb", "last_mb"]),
        ("dag-trace", ["small_ms", "large_ms"]),
    ],
)
def test_a_row_without_a_raw_side_is_measured(name: str, figures: list[str], tmp_path: Path) -> None:
    row = row_of(name)
    with row.ours(SqlitePlace(tmp_path), TINY) as measure:
        sample = measure()

    assert row.raw is None
    assert list(sample.figures) == figures
    assert all(value > 0 for figure, value in sample.figures.items() if figure != "cpu_percent")


def test_jobs_of_a_key_come_in_turn_or_in_a_row() -> None:
    sizes = Sizes(drain=6, limited_keys=3)

    assert [in_turn(number, sizes) for number in range(6)] == [0, 1, 2, 0, 1, 2]
    assert [in_a_row(number, sizes) for number in range(6)] == [0, 0, 1, 1, 2, 2]


def test_memory_and_processor_time_are_those_of_a_process_and_all_that_it_started() -> None:
    burn = "import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass"
    code = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {burn!r}])\nsys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as parent:
        eventually(lambda: proc.cpu_s(parent.pid) >= 0.2, 20)
        used, memory = proc.cpu_s(parent.pid), proc.pss_mb(parent.pid)
        parent.communicate()

    assert 0.2 <= used < 10
    assert 1 < memory < 1000
    assert proc.family(os.getpid())[0] == os.getpid()
    assert proc.pss_mb(parent.pid) == proc.cpu_s(parent.pid) == 0, "it is gone"


def test_a_feeder_enqueues_everything_and_says_when(tmp_path: Path) -> None:
    with SqlitePlace(tmp_path).fresh() as database, opened(database):
        with feeding(database.url, database.folder, "noop", per_s=100, batch=10, seconds=0.5) as feeder:
            feeder.join()
        sent = feeder.sent_ns(10)
        assert database.queued() == len(sent) == 50
        assert list(sent) == sorted(sent)
        assert 0.3 < (sent[-1] - sent[0]) / 1e9 < 20


def test_a_feeder_that_fails_says_why(tmp_path: Path) -> None:
    with (
        SqlitePlace(tmp_path).fresh() as database,
        feeding(database.url, database.folder, "no such task", per_s=100, batch=10, seconds=0.1) as feeder,
        pytest.raises(BenchFailed, match="no such task"),
    ):
        feeder.join()


def test_commits_are_counted_past_sqlite_itself(tmp_path: Path) -> None:
    with SqlitePlace(tmp_path).fresh() as database:
        with opened(database) as app:
            before = database.counters()
            for number in range(7):
                app.tasks["noop"].enqueue(number)
        assert database.counters()["commits"] - before["commits"] == 7
