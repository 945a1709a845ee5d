"""Waiters: readable when there may be something to do, for all processes of the store."""

import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.store.builders import HOUR, a_job, again, claim, ended, failed, insert_one, reap, register, running
from tests.store.conftest import OpensStore
from tests.waiting import eventually
from tickwork.core.job import Claimed
from tickwork.store.base import Store, Waiter
from tickwork.store.postgres import PostgresStore
from tickwork.store.postgres.connection.wake_notify import GAP_S, WakeNotifier
from tickwork.store.sqlite import insert_jobs
from tickwork.store.sqlite.file.wake import SocketWaiter, wake_all
from tickwork.testing import VirtualClock

CAN_WAIT = ["sqlite", "postgres"]


def called(waiter: Waiter, within_s: float = 5.0) -> bool:
    """Whether it calls in time. Its descriptor may be another one from one moment to the next."""
    deadline = time.monotonic() + within_s
    while not select.select([waiter], [], [], min(within_s, 0.05))[0]:
        if time.monotonic() >= deadline:
            return False
    return True


@pytest.fixture
def waiter(store: Store) -> Iterator[Waiter]:
    waiter = store.waiter()
    if isinstance(store, PostgresStore):
        assert called(waiter, within_s=20), "it calls once when it begins to listen, for what it may have missed"
    waiter.clear()
    yield waiter
    waiter.close()


