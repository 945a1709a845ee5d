"""The number of CPUs of a worker: its affinity, and the quota of its control group."""

import os
from pathlib import Path

import pytest

# The options are tested without a worker process.
from tickwork.cli.processes.worker import _options
from tickwork.worker.process import cpu_count
from tickwork.worker.process.cpu_count import cgroup_quota, usable_cpus


def group(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text + "\n")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cgroup"


@pytest.fixture
def groups(tmp_path: Path) -> Path:
    return tmp_path / "self"


def test_the_quota_of_version_2_is_the_smallest_on_the_way_up(root: Path, groups: Path) -> None:
    groups.write_text("0::/pods/one/app\n")
    group(root / "pods/one/app", cpu__max="max 100000")
    group(root / "pods/one", cpu__max="150000 100000")
    group(root / "pods", cpu__max="800000 100000")
    assert cgroup_quota(root, groups) == 1.5


def test_in_a_container_its_own_group_is_the_root(root: Path, groups: Path) -> None:
    groups.write_text("0::/\n")
    group(root, cpu__max="200000 100000")
    assert cgroup_quota(root, groups) == 2.0


@pytest.mark.parametrize("folder", ["cpu,cpuacct", "cpu"])
def test_the_quota_of_version_1(root: Path, groups: Path, folder: str) -> None:
    groups.write_text("12:memory:/docker/x\n4:cpu,cpuacct:/docker/x\n")
    group(root / folder / "docker/x", cpu__cfs_quota_us="50000", cpu__cfs_period_us="100000")
    group(root / folder, cpu__cfs_quota_us="-1", cpu__cfs_period_us="100000")
    assert cgroup_quota(root, groups) == 0.5
    assert usable_cpus(root, groups) == 1, "at least one"


@pytest.mark.parametrize("text", ["", "0::/\n", "nonsense"])
def test_without_a_quota_there_is_none(root: Path, groups: Path, text: str) -> None:
    groups.write_text(text)
    assert cgroup_quota(root, groups) is None
    assert usable_cpus(root, groups) == len(os.sched_getaffinity(0))


def test_a_worker_has_no_more_processes_than_slots_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_count, "usable_cpus", lambda: 8)

    def processes(concurrency: int | None, asked: str | None = None) -> int:
        options = _options("t", concurrency, (), asked, ((), ""), (None, "1s"), (None, None, None), (False, None), None)
        return options.processes.high

    assert processes(2) == 2
    assert processes(64) == 8
    assert processes(2, "4") == 4, "unless it is asked for"
