"""The simulator runs on every change; its seeds replay; and it finds bugs that are planted on purpose."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from sim.__main__ import main
from sim.config import ClockConfig, Config, draw_config
from sim.planted import PLANTS, Plant, find
from sim.run import run_seed, run_seeds
from sim.start import FIRST, seeds_of_commit

SEEDS = 300
QUICK = 100  # of them in the quick suite
CHUNK = 50
REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "first",
    [
        *range(0, QUICK, CHUNK),
        *(pytest.param(first, marks=pytest.mark.process) for first in range(QUICK, SEEDS, CHUNK)),
    ],
)
def test_every_invariant_holds_whatever_goes_wrong(first: int) -> None:
    report = run_seeds(range(first, first + CHUNK))
    assert not report.failures, _told(report.failures[0].seed)
    assert report.seeds == CHUNK
    assert not report.unseen, f"these seeds never saw: {report.unseen}"


OF_COMMIT = seeds_of_commit(REPOSITORY)


@pytest.mark.parametrize("first", [OF_COMMIT + done for done in range(0, QUICK, CHUNK)])
def test_every_invariant_holds_for_seeds_that_were_not_run_before(first: int) -> None:
    """As many seeds again, from a start that every commit has for itself; the header of the test run names it."""
    report = run_seeds(range(first, first + CHUNK))
    assert not report.failures, _told(report.failures[0].seed)
    assert report.seeds == CHUNK


def _told(seed: int) -> str:
    outcome = run_seed(seed)
    return "\n".join([*outcome.told, f"{outcome.broken}: {outcome.message}", f"replay: make sim SEEDS=1 FROM={seed}"])


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_a_planted_bug_is_found(plant: Plant) -> None:
    found = find(plant, most=200)
    assert found is not None, "200 seeds did not find it"
    assert found.broken in plant.breaks, f"seed {found.seed} says {found.broken}: {found.message}"


def test_a_seed_gives_the_same_events_whatever_order_sets_have() -> None:
    seeds = [1, 17, 120]
    program = f"from sim.run import run_seed; print([run_seed(seed).hash for seed in {seeds}])"
    hashes = {_printed_by(program, hash_seed) for hash_seed in ("0", "1")}
    assert hashes == {str([run_seed(seed).hash for seed in seeds])}


def _printed_by(program: str, hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(REPOSITORY)}
    return subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.mark.parametrize("seed", [2, 30, 78])  # not 77: there a wait that ends in half a µs is rounded both ways
def test_the_clocks_of_workers_change_nothing(seed: int) -> None:
    """S26: the same seed with other offsets of the workers' clocks gives the same history of the store."""
    config = draw_config(Random(f"{seed}/config"))
    early, late = (run_seed(seed, _with_clocks(config, offset_s)) for offset_s in (-86_400.0, 86_400.0))
    assert early.broken is None
    assert early.hash == late.hash


def _with_clocks(config: Config, offset_s: float) -> Config:
    workers = (replace(worker, clock=ClockConfig(offset_s, 1.0)) for worker in config.workers)
    return replace(config, workers=tuple(workers))


def test_the_command_says_what_it_ran(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["sim", "--seeds", "3", "--from", "7", "--jobs", "1"])
    assert main() == 0
    assert "3 of 3 seeds (7 to 9)" in capsys.readouterr().out


def test_several_processes_report_what_one_does() -> None:
    alone, together = (run_seeds(range(7, 11), jobs=jobs) for jobs in (1, 2))
    assert alone == together


def test_the_seeds_of_a_commit_are_the_same_each_time_and_a_tree_without_git_has_some(tmp_path: Path) -> None:
    assert seeds_of_commit(REPOSITORY) == seeds_of_commit(REPOSITORY) >= FIRST
    assert seeds_of_commit(tmp_path) >= FIRST


def test_the_command_says_how_to_replay_what_failed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plant = next(plant for plant in PLANTS if plant.name.startswith("18 "))
    monkeypatch.setattr(sys, "argv", ["sim", "--seeds", "50", "--from", "4", "--jobs", "1"])
    with plant.plant():
        assert main() == 1
    out = capsys.readouterr().out
    assert "broke S21" in out
    assert "replay: make sim SEEDS=1 FROM=" in out
