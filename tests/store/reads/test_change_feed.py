"""The change feed reports every change of jobs, repeatedly while it is recent, and then no more."""

from datetime import datetime, timedelta
from random import SystemRandom

from tests.store.builders import (
    HOUR,
    MINUTE,
    SECOND,
    a_definition,
    a_hook,
    a_job,
    a_worker,
    again,
    an_id,
    claim_one,
    ended,
    failed,
    insert_one,
    jobs,
    register,
    running,
    succeeded,
)
from tests.store.runs.dag_builders import a_graph, a_step, begin_run
from tickwork.core.bulk_operation import BulkAction, BulkChange
from tickwork.core.ids import IdMaker, JobId, created_at
from tickwork.core.job import JobFilter
from tickwork.core.limits.gates import Gate
from tickwork.core.limits.limits import concurrency
from tickwork.core.recurrence.interval import every
from tickwork.core.schedule.spec import new_spec
from tickwork.store.admin.audit import AuditRow as Audited
from tickwork.store.attempt_types import Progress
from tickwork.store.base import Store
from tickwork.store.reads.change_feed import TOPICS, JobChange
from tickwork.testing import VirtualClock


def told(store: Store, since: datetime, most: int = 100) -> dict[str, list[JobId]]:
    """The jobs that are told, by what happened to them."""
    found: dict[str, list[JobId]] = {}
    for one in store.reads.happenings(since, most).happenings:
        found.setdefault(one.kind, []).append(one.job_id)
    return found


def one_of(store: Store, since: datetime, kind: str) -> JobChange:
    (found,) = [one for one in store.reads.happenings(since, 100).happenings if one.kind == kind]
    return found


def test_what_was_made_is_told_by_its_id(store: Store, clock: VirtualClock) -> None:
    first, second = insert_one(store, delay=HOUR), insert_one(store, delay=HOUR)
    clock.advance(created_at(second) - clock.now() + SECOND)
    assert told(store, created_at(first)) == {"created": [second, first]}
    assert told(store, created_at(second)) == {"created": [second]}
    assert told(store, created_at(second) + SECOND) == {}


def test_an_id_that_a_fast_clock_made_is_told_once_its_time_has_come(store: Store, clock: VirtualClock) -> None:
    made_ms = int((clock.now() + MINUTE).timestamp() * 1000)
    job_id = insert_one(store, id=IdMaker(lambda: made_ms, SystemRandom().getrandbits).new_id())
    assert told(store, clock.now()) == {}
    clock.advance(MINUTE)
    assert told(store, clock.now() - SECOND) == {"created": [job_id]}


def test_a_start_an_end_and_a_failure_are_told_for_as_long_as_is_asked(store: Store, clock: VirtualClock) -> None:
    clock.advance(HOUR)  # away from the instants of the ids
    began = clock.now()
    runs = running(store)
    assert told(store, began) == {"running": [runs.job_id]}
    assert one_of(store, began, "running").began
    clock.advance(SECOND)
    assert told(store, clock.now()) == {}
    store.finish_attempts([succeeded(runs)])
    at = clock.now()
    bad = ended(store, failed)
    assert {kind: set(ids) for kind, ids in told(store, at).items()} == {"ended": {runs.job_id, bad}, "failed": {bad}}
    assert [one.began for one in store.reads.happenings(at, 100).happenings if one.job_id == runs.job_id] == [False]
    assert [one.began for one in store.reads.happenings(began, 100).happenings if one.job_id == runs.job_id] == [True]
    assert told(store, at + timedelta(microseconds=1)) == {}


def test_a_job_that_is_tried_again_is_told(store: Store, clock: VirtualClock) -> None:
    clock.advance(HOUR)
    at, one = clock.now(), running(store)
    store.finish_attempts([again(one, MINUTE)])
    assert told(store, at) == {"returned": [one.job_id]}


def test_an_end_without_a_start_is_told(store: Store, clock: VirtualClock) -> None:
    clock.advance(HOUR)
    job_id = insert_one(store)
    store.cancel_jobs([job_id])
    found = one_of(store, clock.now(), "ended")
    assert (found.job_id, found.began, found.attempt) == (job_id, False, 0)


def test_reports_and_orders_to_stop_are_told_each_once(store: Store, clock: VirtualClock) -> None:
    one = running(store)
    clock.advance(HOUR)
    seen: set[object] = set()

    def new() -> int:
        keys = {key for found in store.reads.happenings(clock.now(), 100).happenings for key in found.keys}
        count = len(keys - seen)
        seen.update(keys)
        return count

    assert new() == 0
    for progress in (Progress(one.job_id, one.claim, 0.5, None), Progress(one.job_id, one.claim, 0.5, "half")):
        store.set_progress([progress])
        assert (new(), new()) == (1, 0)
    store.cancel_jobs([one.job_id])
    assert (new(), new()) == (1, 0)


