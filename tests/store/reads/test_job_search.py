"""Finding: every filter and any words, page by page and at a bounded cost; and counts that end somewhere."""

from collections import Counter
from datetime import datetime
from itertools import pairwise

import pytest

from tests.store.builders import (
    HOUR,
    SECOND,
    a_job,
    again,
    an_id,
    ended,
    failed,
    insert_one,
    jobs,
    register,
    running,
)
from tests.store.claim.limits_helpers import limited, take
from tickwork.core.ids import JobId, WorkerId, created_at
from tickwork.core.job import JobFilter, JobState, JobView, QueuedReason
from tickwork.core.limits.job_limits import JobLimits
from tickwork.core.limits.limits import concurrency
from tickwork.errors import InvalidInput
from tickwork.store.base import Store
from tickwork.store.postgres.reads import read_verbs as postgres_reads
from tickwork.store.reads import job_search, queue_counts
from tickwork.store.reads.job_search import StateCount
from tickwork.store.sqlite.reads import read_verbs as sqlite_reads
from tickwork.testing import VirtualClock


def found(store: Store, limit: int = 100, **which: object) -> list[list[JobId]]:
    """Every page of a list, to its end."""
    pages, before = [], None
    while True:
        page = store.reads.find_jobs(JobFilter(**which), limit, before)  # type: ignore[arg-type]
        pages.append([view.id for view in page.jobs])
        if page.next is None:
            return pages
        assert before is None or page.next < before, "a page leads further"
        before = page.next


def flat(pages: list[list[JobId]]) -> list[JobId]:
    return [job_id for page in pages for job_id in page]


@pytest.fixture(params=[10_000, 3])
def walk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """As many as a page may walk, and so few that every page ends early."""
    for name in ("WALK", "SCATTERED", "ERRORS"):
        monkeypatch.setattr(job_search, name, request.param)
    return int(request.param)


FILTERS: list[dict[str, object]] = [
    {},
    {"task": "other"},
    {"queue": "other"},
    {"label": "other"},
    {"collection": "other"},
    {"parent": "other"},
    {"key": "other"},
    {"dead": True},
    {"runs": True},
    *({"state": state} for state in (JobState.QUEUED, JobState.RUNNING, JobState.SUCCEEDED, JobState.FAILED)),
    *({"state": state, "task": "other"} for state in (JobState.QUEUED, JobState.RUNNING, JobState.SUCCEEDED)),
    *({"state": state, "queue": "other"} for state in (JobState.QUEUED, JobState.RUNNING, JobState.FAILED)),
    {"state": JobState.FAILED, "collection": "other", "label": "other"},
    {"state": JobState.CANCELLED, "key": "other"},
    {"dead": True, "task": "other"},
    {"dead": True, "state": JobState.QUEUED},
    {"dead": True, "waits": QueuedReason.RETRYING},
    *({"waits": waits} for waits in QueuedReason),
    *({"waits": waits, "task": "other"} for waits in QueuedReason),
    *({"waits": waits, "queue": "other"} for waits in QueuedReason),
    *({"waits": waits, "label": "other"} for waits in QueuedReason),
    {"tasks": "oth"},
    {"tasks": "oth", "state": JobState.FAILED},
    {"tenant": "other"},
    {"tenant": "other", "state": JobState.QUEUED},
    {"error": "OTHER broke"},
    {"error": "other", "waits": QueuedReason.RETRYING},
    {"error": "other", "state": JobState.FAILED, "task": "other"},
    {"worker": "other"},
    {"worker": "other", "state": JobState.RUNNING},
]


def is_meant(view: JobView, which: dict[str, object], errors: dict[JobId, str | None], now: datetime) -> bool:
    """A second implementation of a filter."""
    wanted = {**which}
    waits, tasks, error = wanted.pop("waits", None), str(wanted.pop("tasks", "")), wanted.pop("error", None)
    if wanted.pop("dead", False) and (view.state is not JobState.FAILED or view.discarded):
        return False
    if waits is not None and (view.state is not JobState.QUEUED or waits is not _waits(view, now)):
        return False
    if error is not None and str(error).lower() not in (errors[view.id] or "").lower():
        return False
    of_job_limits = None if view.job_limits is None else view.job_limits.tenant
    is_run, label, tenant = wanted.pop("runs", None), wanted.pop("label", None), wanted.pop("tenant", None)
    return (
        view.task.startswith(tasks)
        and (is_run is None or view.version is not None)
        and (label is None or label in view.labels)
        and (tenant is None or tenant == of_job_limits)
        and all(getattr(view, name) == value for name, value in wanted.items())
    )


