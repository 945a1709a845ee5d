"""The lateness of a canary."""

from datetime import timedelta

from tests.store.builders import MINUTE, SECOND, claim_one, insert_one
from tickwork.core.occurrence import Occurrence, encode_occurrence
from tickwork.core.stats.canary import delay
from tickwork.store.sqlite import SqliteStore
from tickwork.testing import VirtualClock


def test_a_canary_is_as_late_as_its_start_or_as_long_as_it_waits(tmp_path: object) -> None:
    clock = VirtualClock()
    store = SqliteStore(f"{tmp_path}/jobs.db", clock=clock)
    due = clock.now()
    clock.advance(SECOND)
    job = insert_one(store, occurrence=encode_occurrence(Occurrence("@canary", due)))
    clock.advance(MINUTE)
    assert delay(store.reads.get_jobs([job])[job], clock.now()) == MINUTE + SECOND
    claim_one(store)
    clock.advance(MINUTE)
    assert delay(store.reads.get_jobs([job])[job], clock.now()) == MINUTE + SECOND
    assert delay(store.reads.get_jobs([job])[job], due - MINUTE) >= timedelta(0)
    store.close()