def test_keys_tell_the_same_from_what_is_new(store: Store, clock: VirtualClock) -> None:
    clock.advance(HOUR)
    at = clock.now()
    bad = ended(store, failed)
    first = {key for one in store.reads.happenings(at, 100).happenings for key in one.keys}
    assert len(first) == 2, "it began, and it ended"
    clock.advance(SECOND)
    assert {key for one in store.reads.happenings(at, 100).happenings for key in one.keys} == first
    store.retry_jobs([bad])
    store.finish_attempts([failed(claim_one(store))])
    second = {key for one in store.reads.happenings(at, 100).happenings for key in one.keys}
    assert len(second - first) >= 2, "it began and ended once more"


def test_a_change_of_a_job_over_rest_is_told(store: Store, clock: VirtualClock) -> None:
    job_id = insert_one(store, delay=HOUR)
    clock.advance(HOUR)
    for target in (f"job:{job_id}", f"job:{an_id()}", "job:nothing", "queue:default", f"run:{job_id}"):
        store.audit.record_changes([Audited("ada", "reschedule_job", target, None, None, "r", "")])
    assert told(store, clock.now()) == {"edited": [job_id]}
    assert told(store, clock.now() + SECOND) == {}


def test_runs_are_told_with_their_steps(store: Store, clock: VirtualClock) -> None:
    run_id = begin_run(store, a_graph(a_step("a")))
    found = store.reads.happenings(clock.now() - MINUTE, 100).happenings
    steps = [one for one in found if one.run_id == run_id]
    assert steps
    assert not any(one.is_run for one in steps)
    assert {one.job_id for one in found if one.is_run} == {run_id}


def test_no_more_than_is_asked_for_is_told_and_that_it_is_not_all(store: Store, clock: VirtualClock) -> None:
    clock.advance(HOUR)
    at, worker = clock.now(), register(store)
    for _ in range(5):
        ended(store, worker=worker)
    bad = ended(store, failed, worker=worker)
    clock.advance(SECOND)
    newest = ended(store, worker=worker)
    cut, whole = store.reads.happenings(at, 3), store.reads.happenings(at, 8)
    assert (cut.is_partial, whole.is_partial) == (True, False)
    assert (cut.at, whole.at) == (clock.now(), clock.now())
    assert len([one for one in cut.happenings if one.kind == "ended"]) == 3
    assert newest in {one.job_id for one in cut.happenings}
    assert bad in {one.job_id for one in cut.happenings if one.kind == "failed"}


def test_a_topic_is_another_text_once_something_about_it_changed(store: Store, clock: VirtualClock) -> None:
    known = store.reads.topics()
    assert set(known) == set(TOPICS)
    assert store.reads.topics() == known

    def changed() -> set[str]:
        nonlocal known
        before, known = known, store.reads.topics()
        return {topic for topic in TOPICS if known[topic] != before[topic]}

    store.schedules.put_schedules([new_spec("nightly", "t", every("1h"))])
    assert changed() == {"schedules"}
    store.schedules.pause_schedules(["nightly"])
    assert changed() == {"schedules"}
    store.limits.put_gate(Gate(kind="pause", queue="q"))
    assert changed() == {"gates"}
    store.limits.declare_limits({"two": concurrency(2)})
    assert changed() == {"limits"}
    store.limits.set_weight("acme", 3)
    assert changed() == {"tenants"}
    store.register_worker(a_worker("w"), [a_definition("mail")], MINUTE)
    assert changed() == {"tasks", "workers"}
    store.renew_lease(a_worker("w").id, 2 * MINUTE)
    assert changed() == set(), "a heartbeat is nothing to look at"
    store.operations.ask_worker(a_worker("w").id, "quiet")
    assert changed() == {"workers"}
    clock.advance(HOUR)
    assert changed() == {"workers"}, "it was lost"
    operation = store.operations.put_operation(an_id(), BulkChange(BulkAction.CANCEL, JobFilter(task="t")), "ada")
    assert changed() == {"operations"}
    store.operations.cancel_operation(operation.id)
    assert changed() == {"operations"}
    store.dags.put_dag(a_graph(a_step("a")))
    assert changed() == {"dags"}
    store.hooks.put_hooks([a_hook()])
    assert changed() == {"hooks"}
    store.insert_jobs([*jobs(3), a_job(queue="q")])
    assert changed() == set()
