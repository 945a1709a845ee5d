"""What the model of flow control, and people, found out: each is a promise that was broken once."""

from __future__ import annotations

import pytest

from tests.store.builders import HOUR, register, succeeded
from tests.store.test_flow import limited, take
from tickwork.core.flow.limits import concurrency, rate
from tickwork.store.base import Store


@pytest.mark.parametrize("before", [None, rate("1000/s", burst=10)])
def test_a_limit_counts_what_started_before_it_came(store: Store, before: object) -> None:
    """One that is lowered below what runs admits nobody until there is room; so does one that is new."""
    if before is not None:
        store.set_limit("two", before)  # type: ignore[arg-type]
    worker = register(store, lease=HOUR)
    store.insert_jobs([limited() for _ in range(4)])
    running = take(store, worker)
    assert len(running) == 4
    store.set_limit("two", concurrency(3))
    store.insert_jobs([limited() for _ in range(4)])
    assert take(store, worker) == []
    store.finish_attempts([succeeded(one) for one in running[:2]])
    assert len(take(store, worker)) == 1


def test_a_limit_that_was_away_for_a_while_counts_what_started_meanwhile(store: Store) -> None:
    worker = register(store, lease=HOUR)
    store.set_limit("two", concurrency(1))
    store.insert_jobs([limited() for _ in range(3)])
    assert len(take(store, worker)) == 1
    store.set_limit("two", None)
    assert len(take(store, worker)) == 2
    store.set_limit("two", concurrency(3))
    store.insert_jobs([limited() for _ in range(3)])
    assert take(store, worker) == []
