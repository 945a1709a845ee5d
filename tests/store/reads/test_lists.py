"""Reading: jobs by id and by filter, page by page, and what stands in the queues."""

from datetime import UTC

import pytest

from tests.store.builders import (
    HOUR,
    MINUTE,
    SECOND,
    a_job,
    an_id,
    claim_one,
    ended,
    failed,
    insert_one,
    jobs,
    running,
)
from tickwork.core.ids import JobId
from tickwork.core.job import JobFilter, JobState, Policy
from tickwork.errors import InvalidInput
from tickwork.store.base import Store
from tickwork.testing import VirtualClock


def listed(store: Store, limit: int = 100, before: JobId | None = None, **which: object) -> list[JobId]:
    return [view.id for view in store.reads.list_jobs(JobFilter(**which), limit, before)]  # type: ignore[arg-type]


def test_only_jobs_that_exist_are_found(store: Store) -> None:
    ids = store.insert_jobs(jobs(3))
    assert set(store.reads.get_jobs([*ids, an_id(), JobId("not an id"), JobId(ids[0].upper())])) == set(ids)
    assert store.reads.get_jobs([]) == {}


def test_jobs_are_listed_the_newest_first_page_by_page(store: Store) -> None:
    ids = store.insert_jobs(jobs(25))
    pages, before = [], None
    while page := listed(store, 10, before):
        pages.append(page)
        before = page[-1]
    assert [len(page) for page in pages] == [10, 10, 5]
    assert [job_id for page in pages for job_id in page] == sorted(ids, reverse=True)


def test_jobs_that_come_meanwhile_do_not_shift_the_pages(store: Store) -> None:
    ids = store.insert_jobs(jobs(4))
    first = listed(store, 2)
    store.insert_jobs(jobs(3))
    assert listed(store, 2, first[-1]) == sorted(ids[:2], reverse=True)


def test_a_cursor_that_is_none_is_refused(store: Store) -> None:
    with pytest.raises(InvalidInput, match="next_cursor"):
        listed(store, before=JobId("page two"))


@pytest.mark.parametrize(
    "which",
    [
        {"task": "other"},
        {"queue": "other"},
        {"key": "other"},
        {"collection": "other"},
        {"label": "other"},
        {"label": 'with "quotes"'},
        {"parent": "other"},
    ],
)
def test_a_filter_restricts_to_what_it_names(store: Store, which: dict[str, str]) -> None:
    ((name, value),) = which.items()
    changes = {"labels": ("some", value)} if name == "label" else {name: value}
    wanted = insert_one(store, **changes)
    insert_one(store, task="some", queue="some", key="some", collection="some", labels=("some",), parent="some")
    assert listed(store, **which) == [wanted]
    assert listed(store, **{name: "nothing"}) == []


def test_a_filter_by_state_finds_jobs_wherever_they_stand(store: Store, clock: VirtualClock) -> None:
    expired = insert_one(store, policy=Policy(expires=SECOND))
    clock.advance(MINUTE)
    store.expire_jobs(10)
    wanted = {JobState.EXPIRED: expired}
    wanted[JobState.SUCCEEDED] = ended(store)
    wanted[JobState.FAILED] = ended(store, failed)
    wanted[JobState.RUNNING] = running(store).job_id
    wanted[JobState.CANCELLED] = insert_one(store, queue="q")
    store.cancel_jobs([wanted[JobState.CANCELLED]])
    wanted[JobState.QUEUED] = insert_one(store)
    for state in JobState:
        assert listed(store, state=state) == ([wanted[state]] if state in wanted else []), state


def test_filters_hold_together(store: Store) -> None:
    ids = store.insert_jobs([a_job(queue=queue, collection=c) for queue in "ab" for c in "xy"])
    assert listed(store, queue="a", collection="y", state=JobState.QUEUED) == [ids[1]]
    assert listed(store, ids=(ids[0], ids[3], an_id(), JobId("not an id")), queue="b") == [ids[3]]
    assert listed(store, ids=()) == []


def test_filters_take_their_values_literally(store: Store) -> None:
    for value in ["x' OR '1'='1", "%", "{task}", "%(task)s", ":task", 'a"b']:
        wanted = insert_one(store, task=value)
        assert listed(store, task=value) == [wanted]


def test_dead_letters_are_listed_page_by_page(store: Store) -> None:
    dead = [ended(store, failed) for _ in range(5)]
    ended(store)
    first = listed(store, 3, dead=True)
    assert first + listed(store, 3, first[-1], dead=True) == sorted(dead, reverse=True)


def test_queues_say_what_stands_in_them(store: Store, clock: VirtualClock) -> None:
    assert store.reads.queues() == []
    store.insert_jobs([a_job(queue="b"), a_job(queue="b", delay=HOUR)])
    oldest = clock.now()
    clock.advance(SECOND)
    store.insert_jobs([a_job(queue="b"), a_job(queue="a", delay=HOUR), a_job(queue="c")])
    claim_one(store, queues=["c"])
    a, b, c = store.reads.queues()
    assert (a.name, a.due, a.later, a.running, a.oldest_due_at) == ("a", 0, 1, 0, None)
    assert (b.name, b.due, b.later, b.running, b.oldest_due_at) == ("b", 2, 1, 0, oldest)
    assert (c.name, c.due, c.later, c.running, c.oldest_due_at) == ("c", 0, 0, 1, None)


def test_an_unknown_job_has_no_tries(store: Store) -> None:
    assert store.reads.attempts(an_id()) == store.reads.attempts(JobId("not an id")) == []


def test_times_are_utc_by_the_stores_clock(store: Store, clock: VirtualClock) -> None:
    assert store.now() == clock.now()
    assert store.now().tzinfo is UTC
    view = store.reads.get_jobs([insert_one(store)])
    assert all(one.created_at.tzinfo is UTC for one in view.values())
