"""A shop with dags: one that fails until it is repaired, and one that asks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.waiting import eventually
from tickwork import Tickwork, approve
from tickwork.api.runs import Run

WAIT_S = 20


class DagShop:
    """An app with dags, which a worker has told the store of."""

    def __init__(self, app: Tickwork) -> None:
        self.app = app
        self.is_down = True

        @app.task
        def extract(day: str) -> list[int]:
            print(f"extracting {day}")
            return [1, 2, 3]

        @app.task
        def transform(part: int, factor: int) -> int:
            print(f"part {part}")
            return part * factor

        @app.task(retries=0)
        def load(parts: list[int]) -> int:
            if self.is_down:
                raise RuntimeError("warehouse is down")
            return sum(parts)

        @app.task
        def tell(text: str) -> str:
            return text

        @app.dag
        def etl(day: str, factor: int = 10) -> int:
            """Extract, transform, load."""
            total = load(transform.map(extract(day), factor=factor))
            tell.options(run_if="any_failed")("it failed").after(total)
            return total

        @app.dag
        def asking(path: str = "a") -> str:
            asked = approve(f"Delete {path}?")
            told = tell(f"deleted {path}")
            asked >> told  # type: ignore[operator]
            return told

        self.etl, self.asking = etl, asking
        etl.put()
        asking.put()

    @contextmanager
    def working(self) -> Iterator[None]:
        """A worker that the store knows of."""
        with self.app.worker(concurrency=4):
            eventually(self.app.store.reads.workers)
            yield

    def ended(self) -> Run:
        """A run of etl that has ended."""
        run = self.etl.enqueue(day="2026-11-15")
        with self.working():
            run.wait(timeout=WAIT_S)
        assert isinstance(run, Run)
        return run

    def asks(self) -> Run:
        """A run that waits for an answer."""
        run = self.asking.enqueue()
        assert isinstance(run, Run)
        with self.working():
            eventually(lambda: "waits for approval" in run.why("approve"))
        return run
