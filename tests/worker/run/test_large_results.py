"""Results that are too large for the store: of plain jobs, between steps, and of runs, on both stores."""

import asyncio
import os
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tickwork import JobFailed, LocalBlobs, Tickwork, batch, if_
from tickwork.api.runs import Run
from tickwork.clock import SystemClock
from tickwork.core.arguments.payload import RESULT_LIMIT
from tickwork.core.blob_ref import MARK, reference_in
from tickwork.core.retention import Retention
from tickwork.services import pruner
from tickwork.services.pruner import Pruner

LARGE = 3_000_000
NO_TIME = timedelta(0)


class SpiedBlobs(LocalBlobs):
    """A folder, and who read from it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.readers: list[str] = []

    def get(self, key: str) -> bytes:
        self.readers.append(threading.current_thread().name)
        return super().get(key)


@pytest.fixture
def blobs(tmp_path: Path) -> SpiedBlobs:
    return SpiedBlobs(tmp_path / "blobs")


@pytest.fixture
def app(store_url: str, blobs: SpiedBlobs) -> Iterator[Tickwork]:
    app = Tickwork(store_url, blobs=blobs)
    yield app
    app.close()


def files(blobs: LocalBlobs) -> list[Path]:
    return sorted(path for path in blobs.folder.rglob("*") if path.is_file())


def rows(count: int, size: int = 1000) -> list[dict[str, str]]:
    return [{"id": str(n), "text": "x" * size} for n in range(count)]


def told(run: Run) -> str:
    """Return the ends of the steps of a run, for the message of a failed test."""
    return "; ".join(f"{name}: {step.state} {step.error}" for name, step in run.steps.items())


class TestPlainJobs:
    def test_a_large_result_comes_back_and_its_row_is_small(self, app: Tickwork, blobs: LocalBlobs) -> None:
        @app.task
        def make(size: int) -> list[str]:
            return ["x" * size, "ü"]

        with app.worker():
            large, small = make.enqueue(LARGE), make.enqueue(1000)
            assert large.result(timeout=20) == ["x" * LARGE, "ü"]
            assert small.result(timeout=20) == ["x" * 1000, "ü"]
        assert len(large.view.result or b"") < 250
        (file,) = files(blobs)
        assert large.id in file.name

    def test_the_largest_that_fits_into_a_row_is_in_no_blob(self, app: Tickwork, blobs: LocalBlobs) -> None:
        @app.task
        def make(size: int) -> str:
            return "x" * (size - 2)

        with app.worker():
            assert len(make.enqueue(RESULT_LIMIT).result(timeout=20)) == RESULT_LIMIT - 2
            assert files(blobs) == []
            assert len(make.enqueue(RESULT_LIMIT + 1).result(timeout=20)) == RESULT_LIMIT - 1
            assert len(files(blobs)) == 1

    def test_it_may_be_that_of_a_batch_a_coroutine_or_a_transaction(self, app: Tickwork) -> None:
        @app.task(batch=batch(max=3, wait="200ms"))
        def together(sizes: list[int]) -> list[str]:
            return ["x" * size for size in sizes]

        @app.task(batch=batch(max=3, wait="200ms"))
        async def together_async(sizes: list[int]) -> list[str]:
            return ["x" * size for size in sizes]

        @app.task
        async def alone(size: int) -> str:
            return "x" * size

        @app.task(transactional=True)
        def in_transaction(tx: Any, size: int) -> str:
            tx.begun()
            return "x" * size

        with app.worker():
            jobs = [task.enqueue(size) for task in (together, together_async, alone) for size in (LARGE, 10, LARGE + 1)]
            jobs += [in_transaction.enqueue(LARGE), in_transaction.enqueue(10)]
            sizes = [len(job.result(timeout=20)) for job in jobs]
        assert sizes == [LARGE, 10, LARGE + 1] * 3 + [LARGE, 10]

    def test_a_dict_that_looks_like_a_reference_comes_back_as_it_was(self, app: Tickwork, blobs: LocalBlobs) -> None:
        @app.task
        def typed() -> dict[str, dict[str, Any]]:
            return {"$blob": {"key": "0" * 64 + ".x.1", "size": 7}}

        @app.task
        def untyped():  # type: ignore[no-untyped-def]
            return {"$blob": {"key": "0" * 64 + ".x.1", "size": 7}}

        @app.task
        def passed(value: dict[str, dict[str, Any]]) -> bool:
            return value == {"$blob": {"key": "0" * 64 + ".x.1", "size": 7}}

        @app.dag
        def pass_on() -> bool:
            return passed(typed())

        with app.worker():
            assert typed.enqueue().result(timeout=20) == untyped.enqueue().result(timeout=20)
            assert pass_on.enqueue().result(timeout=20) is True
        assert files(blobs) == []

    def test_a_result_that_cannot_be_written_is_tried_again(self, app: Tickwork, blobs: LocalBlobs) -> None:
        blobs.folder.write_text("in the way")
        tries = []

        @app.task(retries=1, backoff="10ms")
        def make() -> str:
            tries.append(1)
            if len(tries) == 2:
                os.remove(blobs.folder)
            return "x" * LARGE

        with app.worker():
            job = make.enqueue()
            assert len(job.result(timeout=20)) == LARGE
        error = job.attempts()[0].error or ""
        assert f"BlobError: the result of task 'make' could not be written to {blobs!r}: " in error

    def test_a_loop_is_not_blocked_by_blobs(self, store_url: str, tmp_path: Path) -> None:
        passed = threading.Event()

        class Slow(LocalBlobs):
            def put(self, key: str, data: bytes) -> None:
                assert passed.wait(10), "the loop stands still"
                super().put(key, data)

        app = Tickwork(store_url, blobs=Slow(tmp_path / "blobs"))

        @app.task
        async def make() -> str:
            return "x" * LARGE

        @app.task
        async def go_on(job: str) -> None:
            await asyncio.sleep(0.1)
            passed.set()

        with app.worker():
            job = make.enqueue()
            go_on.enqueue(job.id)
            assert len(job.result(timeout=20)) == LARGE
        app.close()


class TestWithoutAPlace:
    def test_a_large_result_fails_at_once_and_says_what_to_set(self, postgres_database: str) -> None:
        app = Tickwork(postgres_database)

        @app.task(retries=5)
        def make() -> str:
            return "x" * LARGE

        @app.task(batch=batch(max=2, wait="100ms"))
        def together(sizes: list[int]) -> list[str]:
            return ["x" * size for size in sizes]

        cure = "Set TICKWORK_BLOBS, or Tickwork(blobs=...), to a folder that all machines share."
        with app.worker():
            job, one, other = make.enqueue(), together.enqueue(LARGE), together.enqueue(10)
            with pytest.raises(JobFailed) as failed:
                job.result(timeout=20)
            assert one.wait(timeout=20) == "failed"
            assert other.result(timeout=20) == "x" * 10, "it is not to blame"
        assert "the result of task 'make' is 3,000,002 bytes; the cap is 1,048,576 where no place" in str(failed.value)
        assert cure in str(failed.value)
        assert cure in (one.error or "")
        assert job.attempt == 1
        app.close()

    def test_sqlite_has_a_folder_beside_its_file(self, tmp_path: Path) -> None:
        app = Tickwork(f"sqlite:///{tmp_path}/jobs.db")

        @app.task
        def make() -> str:
            return "x" * LARGE

        with app.worker():
            assert len(make.enqueue().result(timeout=20)) == LARGE
        app.close()
        assert len(files(LocalBlobs(tmp_path / "jobs.db-blobs"))) == 1


class TestSteps:
    def test_a_step_is_given_a_reference_and_its_handler_the_value(self, app: Tickwork, blobs: SpiedBlobs) -> None:
        @app.task
        def make(count: int) -> list[dict[str, str]]:
            return rows(count)

        @app.task
        def count(found: list[dict[str, str]]) -> int:
            return len(found)

        @app.task
        async def both(found: list[dict[str, str]], one: dict[str, str]) -> tuple[int, str]:
            return len(found), one["id"]

        @app.dag
        def job_limits(n: int) -> Any:
            made = make(n)
            return [count(made), both(made, made[7]), count(made), made[8]["id"]]

        with app.worker():
            run = job_limits.enqueue(2000)
            assert run.result(timeout=30) == [2000, [2000, "7"], 2000, "8"], told(run)
            assert run.steps["make"].result == rows(2000)
        assert len(files(blobs)) == 1, "it is stored once"
        job = run.steps["both"].job
        assert job is not None
        assert not any("tickwork-worker" in reader for reader in blobs.readers), "the loop of the worker reads none"

    def test_a_map_a_text_and_a_condition_look_into_it(self, app: Tickwork) -> None:
        @app.task
        def make(count: int) -> dict[str, Any]:
            return {"rows": rows(count), "open": count > 1000, "name": "Zoë"}

        @app.task
        def number(row: dict[str, str]) -> int:
            return int(row["id"])

        @app.task
        def greet(text: str) -> str:
            return text

        @app.task
        def total(numbers: list[int]) -> int:
            return sum(numbers)

        @app.dag
        def job_limits(n: int) -> Any:
            made = make(n)
            numbers = number.map(made["rows"])
            with if_(made["open"]):
                greeted = greet(f"{made['name']} has {made['rows'][2]['id']}")
            with if_(made["rows"][3]["id"] == "4"):
                never = greet("no")
            return [total(numbers), greeted, never]

        with app.worker():
            run = job_limits.enqueue(1500)
            assert run.result(timeout=50) == [sum(range(1500)), "Zoë has 2", None], told(run)
            assert run.steps["greet_2"].state == "skipped"

    def test_many_large_results_are_mapped_and_reduced(self, app: Tickwork, blobs: LocalBlobs) -> None:
        @app.task
        def make(n: int) -> str:
            return str(n) * LARGE

        @app.task
        def cut(text: str) -> str:
            return text[: LARGE // 2]

        @app.task
        def lengths(texts: list[str], first: str) -> list[int]:
            assert texts[0][:5] == first[:5] == "00000"
            return [len(text) for text in texts]

        @app.dag
        def job_limits() -> Any:
            made = make.map([0, 1, 2, 3])
            return lengths(cut.map(made), made[0])

        with app.worker():
            run = job_limits.enqueue()
            assert run.result(timeout=50) == [LARGE // 2] * 4, told(run)
        assert len(files(blobs)) == 8
        for job in run.steps["cut"].jobs:
            assert MARK in job.view.args, "an instance carries its element, which is a reference"

    def test_results_that_are_large_together_reach_the_step_that_reduces_them(self, app: Tickwork) -> None:
        """Each of them fits into a row, so none is in a blob: 64 MB of arguments."""

        @app.task
        def make(n: int) -> str:
            return chr(97 + n % 26) * 1_000_000

        @app.task
        def count(texts: list[str]) -> int:
            return sum(map(len, texts))

        @app.dag
        def job_limits() -> int:
            return count(make.map(list(range(64))))

        with app.worker():
            run = job_limits.enqueue()
            assert run.result(timeout=50) == 64_000_000, told(run)

    def test_a_run_gives_back_large_results(self, app: Tickwork, blobs: LocalBlobs) -> None:
        @app.task
        def make(n: int, size: int) -> str:
            return str(n) * size

        @app.dag
        def one() -> str:
            return make(1, LARGE)

        @app.dag
        def many() -> Any:
            return {"large": make(2, LARGE), "list": make.map([1, 2, 3, 4], size=900_000)}

        with app.worker():
            first, second = one.enqueue(), many.enqueue()
            assert first.result(timeout=30) == "1" * LARGE, told(first)
            found = second.result(timeout=30)
        assert found["large"] == "2" * LARGE
        assert [(text[0], len(text)) for text in found["list"]] == [(n, 900_000) for n in "1234"]
        owners = {path.name.split(".")[1] for path in files(blobs)}
        assert first.id not in owners, "it names the blob of its step"
        assert second.id in owners, "all of it is more than a row takes"

    def test_what_leads_nowhere_in_a_large_result_fails_the_step(self, app: Tickwork) -> None:
        @app.task
        def make() -> dict[str, str]:
            return {"a": "x" * LARGE}

        @app.task(retries=3)
        def take(value: str) -> str:
            return value

        @app.dag
        def job_limits() -> Any:
            return take(make()["b"])

        with app.worker():
            run = job_limits.enqueue()
            assert run.wait(timeout=20) == "failed"
        assert 'the result has no \'b\': it is {"a":"xxx' in (run.steps["take"].error or "")
        job = run.steps["take"].job
        assert job is not None
        assert job.attempt == 1

    def test_a_blob_that_is_gone_fails_what_needs_it_and_skips_nothing(self, app: Tickwork, blobs: LocalBlobs) -> None:
        @app.task
        def make() -> list[str]:
            return ["x" * LARGE, "y"]

        @app.task
        def lose(made: list[str]) -> None:
            (file,) = files(blobs)
            file.unlink()

        @app.task(retries=0)
        def take(value: list[str]) -> None: ...

        @app.task
        def note(value: str) -> None: ...

        @app.dag
        def job_limits() -> None:
            made = make()
            lost = lose(made)
            take(made).after(lost)
            note.map(made).after(lost)
            with if_(made[1] == "y"):
                note.options(name="noted")("z").after(lost)
            note.options(name="written")(f"of {made[1]}").after(lost)

        with app.worker():
            run = job_limits.enqueue()
            assert run.wait(timeout=20) == "failed", told(run)
        for name in ("take", "note", "noted", "written"):
            assert run.steps[name].state == "failed", name
            assert f"is not in {blobs!r}: " in (run.steps[name].error or ""), name


class TestLifetime:
    def test_a_blob_goes_with_its_job(self, app: Tickwork, blobs: LocalBlobs) -> None:
        @app.task
        def make(n: int) -> str:
            return str(n) * LARGE

        @app.dag
        def job_limits() -> str:
            return make(5)

        with app.worker():
            job, run = make.enqueue(1), job_limits.enqueue()
            job.result(timeout=20)
            run.result(timeout=20)
            kept = files(blobs)
            Pruner(app.store, Retention(), SystemClock()).tick(0.0)
            assert files(blobs) == kept
            gone = Pruner(app.store, Retention(NO_TIME, NO_TIME), SystemClock())
            gone.tick(0.0)
            step = run.id
            assert app.job(step) is None
            gone.tick(0.0)  # steps are kept as long as their run
        assert files(blobs) == []

    def test_what_no_result_names_is_swept_after_a_day(
        self, app: Tickwork, blobs: LocalBlobs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        values = iter([1, 2])

        @app.task
        def make() -> str:
            return str(next(values)) * LARGE

        @app.task(retries=0)
        def check(text: str) -> str:
            if text[0] == "1":
                raise ValueError(text[0])
            return text[0]

        @app.dag
        def job_limits() -> str:
            return check(make())

        with app.worker():
            run = job_limits.enqueue()
            assert run.wait(timeout=20) == "failed"
            (first,) = files(blobs)
            assert run.rerun("make").result(timeout=20) == "2"
        (second,) = set(files(blobs)) - {first}
        half = second.with_name(f"{second.name}~0011")
        half.write_bytes(b"half of it")
        strangers = first.with_name(
            first.name.replace(run.steps["make"].job.id, "019a8f3e-1c2d-7abc-8def-0123456789ab")
        )  # type: ignore[union-attr]
        strangers.write_bytes(b"of another store")
        notes = first.with_name("notes.txt")
        notes.write_text("mine")
        Pruner(app.store, Retention(), SystemClock()).tick(0.0)
        assert first.exists(), "it is young: who wrote it may be about to say so"
        for path in files(blobs):
            os.utime(path, (1e9, 1e9))
        monkeypatch.setattr(pruner, "BATCH", 2)
        Pruner(app.store, Retention(), SystemClock()).tick(0.0)
        assert set(files(blobs)) == {second, strangers, notes}

    def test_a_sweep_is_made_a_few_times_a_day(self, app: Tickwork, blobs: LocalBlobs) -> None:
        asked: list[datetime] = []

        class Counted(LocalBlobs):
            def keys(self, before: datetime) -> Iterator[str]:
                asked.append(before)
                return iter(())

        store = app.store
        store.blobs = Counted(blobs.folder)
        service = Pruner(store, Retention(), SystemClock())
        for hour in range(25):
            service.tick(hour * 3600.0)
        assert len(asked) == 5


class Dictionary:
    """A blob store of the user's own."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}
        self._written: dict[str, datetime] = {}

    def put(self, key: str, data: bytes) -> None:
        self.held[key] = data
        self._written[key] = datetime.now(UTC)

    def get(self, key: str) -> bytes:
        return self.held[key]

    def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            self.held.pop(key, None)

    def keys(self, before: datetime) -> list[str]:
        return [key for key in self.held if self._written[key] < before]


def test_any_object_with_the_four_verbs_will_do(store_url: str) -> None:
    held = Dictionary()
    app = Tickwork(store_url, blobs=held)

    @app.task
    def make() -> str:
        return "x" * LARGE

    with app.worker():
        job = make.enqueue()
        assert len(job.result(timeout=20)) == LARGE
        reference = reference_in(job.view.result or b"")
        assert reference is not None
        assert list(held.held) == [reference.key]
        Pruner(app.store, Retention(NO_TIME, NO_TIME), SystemClock()).tick(0.0)
    assert held.held == {}
    app.close()
