"""The harness that runs peers beside us: how it talks to drivers, takes turns and reports. No peer is installed."""

import importlib.util
import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from bench import witness
from bench.peers import environments, report
from bench.peers.catalog import PEERS, Peer
from bench.peers.protocol import DRIVERS, read, running_driver
from bench.peers.run import Result, run_all
from bench.peers.workers import running_workers
from bench.peers.workloads import FULL, QUICK, WORKLOADS, Workload, jobs_to_drain
from bench.places import SqlitePlace
from bench.rows import Sample
from bench.tasks import WITNESS
from bench.worker import BenchFailed

OURS = next(peer for peer in PEERS if peer.name == "tickwork-sqlite")
THEIRS = next(peer for peer in PEERS if peer.name == "celery")
ENQUEUE, _, DRAIN, _, TIMERS, _ = WORKLOADS
TINY = replace(QUICK, one_by_one=5, bulk=20, batch=10, drain=100)
# A peer whose jobs are lines on stdout, which is not the place for answers.
PRODUCER = """
class Producer:
    async def enqueue(self, number):
        print("enqueued", number)
        if number == 13:
            raise ValueError("an unlucky number")

    async def enqueue_many(self, numbers):
        print(numbers)
        if numbers[0] == 13:
            __import__("os")._exit(3)

async def start():
    return Producer()
"""


class Listener:
    def __init__(self) -> None:
        self.turns: list[tuple[str, str, int]] = []

    def begins(self, result: Result, turn: int) -> None:
        self.turns.append((result.workload.name, result.peer.name, turn))

    def ended(self, result: Result) -> None: ...


@pytest.fixture
def producer(tmp_path: Path) -> dict[str, str]:
    """The environment in which a driver finds a peer of the name `nobody`."""
    (tmp_path / "nobody.py").write_text(PRODUCER)
    return {"PYTHONPATH": str(tmp_path)}


def result_of(peer: Peer, workload: Workload, *first_figures: float) -> Result:
    names = list(workload.columns)
    return Result(peer, workload, [Sample(dict.fromkeys(names, value), {"jobs": 20_000}) for value in first_figures])


def shown(results: list[Result]) -> str:
    console = Console(width=report.WIDE, force_terminal=False)
    with console.capture() as captured:
        for table in report.tables(results):
            console.print(table)
    return captured.get()


def test_a_slow_peer_drains_as_many_jobs_as_it_does_in_ten_seconds() -> None:
    assert jobs_to_drain(14_000, FULL.drain) == FULL.drain
    assert jobs_to_drain(350, FULL.drain) == 3_500
    assert jobs_to_drain(1, FULL.drain) == 100
    assert jobs_to_drain(400, QUICK.drain) == 1_000


def test_a_driver_does_what_it_is_asked_and_says_what_its_peer_can_do(tmp_path: Path, producer: dict[str, str]) -> None:
    with running_driver(sys.executable, "nobody", tmp_path, producer) as driver:
        assert (driver.bulk, driver.timers) == (True, False)
        assert driver.ask("enqueue", first=0, count=3).seconds > 0
        assert driver.ask("enqueue_many", first=0, count=5, batch=2).seconds > 0
        at_ns = driver.ask("pace", count=3, per_s=100).at_ns

    assert at_ns[2] - at_ns[0] >= 20e6
    printed = (tmp_path / "driver.log").read_text()
    assert "[0, 1]\n[2, 3]\n[4]\n" in printed


def test_what_goes_wrong_in_a_driver_is_said_and_its_death_is_noticed(tmp_path: Path, producer: dict[str, str]) -> None:
    with running_driver(sys.executable, "nobody", tmp_path, producer) as driver:
        with pytest.raises(BenchFailed, match="ValueError: an unlucky number"):
            driver.ask("enqueue", first=13, count=1)
        assert driver.ask("enqueue", first=0, count=1).seconds > 0
        with pytest.raises(BenchFailed, match="The driver ended"):
            driver.ask("enqueue_many", first=13, count=1, batch=1)


@pytest.mark.parametrize("line", [b"hello\n", b'{"seconds": "long"}\n', b'{"unheard": 1}\n'])
def test_a_line_that_is_no_answer_is_refused(line: bytes) -> None:
    with pytest.raises(BenchFailed, match="The driver said"):
        read(line)


def test_the_peers_handler_writes_the_same_witness_as_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = witness.make(tmp_path)
    monkeypatch.setenv(WITNESS, str(path))
    spec = importlib.util.spec_from_file_location("handler", DRIVERS / "handler.py")
    assert spec is not None
    assert spec.loader is not None
    handler = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(handler)

    handler.stamp(7)
    handler.stamp(-3)

    # The handler keeps its connection for the life of a process.
    os.close(handler._witness)
    assert witness.count(path) == 2
    assert set(witness.read(path)) == {7, -3}


