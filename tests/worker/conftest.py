"""Pools of child processes without a worker."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.worker.process.pool_helpers import TASKS, Pool


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Callable[..., Pool]]:
    made: list[Pool] = []

    def make(**options: int) -> Pool:
        file = tmp_path / "shop.py"
        file.write_text(TASKS)
        made.append(Pool(file, **options))
        made[-1].children.start()
        return made[-1]

    yield make
    for one in made:
        one.children.stop()
