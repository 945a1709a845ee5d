"""Writes of running attempts: logs, progress and saved state, each only while the claim holds the job."""

import msgspec
import pytest

from tests.store.builders import (
    HOUR,
    SECOND,
    again,
    an_id,
    claim_one,
    ending,
    failed,
    log,
    reap,
    running,
    succeeded,
    with_retries,
)
from tickwork.core.ids import ClaimId, JobId, WorkerId
from tickwork.core.job import Claimed
from tickwork.core.outcome import Cancelled, Ending, Failed, Succeeded, TimedOut
from tickwork.store.attempt_types import NewLog, OpenAttempt, Progress
from tickwork.store.base import Store
from tickwork.testing import VirtualClock


@pytest.fixture
def stale(store: Store) -> Claimed:
    """An attempt after which another one of its job has begun."""
    first = running(store)
    store.finish_attempts([again(first)])
    claim_one(store)
    return first


def current(store: Store, job_id: JobId) -> OpenAttempt:
    """The attempt that holds a running job."""
    worker = store.reads.get_jobs([job_id])[job_id].worker
    (held,) = store.open_attempts(WorkerId(str(worker)))
    return held


class TestLogs:
    def test_lines_are_readable_while_the_job_runs(self, store: Store, clock: VirtualClock) -> None:
        claimed = running(store)
        store.append_logs([log(claimed, "one\n")])
        clock.advance(SECOND)
        store.append_logs([log(claimed, "two\n", 1), log(claimed, "three\n", 2)])
        chunks = store.reads.logs(claimed.job_id)
        assert [(chunk.job_id, chunk.attempt, chunk.seq, chunk.text) for chunk in chunks] == [
            (claimed.job_id, 1, 0, "one\n"),
            (claimed.job_id, 1, 1, "two\n"),
            (claimed.job_id, 1, 2, "three\n"),
        ]
        assert chunks[-1].at == clock.now()

    def test_a_reader_goes_on_where_it_was(self, store: Store) -> None:
        claimed = running(store)
        store.append_logs([log(claimed, str(n), n) for n in range(5)])
        store.finish_attempts([again(claimed)])
        store.append_logs([log(claim_one(store), "second try")])
        assert [chunk.text for chunk in store.reads.logs(claimed.job_id, after=(1, 2))] == ["3", "4", "second try"]
        assert [chunk.text for chunk in store.reads.logs(claimed.job_id, after=(1, 2), limit=1)] == ["3"]

    def test_lines_that_are_sent_twice_are_stored_once(self, store: Store) -> None:
        claimed = running(store)
        store.append_logs([log(claimed, "one")])
        store.append_logs([log(claimed, "one"), log(claimed, "two", 1)])
        assert [chunk.text for chunk in store.reads.logs(claimed.job_id)] == ["one", "two"]

    def test_lines_of_a_superseded_attempt_are_dropped(self, store: Store, stale: Claimed) -> None:
        other = running(store)
        store.append_logs([log(stale, "late"), log(other, "in time"), NewLog(an_id(), ClaimId(1), 0, "of nobody")])
        assert store.reads.logs(stale.job_id) == []
        assert [chunk.text for chunk in store.reads.logs(other.job_id)] == ["in time"]

    def test_lines_survive_the_death_of_the_worker(self, store: Store, clock: VirtualClock) -> None:
        claimed = running(store)
        store.append_logs([log(claimed, "last words")])
        clock.advance(HOUR)
        reap(store)
        assert [chunk.text for chunk in store.reads.logs(claimed.job_id)] == ["last words"]

    def test_none_are_no_trouble(self, store: Store) -> None:
        store.append_logs([])
        assert store.reads.logs(an_id()) == store.reads.logs(JobId("not an id")) == []


