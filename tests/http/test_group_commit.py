"""Enqueues that come together share commits; each has a response of its own, and none waits for others to come."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from starlette.testclient import TestClient

from tests.waiting import eventually
from tickwork import Tickwork
from tickwork.api.client import Client, Job
from tickwork.core.job import NewJob
from tickwork.errors import InvalidInput, StoreUnreachable
from tickwork.http.group_commit import GroupCommit

Before = Callable[[Sequence[NewJob]], None]


class Watched(Client):
    """A client that something is done before: it may wait, or raise."""

    def __init__(self, app: Tickwork, before: Before) -> None:
        super().__init__(app.store, app.decode_result, app.registrations)
        self._before = before

    def enqueue(self, jobs: Sequence[NewJob], tx: object = None) -> list[Job]:
        self._before(jobs)
        return super().enqueue(jobs, tx)


def new_jobs(app: Tickwork, count: int, **options: object) -> list[NewJob]:
    return [app.named("mail").options(**options).new_job((), {"n": n}) for n in range(count)]


def waiting(group_commit: GroupCommit) -> int:
    """Return how many calls wait for the next commit."""
    return len(group_commit._waiting)  # no public count: only tests need it


def test_those_that_come_while_a_commit_runs_go_with_the_next(app: Tickwork) -> None:
    sizes: list[int] = []
    first, go_on = threading.Event(), threading.Event()

    def before(jobs: Sequence[NewJob]) -> None:
        sizes.append(len(jobs))
        if len(sizes) == 1:
            first.set()
            assert go_on.wait(10)

    group_commit, jobs = GroupCommit(Watched(app, before)), new_jobs(app, 30)
    with ThreadPoolExecutor(30) as pool:
        leader = pool.submit(group_commit.insert, jobs[0])
        assert first.wait(10)
        others = [pool.submit(group_commit.insert, job) for job in jobs[1:]]
        eventually(lambda: waiting(group_commit) == 29)
        go_on.set()
        assert [one.result(10).id for one in (leader, *others)] == [job.id for job in jobs]
    assert sizes == [1, 29]


def test_one_that_is_refused_does_not_keep_the_others_from_being_stored(app: Tickwork) -> None:
    def before(jobs: Sequence[NewJob]) -> None:
        if any(job.queue == "bad" for job in jobs):
            raise InvalidInput("no")

    group_commit = GroupCommit(Watched(app, before))
    good, bad = new_jobs(app, 20), new_jobs(app, 3, queue="bad")
    with ThreadPoolExecutor(23) as pool:
        stored = [pool.submit(group_commit.insert, job) for job in good]
        refused = [pool.submit(group_commit.insert, job) for job in bad]
        assert [one.result(10).id for one in stored] == [job.id for job in good]
        for one in refused:
            with pytest.raises(InvalidInput):
                one.result(10)


@pytest.mark.parametrize("error", [StoreUnreachable("away"), RuntimeError("a fault")])
def test_all_of_a_batch_hear_of_what_went_wrong(app: Tickwork, error: Exception) -> None:
    sizes: list[int] = []
    first, go_on = threading.Event(), threading.Event()

    def before(jobs: Sequence[NewJob]) -> None:
        sizes.append(len(jobs))
        if len(sizes) > 1:
            raise error
        first.set()
        assert go_on.wait(10)

    group_commit, jobs = GroupCommit(Watched(app, before)), new_jobs(app, 11)
    with ThreadPoolExecutor(11) as pool:
        pool.submit(group_commit.insert, jobs[0])
        assert first.wait(10)
        others = [pool.submit(group_commit.insert, job) for job in jobs[1:]]
        eventually(lambda: waiting(group_commit) == 10)
        go_on.set()
        assert [one.exception(10) for one in others] == [error] * 10
    is_away = isinstance(error, StoreUnreachable)
    assert sizes == ([1, 10] if is_away else [1, 10, *[1] * 10]), "nobody asks ten times a database that is away"


def test_after_a_failure_another_call_leads(app: Tickwork) -> None:
    errors = [StoreUnreachable("away")]

    def before(jobs: Sequence[NewJob]) -> None:
        if errors:
            raise errors.pop()

    group_commit = GroupCommit(Watched(app, before))
    first, second = new_jobs(app, 2)
    with pytest.raises(StoreUnreachable):
        group_commit.insert(first)
    assert group_commit.insert(second).id == second.id


def test_many_requests_at_once_are_all_answered_with_their_own_jobs(app: Tickwork, admin: TestClient) -> None:
    def post(n: int) -> tuple[int, int]:
        answer = admin.post("/api/v1/jobs", json={"task": "mail", "args": {"n": n}, "key": f"key-{n % 40}"})
        return answer.status_code, answer.json()["args"]["n"] % 40 == n % 40

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(post, range(80)))
    assert all(same for _, same in answers)
    assert sorted(status for status, _ in answers) == [200] * 40 + [201] * 40