@pytest.mark.parametrize("kind", CAN_WAIT, indirect=True)
class TestCalls:
    @pytest.mark.parametrize("verb", ["insert", "keyed insert", "cancel", "retry", "reclaim", "give back", "commit"])
    def test_a_waiter_is_called_by_whatever_makes_work(
        self, open_store: OpensStore, clock: VirtualClock, store: Store, waiter: Waiter, verb: str
    ) -> None:
        claimed, dead = running(store), ended(store, failed)
        other = open_store()
        other.now()
        called(waiter, 0.05)
        waiter.clear()
        match verb:
            case "insert":
                insert_one(other)
            case "keyed insert":
                insert_one(other, key="k")
            case "cancel":
                other.cancel_jobs([claimed.job_id])
            case "retry":
                other.retry_jobs([dead])
            case "reclaim":
                clock.advance(HOUR)
                reap(other)
            case "give back":
                other.finish_attempts([again(claimed)])
            case "commit":
                with other.connection() as tx:
                    other.insert_jobs([a_job()], tx=tx)
        assert called(waiter)

    def test_a_claim_that_follows_a_call_finds_the_job(
        self, open_store: OpensStore, store: Store, waiter: Waiter, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """SQLite calls while a job is stored: who claims then waits for the commit, and is up already when it comes."""
        other, insert = open_store(), insert_jobs.insert
        other.now()
        me, claimed = register(store), list[Claimed]()
        claiming = threading.Thread(target=lambda: claimed.extend(claim(store, 1, me)))

        def insert_slowly(transaction: Any, jobs: Any, *, known: bool) -> Any:
            assert called(waiter), "it is called before the commit"
            waiter.clear()
            claiming.start()
            claiming.join(0.2)
            assert claiming.is_alive(), "the claim waits"
            return insert(transaction, jobs, known=known)

        monkeypatch.setattr(insert_jobs, "insert", insert_slowly)
        job_id = insert_one(other)
        assert called(waiter), "and after it, for those who only look"
        if isinstance(store, PostgresStore):
            claiming.start()
        claiming.join(5)
        assert [job.job_id for job in claimed] == [job_id]

    def test_what_is_stored_in_a_transaction_of_another_client_is_not_called_for_before(
        self, open_store: OpensStore, store: Store, waiter: Waiter, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Else a worker could take the write lock that the transaction is about to ask for."""
        other, insert = open_store(), insert_jobs.insert

        def insert_uncalled(transaction: Any, jobs: Any, *, known: bool) -> Any:
            assert not called(waiter, 0.05)
            return insert(transaction, jobs, known=known)

        monkeypatch.setattr(insert_jobs, "insert", insert_uncalled)
        with other.connection() as tx:
            other.insert_jobs([a_job()], tx=tx)
        assert called(waiter)

    def test_calls_are_forgotten_when_cleared(self, store: Store, waiter: Waiter) -> None:
        insert_one(store)
        assert called(waiter)
        waiter.clear()
        assert not called(waiter, 0.05)

    def test_a_burst_ends_with_a_call(self, store: Store, waiter: Waiter) -> None:
        """The last job of a burst is not left for the next poll."""
        for _ in range(30):
            insert_one(store)
            waiter.clear()
        last = insert_one(store)
        assert called(waiter)
        assert last in store.reads.get_jobs([last])

    def test_every_waiter_is_called(self, store: Store, waiter: Waiter) -> None:
        another = store.waiter()
        called(another, 1)
        another.clear()
        insert_one(store)
        assert called(waiter)
        assert called(another)
        another.close()

    def test_a_closed_waiter_is_no_trouble(self, store: Store) -> None:
        store.waiter().close()
        insert_one(store)


@pytest.mark.parametrize("kind", ["postgres-pooled"], indirect=True)
def test_through_a_pooler_there_is_only_polling(store: Store) -> None:
    waiter = store.waiter()
    assert waiter.fileno() == -1
    waiter.clear()
    waiter.close()


@pytest.mark.parametrize("kind", ["postgres-pooled"], indirect=True)
def test_unless_there_is_a_way_around_it(open_store: OpensStore, postgres_database: str) -> None:
    store = open_store(listen_url=postgres_database)
    waiter = store.waiter()
    assert called(waiter)
    waiter.clear()
    insert_one(store)
    assert called(waiter)
    waiter.close()


@pytest.mark.parametrize("kind", ["postgres-pooled"], indirect=True)
def test_if_the_way_around_it_leads_through_a_pooler_as_well_there_is_only_polling(
    open_store: OpensStore, store: Store
) -> None:
    waiter = open_store(listen_url=store.url).waiter()
    eventually(lambda: waiter.fileno() == -1)
    waiter.close()


def test_a_listener_comes_back_when_its_connection_is_cut(postgres: PostgresStore) -> None:
    waiter = postgres.waiter()
    assert called(waiter)
    waiter.clear()
    with postgres.connection() as tx:
        cut = tx.execute("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'LISTEN%%'")
        assert cut.fetchone()[0] >= 1
    assert called(waiter), "it listens again, and calls for what it may have missed"
    waiter.clear()
    insert_one(postgres)
    assert called(waiter)
    waiter.close()


class TestNotifier:
    """The first call is sent at once, those right after it together."""

    @pytest.fixture
    def sent(self) -> threading.Semaphore:
        return threading.Semaphore(0)

    def make(self, sent: threading.Semaphore, times: list[float]) -> WakeNotifier:
        return WakeNotifier(sent.release, lambda: times[0])

    def test_calls_within_the_gap_are_sent_once(self, sent: threading.Semaphore) -> None:
        notifier = self.make(sent, [100.0])
        for _ in range(50):
            notifier.call()
        assert sent.acquire(timeout=5)
        assert sent.acquire(timeout=5), "the late ones, by a timer"
        assert not sent.acquire(timeout=5 * GAP_S)

    def test_after_the_gap_a_call_is_sent_at_once(self, sent: threading.Semaphore) -> None:
        times = [100.0]
        notifier = self.make(sent, times)
        for _ in range(3):
            notifier.call()
            assert sent.acquire(blocking=False)
            times[0] += 2 * GAP_S

    def test_the_first_call_rides_on_its_transaction_and_those_after_it_follow_theirs(
        self, sent: threading.Semaphore
    ) -> None:
        times = [100.0]
        notifier = self.make(sent, times)
        with notifier.ride() as rides:
            assert rides
        with notifier.ride() as rides:
            assert not rides, "too soon"
            assert not sent.acquire(timeout=3 * GAP_S), "nothing is told before it is committed"
        assert sent.acquire(timeout=5)
        times[0] += 2 * GAP_S
        with notifier.ride() as rides:
            assert rides

    def test_late_calls_ride_on_the_next_transaction_if_it_comes_in_time(
        self, sent: threading.Semaphore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tickwork.store.postgres.connection.wake_notify.SLACK_S", 1.0)
        times = [100.0]
        notifier = self.make(sent, times)
        for _ in range(3):
            with notifier.ride() as rides:
                assert rides
            with notifier.ride() as rides:
                assert not rides
            times[0] += GAP_S
        with notifier.ride() as rides:
            assert rides
        assert not sent.acquire(timeout=5 * GAP_S), "nothing had to be sent on its own"

    def test_late_calls_whose_ride_failed_are_sent(self, sent: threading.Semaphore) -> None:
        times = [100.0]
        notifier = self.make(sent, times)
        for _ in range(2):
            with notifier.ride():
                pass
        times[0] += GAP_S
        with pytest.raises(ZeroDivisionError), notifier.ride():
            raise ZeroDivisionError
        assert sent.acquire(timeout=5)

    def test_a_call_that_comes_as_the_thread_gives_up_waiting_is_sent(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tickwork.store.postgres.connection.wake_notify._IDLE_S", 0.05)
        sent = threading.Semaphore(0)
        notifier = WakeNotifier(sent.release, time.monotonic)
        notifier.call()
        notifier.call()
        assert sent.acquire(timeout=5)
        assert sent.acquire(timeout=5)
        # The race is between two statements of the notifier.
        with notifier._changed:  # the thread waits for us, and its time is over
            threading.Event().wait(0.2)
            notifier._sent_at = time.monotonic()
            assert notifier._send_later()
        assert sent.acquire(timeout=5)

    def test_a_transaction_that_failed_has_nothing_to_tell(self, sent: threading.Semaphore) -> None:
        notifier = self.make(sent, [100.0])
        for _ in range(2):
            with pytest.raises(ZeroDivisionError), notifier.ride():
                raise ZeroDivisionError
        assert not sent.acquire(timeout=3 * GAP_S)

    def test_after_a_ride_that_took_long_others_do_not_ride(self, sent: threading.Semaphore) -> None:
        times = [100.0]
        notifier = self.make(sent, times)
        with notifier.ride():
            times[0] += 1.0
        times[0] += 2 * GAP_S
        with notifier.ride() as rides:
            assert not rides
        assert sent.acquire(blocking=False), "it is told of all the same, and at once"

    def test_what_waits_is_sent_before_the_end(self, sent: threading.Semaphore) -> None:
        notifier = self.make(sent, [100.0])
        notifier.call()
        notifier.call()
        notifier.flush()
        assert sent.acquire(blocking=False)
        assert sent.acquire(blocking=False)
        notifier.flush()
        assert not sent.acquire(timeout=5 * GAP_S)


def in_child(work: Callable[[], bool]) -> bool:
    """Run `work` in a forked process; return whether it gave True."""
    pid = os.fork()
    if not pid:
        try:
            os._exit(0 if work() else 1)
        except BaseException:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


class TestSockets:
    """Wake-ups on SQLite: a socket for each waiter, in a folder beside the file."""

    @pytest.mark.parametrize("name", ["short", "a-very-long-name-" * 12])
    def test_a_folder_with_a_long_name_will_do(self, tmp_path: Path, name: str) -> None:
        waiter = SocketWaiter(tmp_path / name)
        wake_all(tmp_path / name)
        assert called(waiter)
        waiter.close()
        assert not (tmp_path / name).exists()

    def test_a_socket_whose_owner_died_is_removed(self, tmp_path: Path) -> None:
        folder = tmp_path / "wake"
        folder.mkdir()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as dead:
            dead.bind(str(folder / "dead"))
        wake_all(folder)
        assert list(folder.iterdir()) == []

    def test_a_waiter_that_is_not_cleared_does_not_hold_up_the_caller(self, tmp_path: Path) -> None:
        waiter = SocketWaiter(tmp_path / "wake")
        for _ in range(2000):
            wake_all(tmp_path / "wake")
        assert called(waiter)
        waiter.close()

    def test_without_a_folder_no_waiter_is_called(self, tmp_path: Path) -> None:
        wake_all(tmp_path / "nowhere")


@pytest.mark.parametrize("kind", CAN_WAIT, indirect=True)
def test_a_forked_process_opens_the_store_again(store: Store) -> None:
    insert_one(store)
    assert in_child(lambda: insert_one(store) is not None and len(store.reads.queues()) == 1)
    assert in_child(lambda: store.close() is None), "nor does it close its parent's"
    insert_one(store)
    assert store.reads.queues()[0].due == 3


def test_a_folder_that_goes_while_it_is_called_troubles_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "somebody").touch()
    monkeypatch.setattr("tickwork.store.sqlite.file.wake._PATH_LIMIT", 0)  # its path is too long for a socket
    monkeypatch.setattr(os, "open", lambda *_: (_ for _ in ()).throw(FileNotFoundError()))
    wake_all(tmp_path)
