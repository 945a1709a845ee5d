"""Runs of dags against a model of their rules: anything may happen, in virtual time, and store and model agree at every
step.

DAG_EXAMPLES is how many random runs there are, 40 unless the environment says otherwise; 5000 is what we hold ourselves
to.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.store.runs.dag_driver import Driver
from tests.store.runs.dag_graphs import RULES, a_graph, a_graph_of_all_endings, drawn
from tickwork.core.dag.graph import Graph
from tickwork.store.base import Store
from tickwork.store.postgres import PostgresStore
from tickwork.store.sqlite import SqliteStore
from tickwork.testing import VirtualClock

EXAMPLES = int(os.environ.get("DAG_EXAMPLES", "40"))
ENDS = ("succeeded", "failed", "skipped by rule", "skipped upstream", "cancelled", "expired", "dropped")
ENOUGH = 100
MOST_RUNS = 80

Opens = Callable[[], tuple[Store, VirtualClock]]


@pytest.fixture(scope="module")
def opens_empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opens]:
    """Opens a new, empty file each time."""
    folder = tmp_path_factory.mktemp("runs")
    opened: list[SqliteStore] = []

    def open_one() -> tuple[Store, VirtualClock]:
        while opened:
            opened.pop().close()
        for old in folder.iterdir():
            old.unlink()
        clock = VirtualClock()
        opened.append(SqliteStore(str(folder / "jobs.db"), clock=clock))
        return opened[0], clock

    yield open_one
    for store in opened:
        store.close()


def run_round(store: Store, clock: VirtualClock, rng: Random, graph: Graph, *, is_exact: bool) -> None:
    driver = Driver(store, clock, rng, graph, is_exact=is_exact)
    try:
        driver.run_round()
    except Exception as error:
        story = "\n".join(driver.told)
        error.add_note(f"{drawn(graph)}\n{driver.model.params}\n{story}")
        raise


@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(rng=st.randoms(use_true_random=False))
def test_a_run_does_what_the_model_does(opens_empty: Opens, rng: Random) -> None:
    run_round(*opens_empty(), rng, a_graph(rng, 7), is_exact=True)


@pytest.mark.parametrize("most", [7, 25])
def test_many_runs_do_what_the_model_does(opens_empty: Opens, most: int) -> None:
    store, clock = opens_empty()
    for seed in range(EXAMPLES if most == 7 else EXAMPLES // 6):
        rng = Random(f"{most} {seed}")
        run_round(store, clock, rng, a_graph(rng, most), is_exact=True)


def test_runs_on_postgres_do_what_the_model_does(postgres: PostgresStore, clock: VirtualClock) -> None:
    for seed in range(max(EXAMPLES // 6, 3)):
        rng = Random(f"postgres {seed}")
        run_round(postgres, clock, rng, a_graph(rng, 7), is_exact=False)


def test_each_rule_meets_each_ending_of_a_parent_a_hundred_times(opens_empty: Opens) -> None:
    store, clock = opens_empty()
    met: Counter[tuple[str, str]] = Counter()
    for seed in range(MOST_RUNS):
        rng = Random(seed)
        driver = Driver(store, clock, rng, a_graph_of_all_endings(rng))
        driver.play_endings()
        met += driver.model.met
        if min(met[pair] for pair in product(RULES, ENDS)) >= ENOUGH:
            return
    rare = {pair: met[pair] for pair in product(RULES, ENDS) if met[pair] < ENOUGH}
    raise AssertionError(f"of {sum(met.values())} pairs of a rule and an ending, some were rare: {rare}")
