"""Dags and tasks for the workers of test_dags.py. Store and witness: as in tasks.py."""

import os
import random
from pathlib import Path

from tests.process.tasks import nap
from tests.process.witness import tell as told
from tickwork import Tickwork, current_job

app = Tickwork()
WAREHOUSE = "warehouse"  # a file beside the witness's; while it is not there, nothing can be loaded
PARTS = 3


def take_a_moment(most_s: float) -> None:
    """Tell that it runs, take up to so long, tell that it ran."""
    told("start")
    nap(random.uniform(0, most_s))
    told("end")


# -- tour/05


@app.task(retries=0)
def extract(day: str) -> list[int]:
    take_a_moment(0.2)
    return [1, 2, 3]


@app.task(retries=0)
def transform(part: int, factor: int) -> int:
    take_a_moment(0.3)
    return part * factor


@app.task(retries=0)
def load(parts: list[int]) -> int:
    take_a_moment(0.2)
    if not Path(os.environ["WITNESS"]).with_name(WAREHOUSE).exists():
        raise RuntimeError("warehouse is down")
    return sum(parts)


@app.task(retries=0)
def tell(text: str) -> str:
    take_a_moment(0.1)
    return text


@app.dag
def etl(day: str) -> int:
    raw = extract(day)
    parts = transform.map(raw, factor=10)
    total = load(parts)
    tell.options(run_if="any_failed")("load failed").after(total)
    return total


ETL_PARENTS = {"extract": [], "transform": ["extract"], "load": ["transform"], "tell": ["load"]}


# -- a diamond, a map, a retry, a rule: ten steps


@app.task(retries=0)
def add(number: int, other: int = 0) -> int:
    take_a_moment(0.01)
    return number + other


@app.task(retries=0)
def total(numbers: list[int]) -> int:
    take_a_moment(0.01)
    return sum(numbers)


@app.task(retries=0)
def spread(number: int) -> list[int]:
    take_a_moment(0.01)
    return [number + n for n in range(PARTS)]


@app.task(retries=1, backoff="10ms")
def stumble(number: int) -> int:
    """Fail at the first attempt."""
    take_a_moment(0.01)
    if current_job().attempt == 1:
        raise ValueError("not yet")
    return number


@app.dag
def lattice(n: int) -> int:
    first = add.options(name="first")(n)
    left = add.options(name="left")(first, 1)
    right = add.options(name="right")(first, 2)
    joined = total.options(name="joined")([left, right])
    parts = spread(joined)
    mapped = add.options(name="mapped").map(parts, other=10)
    summed = total.options(name="summed")(mapped)
    slow = stumble(joined)
    alarm = add.options(name="alarm", run_if="any_failed")(n).after(summed, slow)
    return total.options(name="last", run_if="none_failed")([summed, slow]).after(alarm)


LATTICE_PARENTS = {
    "first": [],
    "left": ["first"],
    "right": ["first"],
    "joined": ["left", "right"],
    "spread": ["joined"],
    "mapped": ["spread"],
    "summed": ["mapped"],
    "stumble": ["joined"],
    "alarm": ["summed", "stumble"],
    "last": ["summed", "stumble", "alarm"],
}
LATTICE_JOBS = len(LATTICE_PARENTS) - 1 + PARTS - 1  # the alarm is not run, the map is run for each part


def lattice_result(n: int) -> int:
    """Return the expected result of a run."""
    joined = (n + 1) + (n + 2)
    return sum(joined + part + 10 for part in range(PARTS)) + joined


# -- a large map


@app.task(retries=0)
def many(count: int) -> list[int]:
    told("start")
    return list(range(count))


@app.task(retries=0)
def double(number: int) -> int:
    return number * 2


@app.task(retries=0)
def reduced(numbers: list[int]) -> int:
    return sum(numbers)


@app.dag
def wide(count: int) -> int:
    return reduced(double.map(many(count)))


WIDE_PARENTS = {"many": [], "double": ["many"], "reduced": ["double"]}