class TestProgress:
    def test_the_latest_report_counts(self, store: Store) -> None:
        claimed = running(store)
        reports = [
            Progress(claimed.job_id, claimed.claim, fraction, note)
            for fraction, note in [(0.1, "a"), (0.5, "half\0way")]
        ]
        store.set_progress(reports)
        view = store.reads.get_jobs([claimed.job_id])[claimed.job_id]
        assert (view.progress, view.progress_note) == (0.5, "half\ufffdway")
        store.set_progress([Progress(claimed.job_id, claimed.claim, 0.75, None)])
        view = store.reads.get_jobs([claimed.job_id])[claimed.job_id]
        assert (view.progress, view.progress_note) == (0.75, None)

    def test_that_of_a_superseded_attempt_is_dropped(self, store: Store, stale: Claimed) -> None:
        store.set_progress([Progress(stale.job_id, stale.claim, 0.9, "late"), Progress(an_id(), ClaimId(1), 0.1, None)])
        assert store.reads.get_jobs([stale.job_id])[stale.job_id].progress is None

    def test_it_begins_again_with_each_attempt(self, store: Store) -> None:
        claimed = running(store)
        store.set_progress([Progress(claimed.job_id, claimed.claim, 0.9, None)])
        store.finish_attempts([again(claimed)])
        claim_one(store)
        assert store.reads.get_jobs([claimed.job_id])[claimed.job_id].progress is None

    @pytest.mark.parametrize("how", [Succeeded(b"1"), Failed("x", fatal=True), TimedOut("x"), Cancelled("x")])
    def test_it_stays_when_the_job_has_ended(self, store: Store, how: Ending) -> None:
        claimed = running(store, policy=with_retries(0))
        store.set_progress([Progress(claimed.job_id, claimed.claim, 0.4, "row 4")])
        store.finish_attempts([ending(claimed, how)])
        view = store.reads.get_jobs([claimed.job_id])[claimed.job_id]
        assert (view.progress, view.progress_note) == (0.4, "row 4")

    def test_an_end_brings_the_last_report(self, store: Store) -> None:
        first, second = running(store), running(store)
        store.set_progress(
            [Progress(first.job_id, first.claim, 0.4, "row 4"), Progress(second.job_id, second.claim, 0.2, None)]
        )
        last = msgspec.structs.replace(failed(first), progress=Progress(first.job_id, first.claim, 0.5, None))
        store.finish_attempts([last, failed(second)])
        views = store.reads.get_jobs([first.job_id, second.job_id])
        assert (views[first.job_id].progress, views[first.job_id].progress_note) == (0.5, None)
        assert views[second.job_id].progress == 0.2

    def test_it_stays_with_the_attempt_of_a_job_that_is_tried_again(self, store: Store) -> None:
        claimed = running(store)
        store.set_progress([Progress(claimed.job_id, claimed.claim, 0.9, "nearly")])
        store.finish_attempts([again(claimed)])
        second = claim_one(store)
        store.set_progress([Progress(claimed.job_id, second.claim, 0.1, "from the start")])
        told = [(one.number, one.progress, one.progress_note) for one in store.reads.attempts(claimed.job_id)]
        assert told == [(1, 0.9, "nearly"), (2, 0.1, "from the start")]
        store.finish_attempts([failed(second)])
        store.retry_jobs([claimed.job_id])
        told = [(one.number, one.progress, one.progress_note) for one in store.reads.attempts(claimed.job_id)]
        assert told == [(1, 0.9, "nearly"), (2, 0.1, "from the start")]

    def test_it_stays_when_the_worker_is_lost(self, store: Store, clock: VirtualClock) -> None:
        claimed = running(store)
        store.set_progress([Progress(claimed.job_id, claimed.claim, 0.9, "nearly")])
        clock.advance(HOUR)
        reap(store)
        assert [(one.progress, one.progress_note) for one in store.reads.attempts(claimed.job_id)] == [(0.9, "nearly")]

    def test_none_is_no_trouble(self, store: Store) -> None:
        store.set_progress([])


class TestSavedState:
    def test_a_later_attempt_resumes_from_it(self, store: Store) -> None:
        claimed = running(store)
        assert store.saved_state(claimed.job_id) is None
        assert store.save_state(claimed.job_id, claimed.claim, b'{"row": 1}')
        assert store.save_state(claimed.job_id, claimed.claim, '{"row": 2, "ж": "\\u0000"}'.encode())
        store.finish_attempts([again(claimed)])
        claim_one(store)
        assert store.saved_state(claimed.job_id) == '{"row": 2, "ж": "\\u0000"}'.encode()

    def test_a_superseded_attempt_cannot_save(self, store: Store, stale: Claimed) -> None:
        assert store.save_state(stale.job_id, current(store, stale.job_id).claim, b"2")
        assert not store.save_state(stale.job_id, stale.claim, b"1")
        assert store.saved_state(stale.job_id) == b"2"

    def test_nor_one_that_ended(self, store: Store) -> None:
        claimed = running(store)
        store.finish_attempts([succeeded(claimed)])
        assert not store.save_state(claimed.job_id, claimed.claim, b"1")

    def test_of_an_unknown_job_there_is_none(self, store: Store) -> None:
        assert not store.save_state(an_id(), ClaimId(1), b"1")
        assert store.saved_state(an_id()) is None
        assert store.saved_state(JobId("not an id")) is None
