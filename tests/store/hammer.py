"""Many at once on one store: enqueue, claim, finish and reclaim until everything is done, noting who did what.

`main` is one process of several.
"""

import random
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.store.builders import MINUTE, NOTHING, a_job, again, claim, register, succeeded
from tickwork.clock import SystemClock
from tickwork.core.ids import IdMaker, JobId
from tickwork.core.job import Claimed
from tickwork.store.base import Store
from tickwork.store.postgres import PostgresStore
from tickwork.store.sqlite import SqliteStore


@dataclass
class Witness:
    """Reports of the threads: the attempts that they claimed, and the ends that the store accepted."""

    inserted: list[JobId] = field(default_factory=list)
    claimed: list[tuple[JobId, int]] = field(default_factory=list)
    succeeded: list[JobId] = field(default_factory=list)
    problems: list[BaseException] = field(default_factory=list)

    def check(self) -> None:
        assert self.problems == []
        assert [one for one, times in Counter(self.claimed).items() if times > 1] == [], "an attempt was given twice"
        assert sorted(self.succeeded) == sorted(self.inserted), "each job ends well once"


def hammer(store: Store, name: str, threads: int, jobs_each: int) -> Witness:
    """Let threads put in their own jobs and take whatever is there, until all of this queue is done."""
    witness = Witness()

    def work(number: int) -> None:
        try:
            _hammer_one(store, name, jobs_each, witness, random.Random(number))
        except BaseException as problem:
            witness.problems.append(problem)

    crowd = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for one in crowd:
        one.start()
    for one in crowd:
        one.join(50)
    return witness


def _hammer_one(store: Store, name: str, count: int, witness: Witness, rng: random.Random) -> None:
    clock = SystemClock()
    ids = IdMaker(lambda: clock.wall_us() // 1000, random.SystemRandom().getrandbits)
    worker = register(store, f"{name}-{ids.new_id()}", MINUTE)
    idle = 0
    while count or idle < 5:
        batch = [a_job(id=JobId(ids.new_id()), queue=name) for _ in range(min(count, rng.randint(1, 8)))]
        count -= len(batch)
        witness.inserted += store.insert_jobs(batch)
        taken = claim(store, rng.randint(1, 10), worker, queues=[name])
        witness.claimed += [(one.job_id, one.attempt) for one in taken]
        witness.succeeded += _finish(store, taken, rng)
        idle = 0 if taken else idle + 1


def _finish(store: Store, taken: list[Claimed], rng: random.Random) -> list[JobId]:
    """End most jobs well; some are tried again, and each ending is sent twice now and then, as after a lost reply."""
    good = [one for one in taken if rng.random() < 0.8]
    bad = [one for one in taken if one not in good]
    endings = [succeeded(one) for one in good] + [again(one, NOTHING) for one in bad]
    accepted = store.finish_attempts(endings)
    assert accepted == {one.job_id for one in taken}
    if rng.random() < 0.3:
        assert store.finish_attempts(endings) == set()
    return [one.job_id for one in good]


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """Run calls in as many threads, begun at the same moment; return what they gave."""
    barrier = threading.Barrier(len(calls))
    results: list[Any] = [None] * len(calls)

    def run(n: int, call: Callable[[], Any]) -> None:
        barrier.wait()
        results[n] = call()

    crowd = [threading.Thread(target=run, args=(n, call)) for n, call in enumerate(calls)]
    for one in crowd:
        one.start()
    for one in crowd:
        one.join(30)
    return results


def main(url: str, how: str, name: str, count: str) -> None:
    """`how` to open the store: the schema in PostgreSQL, the driver for SQLite."""
    store: Store = PostgresStore(url, schema=how) if "://" in url else SqliteStore(url, driver=how)
    witness = hammer(store, name, 2, int(count) // 2)
    witness.check()
    store.close()
    print(len(witness.succeeded), "done")
