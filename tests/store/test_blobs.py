"""References of a store to the blobs of its jobs."""

import json

from tests.store.builders import MINUTE, a_job, an_id, claim_one, ended, insert_one, register, succeeded
from tickwork.core.blob_ref import BlobRef
from tickwork.core.ids import JobId
from tickwork.core.job import Claimed
from tickwork.core.retention import Retention
from tickwork.store.attempt_types import Finish
from tickwork.store.base import Store
from tickwork.testing import VirtualClock

GONE = Retention(MINUTE, MINUTE)


def reference(job_id: str, attempt: int = 1) -> BlobRef:
    return BlobRef.of(b"what is large", job_id, attempt)


def large(claimed: Claimed) -> Finish:
    return succeeded(claimed, reference(claimed.job_id, claimed.attempt).encode())


def test_a_reference_comes_back_as_it_was_stored(store: Store) -> None:
    """The space in it is what tells it from a user's own dict."""
    job_id = ended(store, large)
    assert store.reads.get_jobs([job_id])[job_id].result == reference(job_id).encode()


class TestPruning:
    def test_it_tells_which_blobs_have_no_reference_any_more(self, store: Store, clock: VirtualClock) -> None:
        first, second, plain = ended(store, large), ended(store, large), ended(store)
        clock.advance(2 * MINUTE)
        assert store.prune(Retention(), 10).blobs == []
        pruned = store.prune(GONE, 10)
        assert pruned.count == 3
        assert sorted(pruned.blobs) == sorted([reference(first).key, reference(second).key])
        assert store.reads.get_jobs([first, second, plain]) == {}
        assert store.prune(GONE, 10).blobs == []

    def test_a_result_that_names_the_blob_of_another_job_does_not_take_it_along(
        self, store: Store, clock: VirtualClock
    ) -> None:
        other = an_id()
        ended(store, lambda claimed: succeeded(claimed, reference(other).encode()))
        clock.advance(2 * MINUTE)
        pruned = store.prune(GONE, 10)
        assert (pruned.count, pruned.blobs) == (1, [])

    def test_a_dict_of_a_user_names_no_blob(self, store: Store, clock: VirtualClock) -> None:
        def forged(claimed: Claimed) -> Finish:
            return succeeded(
                claimed, json.dumps({"$blob": {"key": reference(claimed.job_id).key}}, separators=(",", ":")).encode()
            )

        def compact(claimed: Claimed) -> Finish:
            return succeeded(claimed, reference(claimed.job_id).encode().replace(b": ", b":"))

        ended(store, forged)
        ended(store, compact)
        clock.advance(2 * MINUTE)
        pruned = store.prune(GONE, 10)
        assert (pruned.count, pruned.blobs) == (2, [])


class TestUnusedBlobs:
    def test_they_are_those_that_the_result_of_their_job_does_not_name(self, store: Store) -> None:
        named, plain = ended(store, large), ended(store)
        waiting = insert_one(store, a_job(queue="other"))
        running = insert_one(store)
        claim_one(store, register(store))
        keys = [
            reference(named).key,
            reference(named, 2).key,
            f"{reference(named).key}~00ff",
            reference(plain).key,
            reference(waiting).key,
            reference(running).key,
        ]
        assert sorted(store.unused_blobs(keys)) == sorted(keys[1:])
        assert store.unused_blobs([]) == []

    def test_what_no_job_of_this_store_has_written_is_not_ours_to_judge(self, store: Store) -> None:
        ended(store, large)
        strangers = [reference(an_id()).key, reference("job0").key, "notes.txt", ""]
        assert store.unused_blobs(strangers) == []

    def test_a_job_that_was_pruned_has_none(self, store: Store, clock: VirtualClock) -> None:
        job_id = ended(store, large)
        clock.advance(2 * MINUTE)
        store.prune(GONE, 10)
        assert store.unused_blobs([reference(JobId(job_id)).key]) == []
