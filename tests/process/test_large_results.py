"""Large results between real processes: a supervisor that only passes references on, and children that resolve them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process import large_results
from tests.process.harness import Workers
from tests.waiting import eventually
from tickwork import Tickwork
from tickwork.api.runs import Run

pytestmark = pytest.mark.process
TARGET = large_results.__name__


@pytest.fixture
def workers(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workers]:
    monkeypatch.setenv("TICKWORK_BLOBS", str(tmp_path / "blobs"))
    workers = Workers(store_url, tmp_path)
    yield workers
    workers.close()
    for worker in workers.started:
        print(f"--- worker {worker.pid}: {worker.said()}")


def run(app: Tickwork, name: str) -> Run:
    eventually(lambda: app.store.dags.list_dags(name), 20, "a worker has told of its dags")
    found = app.run(app.enqueue(name).id)
    assert found is not None
    return found


@pytest.mark.timeout(180)
def test_64_mb_reach_one_step_in_rows_and_in_blobs(workers: Workers, tmp_path: Path) -> None:
    worker = workers.start(target=TARGET)
    for name, parts in (("small_parts", 64), ("large_parts", 16)):
        assert run(workers.app, name).result(timeout=60) == [parts, 64_000_000]
    files = [path for path in (tmp_path / "blobs").rglob("*") if path.is_file()]
    assert len(files) == 16
    assert worker.is_running()


@pytest.mark.timeout(180)
def test_a_killed_worker_leaves_nothing_torn(workers: Workers, tmp_path: Path) -> None:
    for kill_at in ("listed", "length", "number"):
        first = workers.start(target=TARGET, lease_s=2)
        found = run(workers.app, "mixed")
        eventually(lambda: found.steps[kill_at].state != "waiting", 20)  # noqa: B023
        first.kill_everything()
        workers.start(target=TARGET, lease_s=2)
        result = found.result(timeout=60)
        assert result["numbers"] == [n + 1000 for n in range(3000)]
        assert result["whole"] == "f" * 2_000_000
        assert result["length"] == len("12 and 13")
        workers.started[-1].kill_everything()


def test_a_supervisor_says_that_it_cannot_use_an_object_of_the_program(workers: Workers, tmp_path: Path) -> None:
    program = tmp_path / "own_blobs.py"
    program.write_text("from tickwork import LocalBlobs, Tickwork\napp = Tickwork(blobs=LocalBlobs('x'))\n")
    worker = workers.start(target=str(program), wait=False)
    assert worker.wait(30) == 2
    assert "Give its name instead: Tickwork(blobs='shop.storage:blobs')." in worker.said()
