"""Claim jobs and finish them as a worker would, for tests of REST."""

from datetime import timedelta
from random import Random
from typing import Any

from tickwork import Tickwork
from tickwork.core.ids import WorkerId
from tickwork.core.job import Claimed
from tickwork.core.outcome import Failed, Succeeded, decide
from tickwork.http.remote.long_poll import LongPolls
from tickwork.store.attempt_types import Finish, NewLog
from tickwork.store.base import WorkerRegistration

WORKER = WorkerId("tests")


def register(app: Tickwork, *tasks: str, queues: tuple[str, ...] = ("default",)) -> WorkerId:
    worker = WorkerRegistration(WORKER, "host", 1, "1", queues, tasks, 10)
    app.store.register_worker(worker, [], timedelta(minutes=5))
    return worker.id


def claimed(app: Tickwork, task: str = "mail", queue: str = "default", limit: int = 100) -> list[Claimed]:
    """Claim what is due."""
    return app.store.claim_jobs(register(app, task), [queue], [task], limit).jobs


def succeed(app: Tickwork, one: Claimed, result: bytes = b"null", logs: tuple[str, ...] = ()) -> None:
    _end(app, one, Succeeded(result), logs)


def fail(app: Tickwork, one: Claimed, error: str = "Traceback:\nValueError: no") -> None:
    _end(app, one, Failed(error, fatal=True), ())


def _end(app: Tickwork, one: Claimed, how: Any, logs: tuple[str, ...]) -> None:
    outcome = decide(one, how, Random(1))
    words = [NewLog(one.job_id, one.claim, seq, text) for seq, text in enumerate(logs)]
    assert app.store.finish_attempts(
        [Finish(one.job_id, one.attempt, one.claim, outcome, run=one.run, step=one.step)], words
    ) == {one.job_id}


def open_polls(long_polls: LongPolls) -> int:
    """Return how many requests wait for work."""
    return sum(len(group.polls) for group in long_polls._groups.values())  # no public count: only tests need it
