"""The clock of a SQLite store: it never goes back, whatever the host's does, and follows it forward."""

from datetime import timedelta
from pathlib import Path

import pytest

from tests.store.builders import DAY, HOUR, MINUTE, SECOND, claim, claim_one, insert_one
from tickwork.store.sqlite import SqliteStore
from tickwork.testing import VirtualClock


class Rebooted(VirtualClock):
    """The same host after a restart: its monotonic clock begins at 0."""

    def boot_id(self) -> str:
        return "another"


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "jobs.db")


def test_time_goes_by(path: str, clock: VirtualClock) -> None:
    store = SqliteStore(path, clock=clock)
    for duration in (SECOND, MINUTE, DAY):
        clock.advance(duration)
        assert store.now() == clock.now()
    store.close()


@pytest.mark.parametrize("back", [SECOND, HOUR, 365 * DAY])
def test_a_clock_that_is_set_back_repeats_nothing_and_stops_nothing(
    path: str, clock: VirtualClock, back: timedelta
) -> None:
    store = SqliteStore(path, clock=clock)
    soon = insert_one(store, delay=MINUTE)
    before = store.now()
    clock.step(-back)
    assert store.now() == before
    clock.advance(MINUTE)
    assert store.now() == before + MINUTE
    assert claim_one(store).job_id == soon
    assert any("set back" in warning for warning in store.health().warnings) is (back > 5 * SECOND)
    store.close()


def test_a_clock_that_is_set_forward_is_followed(path: str, clock: VirtualClock) -> None:
    store = SqliteStore(path, clock=clock)
    insert_one(store, delay=HOUR)
    clock.step(2 * HOUR)
    assert store.now() == clock.now()
    assert len(claim(store)) == 1
    clock.step(-2 * HOUR)
    clock.advance(SECOND)
    assert store.now() == clock.now() + 2 * HOUR, "what was now once is never later again"
    store.close()


@pytest.mark.parametrize("wrong", [HOUR, -HOUR])
def test_a_restart_of_the_host_does_not_turn_time_back(path: str, clock: VirtualClock, wrong: timedelta) -> None:
    store = SqliteStore(path, clock=clock)
    clock.advance(DAY)
    insert_one(store)
    before = store.now()
    store.close()
    after = Rebooted(before + wrong)
    store = SqliteStore(path, clock=after)
    assert store.now() >= before
    insert_one(store)
    began = store.now()
    after.advance(MINUTE)
    assert store.now() == began + MINUTE
    store.close()


def test_processes_agree_on_the_time(path: str, clock: VirtualClock) -> None:
    store = SqliteStore(path, clock=clock)
    insert_one(store)
    clock.step(-HOUR)
    another = SqliteStore(path, clock=clock)
    insert_one(another)
    assert store.now() == another.now()
    store.close()
    another.close()