@pytest.mark.process
def test_everyone_has_a_turn_before_anyone_has_a_second_and_a_failure_stops_only_itself(tmp_path: Path) -> None:
    lost = replace(OURS, name="lost", driver="on_nowhere")
    absent = replace(OURS, name="absent")
    listener = Listener()

    results = run_all(
        [lost, OURS, absent],
        {"sqlite": SqlitePlace(tmp_path)},
        {"absent": "it could not be installed"},
        [ENQUEUE, DRAIN],
        TINY,
        2,
        listener,
    )

    ours = OURS.name
    assert listener.turns == [
        *[("enqueue", "lost", 0), ("enqueue", ours, 0), ("enqueue", ours, 1)],
        *[("drain", "lost", 0), ("drain", ours, 0), ("drain", ours, 1)],
    ]
    assert [len(result.samples) for result in results] == [0, 2, 0, 0, 2, 0]
    assert "No module named 'on_nowhere'" in str(results[0].error)
    assert results[2].error == "it could not be installed"
    assert results[4].jobs() == TINY.drain
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_of_workers_that_do_not_want_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.peers.workers.STOP_LIMIT_S", 1.0)
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); open('up', 'w'); time.sleep(60)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {deaf!r}])"

    with running_workers([[sys.executable, "-c", parent]], tmp_path, {}) as workers:
        up = tmp_path / "workers" / "up"
        workers.wait_until(up.exists, "the child is up", 20, 0.02)
        assert workers.pss_mb() > 0

    assert workers.pids() == []


def test_a_worker_that_is_gone_is_a_failure_with_its_last_words(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "raise SystemExit('no store')"]

    with (
        pytest.raises(BenchFailed, match=r"exited with code 1\.\nno store"),
        running_workers([command], tmp_path, {}) as workers,
    ):
        workers.wait_until(lambda: False, "a job done", 20, 0.02)


def test_the_best_comes_first_then_who_cannot_then_who_failed() -> None:
    failed = Result(replace(THEIRS, name="failed"), DRAIN, error="BenchFailed: it burned\ntail")
    unable = Result(replace(THEIRS, name="unable"), DRAIN, able=False)
    slow, quick = result_of(THEIRS, DRAIN, 100.0), result_of(OURS, DRAIN, 900.0, 1_000.0, 5_000.0)

    assert report.ranked([failed, unable, slow, quick]) == [quick, slow, unable, failed]


def test_a_timer_that_starts_too_early_is_no_better_than_one_that_starts_too_late() -> None:
    early, punctual, late = (result_of(THEIRS, TIMERS, value) for value in (-500.0, 2.0, 300.0))

    assert report.ranked([early, late, punctual]) == [punctual, late, early]


def test_tables_mark_ours_and_say_what_was_counted_and_why_something_is_missing() -> None:
    failed = Result(replace(THEIRS, name="failed"), DRAIN, error="BenchFailed: it burned\nsmoke\nlast words")
    lines = shown([failed, result_of(THEIRS, DRAIN, 749.0), result_of(OURS, DRAIN, 900.0, 1_000.0, 5_000.0)]).split(
        "\n"
    )

    ours = next(line for line in lines if "tickwork-sqlite *" in line)
    theirs = next(line for line in lines if "celery" in line)
    assert ours.split()[3:7] == ["1,000", "410%", "20,000", "stored"]
    assert "749" in theirs
    assert "bodies run" in theirs
    assert "failed: BenchFailed: it burned ... last words" in "\n".join(lines)


def test_the_headline_tells_the_machine_and_how_durable_each_store_was() -> None:
    machine = {"cpu": "Abacus", "cores": 2, "fsync_ms": 0.2}
    stores = {"redis": {"version": "Redis 7", "settings": "nothing is kept on disk"}}

    said = report.headline({"machine": machine, "stores": stores, "settings": {"repeat": 3}})

    assert said.split("\n") == [
        "Abacus, 2 cores for everything, fsync 0.2 ms",
        "Redis 7: nothing is kept on disk",
        "Medians of 3.",
    ]


def test_everything_that_was_measured_is_written(tmp_path: Path) -> None:
    results = [result_of(OURS, DRAIN, 900.0, 1_000.0), Result(THEIRS, DRAIN, error="BenchFailed: it burned")]

    written = msgspec.json.decode(report.write(results, {"machine": {}}, tmp_path / "peers.json").read_bytes())

    assert [row["error"] for row in written["rows"]] == [None, "BenchFailed: it burned"]
    assert [sample["figures"]["per_s"] for sample in written["rows"][0]["samples"]] == [900.0, 1_000.0]
    assert written["peers"][1]["versions"][0].startswith("celery==")
    assert written["peers"][0]["ours"]


def test_every_peer_is_pinned_to_exact_versions_and_to_no_host() -> None:
    for peer in PEERS:
        for pin in environments.pins(peer.environment) if peer.environment else []:
            assert re.fullmatch(r"[A-Za-z0-9_.-]+==[A-Za-z0-9.]+", pin), pin