def _word(view: JobView, now: datetime) -> str:
    return _waits(view, now) if view.state is JobState.QUEUED else view.state


def _waits(view: JobView, now: datetime) -> QueuedReason:
    if view.failures:
        return QueuedReason.RETRYING
    return QueuedReason.DUE if view.run_at <= now else QueuedReason.DELAYED


def fill(store: Store) -> dict[JobId, str | None]:
    """Jobs of all kinds, some of them and some others; returns the last error of each."""
    for name in ("some", "other"):
        register(store, name)
    for number in range(4):
        for name in ("some", "other"):
            about = {"task": name, "queue": name, "collection": name, "labels": (name,), "parent": name}
            worker = WorkerId(name)
            ended(store, worker=worker, **about)
            ended(store, lambda one, name=name: failed(one, f"{name} broke"), worker=worker, **about)
            running(store, worker, **about)
            store.finish_attempts([again(running(store, worker, **about), HOUR, f"{name} broke")])
            late = a_job(**about, delay=HOUR), a_job(**about, delay=HOUR, key=name if number == 0 else None)
            store.insert_jobs([*late, a_job(**about, delay=HOUR, job_limits=JobLimits(tenant=name))])
    for name in ("some", "other"):
        about = {"task": name, "queue": name, "labels": (name,)}
        store.finish_attempts([again(running(store, WorkerId(name), **about), error=f"{name} broke")])
        store.insert_jobs([a_job(**about), a_job(**about, job_limits=JobLimits(tenant=name))])
    store.cancel_jobs([view.id for view in store.reads.list_jobs(JobFilter(key="other"), 10)])
    return {view.id: _last_error(store, view) for view in store.reads.list_jobs(JobFilter(), 1000)}


def _last_error(store: Store, view: JobView) -> str | None:
    tried = store.reads.attempts(view.id)
    return view.error or (tried[-1].error if tried and view.state is JobState.QUEUED else None)


def test_what_is_found_and_counted_is_what_is_meant_however_short_the_pages(
    store: Store, clock: VirtualClock, walk: int
) -> None:
    errors = fill(store)
    views = store.reads.list_jobs(JobFilter(), 1000)
    for which in FILTERS:
        meant = [view for view in views if is_meant(view, which, errors, clock.now())]
        wanted = [view.id for view in meant]
        assert wanted or which.get("runs") or "dead" in which
        assert [view.id for view in store.reads.list_jobs(JobFilter(**which), 1000)] == wanted  # type: ignore[arg-type]
        pages = found(store, 2, **which)
        assert flat(pages) == wanted, which
        assert max(map(len, pages)) <= 2
        there = Counter(_word(view, clock.now()) for view in meant)
        counted = store.reads.count_jobs(JobFilter(**which), 1000)  # type: ignore[arg-type]
        assert set(there) <= {one.state for one in counted}
        for one in counted:
            assert one.count == there[one.state] or (one.is_bounded and one.count < there[one.state]), which
            assert not (walk > 1000 and one.is_bounded)


def test_counting_ends_somewhere(store: Store) -> None:
    store.insert_jobs([*jobs(5), *jobs(5, delay=HOUR)])
    found = {one.state: one for one in store.reads.count_jobs(JobFilter(), 3)}
    assert (found[QueuedReason.DUE].count + found[QueuedReason.DELAYED].count, found[QueuedReason.DUE].is_bounded) == (
        3,
        True,
    )
    assert found[JobState.FAILED] == StateCount(JobState.FAILED, 0, False)


def test_queues_are_known_by_the_jobs_that_wait_in_them(store: Store) -> None:
    store.insert_jobs(
        [a_job(queue="b"), a_job(queue="a", delay=HOUR), a_job(queue="c", job_limits=JobLimits(tenant="x"))]
    )
    assert sorted(store.reads.queue_names()) == ["a", "b", "c"]


