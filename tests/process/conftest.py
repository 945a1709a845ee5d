from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.harness import Workers
from tests.worker.fixtures import app, postgres_database, store_url

__all__ = ["app", "postgres_database", "store_url"]


@pytest.fixture
def workers(store_url: str, tmp_path: Path) -> Iterator[Workers]:
    """Starts workers on this test's store; ends them after it, and shows what they said if it failed."""
    workers = Workers(store_url, tmp_path)
    yield workers
    workers.close()
    for worker in workers.started:
        print(f"--- worker {worker.pid}: {worker.said()}")
