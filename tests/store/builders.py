"""Small pieces that tests of the store are made of: jobs, workers, claims and endings."""

from collections.abc import Sequence
from datetime import timedelta
from itertools import count
from random import Random, SystemRandom
from typing import Any

from tickwork.core.hooks import Delivery, Hook
from tickwork.core.ids import IdMaker, JobId, WorkerId
from tickwork.core.job import AskingAttempt, AttemptState, Claimed, JobState, NewJob, Policy, TaskDefinition
from tickwork.core.outcome import Abandoned, Ending, Failed, Succeeded, Transition, decide
from tickwork.core.retry import RetryPolicy
from tickwork.store.attempt_types import Finish, NewLog, OpenAttempt
from tickwork.store.base import Store, WorkerRegistration

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
NOTHING = timedelta(0)
MICROSECOND = timedelta(microseconds=1)

_random = Random()
_ms = count(1_767_225_600_000)
_ids = IdMaker(lambda: next(_ms), SystemRandom().getrandbits)  # a forked test makes other ids
_numbers = count(1)


def an_id() -> JobId:
    return JobId(_ids.new_id())


def a_job(task: str = "t", **changes: Any) -> NewJob:
    """A job that is due at once, in the queue `default`."""
    return NewJob(**{"id": an_id(), "task": task, "args": b"[]", **changes})


def jobs(n: int, **changes: Any) -> list[NewJob]:
    return [a_job(**changes) for _ in range(n)]


def a_worker(name: str, tasks: Sequence[str] = ("t",)) -> WorkerRegistration:
    return WorkerRegistration(WorkerId(name), "host", 1, "1.0", ("default",), tuple(tasks), 10)


def a_definition(name: str = "t", **changes: Any) -> TaskDefinition:
    return TaskDefinition(
        **{"name": name, "queue": "default", "priority": 5, "policy": Policy(), "schema": b"{}", **changes}
    )


def register(store: Store, name: str = "", lease: timedelta = MINUTE) -> WorkerId:
    """Make a worker known, under a new name unless one is given."""
    worker = a_worker(name or f"worker-{next(_numbers)}")
    store.register_worker(worker, [], lease)
    return worker.id


def claim(
    store: Store,
    limit: int = 100,
    worker: WorkerId | None = None,
    queues: Sequence[str] = ("default",),
    tasks: Sequence[str] = ("t",),
    ahead: timedelta = NOTHING,
    lease: timedelta = MINUTE,
) -> list[Claimed]:
    """Claim with a worker of its own, unless one is given."""
    return store.claim_jobs(worker or register(store, lease=lease), queues, tasks, limit, ahead=ahead).jobs


def claim_one(store: Store, worker: WorkerId | None = None, **how: Any) -> Claimed:
    (claimed,) = claim(store, 1, worker, **how)
    return claimed


def insert_one(store: Store, job: NewJob | None = None, **changes: Any) -> JobId:
    (job_id,) = store.insert_jobs([job or a_job(**changes)])
    return job_id


def running(store: Store, worker: WorkerId | None = None, **changes: Any) -> Claimed:
    """A new job that a worker has claimed."""
    task = changes.setdefault("task", "t")
    job_id = insert_one(store, **changes)
    claimed = claim_one(store, worker, tasks=[task], queues=[changes.get("queue", "default")])
    assert claimed.job_id == job_id
    return claimed


def ending(attempt: Claimed | OpenAttempt, how: Ending) -> Finish:
    outcome = decide(attempt, how, _random)
    return Finish(attempt.job_id, attempt.attempt, attempt.claim, outcome, run=attempt.run, step=attempt.step)


def succeeded(claimed: Claimed, result: bytes = b"null") -> Finish:
    return ending(claimed, Succeeded(result))


def failed(claimed: Claimed, error: str = "it broke") -> Finish:
    """Failed for good."""
    return ending(claimed, Failed(error, fatal=True))


def again(claimed: Claimed, delay: timedelta = NOTHING, error: str | None = "it broke") -> Finish:
    """Failed, and to be tried again after `delay`."""
    failures = claimed.failures + 1
    outcome = Transition(
        AttemptState.FAILED, JobState.QUEUED, failures, claimed.crashes, delay, claimed.alone, error=error
    )
    return Finish(claimed.job_id, claimed.attempt, claimed.claim, outcome, run=claimed.run, step=claimed.step)


def abandoned(attempt: Claimed | OpenAttempt) -> Finish:
    return ending(attempt, Abandoned())


def ended(store: Store, finish: Any = succeeded, **changes: Any) -> JobId:
    """A job that ran once and ended."""
    claimed = running(store, **changes)
    assert store.finish_attempts([finish(claimed)]) == {claimed.job_id}
    return claimed.job_id


def reap(store: Store, limit: int = 100) -> set[JobId]:
    """Reclaim expired attempts as the reaper does in one tick."""
    return store.reclaim_attempts([abandoned(attempt) for attempt in store.expired_attempts(limit)])


def state_of(store: Store, job_id: JobId) -> JobState:
    return store.reads.get_jobs([job_id])[job_id].state


def states_of(store: Store, ids: Sequence[JobId]) -> list[JobState]:
    views = store.reads.get_jobs(ids)
    return [views[job_id].state for job_id in ids]


def log(claimed: Claimed, text: str, seq: int = 0) -> NewLog:
    return NewLog(claimed.job_id, claimed.claim, seq, text)


def asking(claimed: Claimed) -> AskingAttempt:
    """The attempt as its handler's enqueues name it."""
    return AskingAttempt(claimed.job_id, claimed.attempt, claimed.claim)


def with_retries(retries: int) -> Policy:
    return Policy(retry=RetryPolicy(retries=retries))


def a_hook(name: str = "pushed", **given: object) -> Hook:
    return Hook(**{"name": name, "style": "github", "secret": "GITHUB", "target": "build", **given})  # type: ignore[arg-type]


def a_delivery(hook: str = "pushed", **given: object) -> Delivery:
    what = {"id": an_id(), "hook": hook, "is_genuine": True, "outcome": "accepted", "size": 12}
    return Delivery(**{**what, **given})  # type: ignore[arg-type]