def test_a_page_that_finds_nothing_within_its_walk_leads_on(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_search, "WALK", 5)
    wanted = insert_one(store, labels=("rare",))
    store.insert_jobs(jobs(20))
    pages = found(store, label="rare")
    assert pages[0] == []
    assert flat(pages) == [wanted]


def test_the_way_that_ends_first_is_gone(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are few of the task and many that are queued, and the other way round."""
    monkeypatch.setattr(job_search, "WALK", 5)
    rare = insert_one(store, task="rare")
    store.insert_jobs(jobs(20))
    assert found(store, task="rare", state=JobState.QUEUED) == [[rare]]
    assert found(store, task="t", state=JobState.RUNNING) == [[]]


def test_the_few_of_a_queue_are_found_at_once_beside_many_of_others(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_search, "WALK", 5)
    store.limits.declare_limits({"two": concurrency(1)})
    held = store.insert_jobs([limited(), limited()])
    take(store, register(store))
    plain = insert_one(store, queue="rare", delay=HOUR)
    store.insert_jobs(jobs(20, queue="other"))
    assert found(store, queue="rare", state=JobState.QUEUED) == [[plain]]
    assert found(store, queue="default", state=JobState.QUEUED) == [[held[1]]]


def test_jobs_are_found_by_when_they_were_made(store: Store) -> None:
    ids = store.insert_jobs(jobs(10))
    since, until = created_at(ids[3]), created_at(ids[7])
    assert flat(found(store, since=since, until=until)) == ids[6:2:-1]
    assert flat(found(store, since=since, state=JobState.QUEUED)) == ids[:2:-1]
    assert found(store, 100, since=since, task="t") == [ids[:2:-1]]
    assert [view.id for view in store.reads.list_jobs(JobFilter(until=until, task="t"), 100)] == ids[6::-1]


def test_an_instant_before_all_times_or_after_them_is_no_trouble(store: Store) -> None:
    job_id = insert_one(store)
    early, late = created_at(an_id()).replace(year=1), created_at(an_id()).replace(year=9999)
    assert flat(found(store, since=early, until=late)) == [job_id]
    assert flat(found(store, since=late)) == []


def test_what_is_no_id_is_no_run(store: Store) -> None:
    insert_one(store)
    assert flat(found(store, run="nothing")) == flat(found(store, run=an_id())) == []


def test_a_place_that_is_none_is_refused(store: Store) -> None:
    for look in (
        lambda: store.reads.find_jobs(JobFilter(), 10, JobId("x")),
        lambda: store.reads.search_jobs("x", 10, JobId("x")),
    ):
        with pytest.raises(InvalidInput, match="next_cursor"):
            look()


def test_dead_letters_are_found_with_what_they_failed_with(store: Store, walk: int) -> None:
    dead = [ended(store, lambda one: failed(one, "no")) for _ in range(5)]
    ended(store)
    store.discard_jobs(dead[:1])
    ids, before = [], None
    while True:
        page = store.reads.find_failures(JobFilter(task="t"), 2, before)
        assert {(one.task, one.error, one.ended_at) for one in page.failures} <= {("t", "no", store.now())}
        ids += [one.id for one in page.failures]
        before = page.next
        if before is None:
            break
    assert ids == dead[:0:-1]


# -- words


def searched(store: Store, text: str, limit: int = 100) -> list[JobId]:
    hits: list[JobId] = []
    before = None
    while True:
        page = store.reads.search_jobs(text, limit, before)
        assert len(page.ids) <= limit
        hits += page.ids
        if page.next is None:
            return hits
        before = page.next


def test_words_are_found_at_the_beginning_of_tasks_and_keys_and_anywhere_in_errors(store: Store, walk: int) -> None:
    by_task = insert_one(store, task="mail.send")
    by_key = insert_one(store, key="mail-7", delay=HOUR)
    by_error = ended(store, lambda one: failed(one, "ValueError: no MAIL today"))
    store.insert_jobs([a_job(task="e-mail"), a_job(key="e-mail", delay=HOUR)])
    ended(store, lambda one: failed(one, "another"))
    assert searched(store, "mail") == [by_error, by_key, by_task]
    assert searched(store, "mail", 1) == [by_error, by_key, by_task]
    assert searched(store, "nothing") == []
    assert searched(store, by_key) == [by_key]


def test_words_are_taken_as_they_are(store: Store) -> None:
    percent = ended(store, lambda one: failed(one, r"100% of a_b\c"))
    ended(store, lambda one: failed(one, "100 of axb"))
    for text in ("100%", "a_b", r"b\c", "% of"):
        assert searched(store, text) == [percent], text


def test_a_search_that_begins_too_many_names_says_that_it_is_partial(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.insert_jobs([a_job(task=f"task-{number}") for number in range(5)])
    store.insert_jobs([a_job(key=f"key-{number}") for number in range(5)])
    assert not store.reads.search_jobs("task", 10).is_partial
    monkeypatch.setattr(job_search, "NAMES", 3)
    monkeypatch.setattr(job_search, "KEYS", 3)
    assert store.reads.search_jobs("task", 10).is_partial
    assert store.reads.search_jobs("key", 10).is_partial
    assert not store.reads.search_jobs("task-1", 10).is_partial


# -- counts


def test_what_did_not_succeed_lately_is_found_the_latest_first(store: Store, clock: VirtualClock) -> None:
    ended(store, failed)
    clock.advance(HOUR)
    since = clock.now() - SECOND
    ended(store)
    first = ended(store, lambda one: failed(one, "first\n" + "x" * 2000 + "\nValueError: no"), queue="q")
    store.discard_jobs([first])
    clock.advance(SECOND)
    second = ended(store, failed, task="u")
    clock.advance(SECOND)
    (third,) = store.cancel_jobs([insert_one(store)])
    found = store.reads.failed_lately(since, 10)
    assert [(one.id, one.task, one.queue, one.state, one.is_dead) for one in found] == [
        (third, "t", "default", "cancelled", False),
        (second, "u", "default", "failed", True),
        (first, "t", "q", "failed", False),
    ]
    assert found[2].error is not None
    assert len(found[2].error) == 1000
    assert found[2].error.endswith("ValueError: no")
    assert [one.id for one in store.reads.failed_lately(since, 2)] == [third, second]


def test_attempts_after_which_a_job_is_tried_again_are_found(store: Store, clock: VirtualClock) -> None:
    since = clock.now()
    clock.advance(SECOND)
    one = running(store)
    store.finish_attempts([again(one)])
    clock.advance(SECOND)
    ended(store, worker=register(store), task="u")
    assert [(found.id, found.state, found.error) for found in store.reads.retried_lately(since, 10)] == [
        (one.job_id, "failed", "it broke")
    ]
    assert store.reads.retried_lately(clock.now(), 10) == []


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> int:
    for module in (sqlite_reads, postgres_reads, queue_counts):
        monkeypatch.setattr(module, "COUNTED", 5)
    return 5


def test_counts_of_queues_end_somewhere_and_say_so(store: Store, counted: int) -> None:
    store.insert_jobs([*jobs(4), *jobs(2, priority=1), *jobs(3, queue="few"), *jobs(7, queue="later", delay=HOUR)])
    default, few, later = store.reads.queues()
    assert (default.due, default.later, default.at_least) == (counted, 0, ("due",))
    assert (few.due, few.at_least) == (3, ())
    assert (later.due, later.later, later.at_least) == (0, counted, ("later",))


def test_counts_of_what_limits_concern_end_somewhere_and_say_so(store: Store, counted: int) -> None:
    store.limits.declare_limits({"two": concurrency(1)})
    store.insert_jobs([limited() for _ in range(9)])
    (before,) = store.reads.queues()
    assert (before.due, before.at_least) == (counted, ("due", "later"))
    take(store, register(store))
    (after,) = store.reads.queues()
    assert (after.due, after.held, after.running, after.at_least) == (0, counted, 1, ("held",))


def test_every_name_of_a_queue_is_found_whatever_stands_between_them(store: Store) -> None:
    store.limits.declare_limits({"two": concurrency(1)})
    names = ["a", "a-b", "a.b", "aa", "b", "0", "~", "Z"]
    store.insert_jobs([a_job(queue=name) for name in names])
    store.insert_jobs([limited(queue=name) for name in names for _ in range(2)])
    found = {view.name: view.due for view in store.reads.queues()}
    assert found == dict.fromkeys(names, 3)
    assert all(one.name < other.name for one, other in pairwise(store.reads.queues()))
