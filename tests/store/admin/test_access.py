"""API keys, users, sessions, logins, the audit log, kept answers and secrets, on every store."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest

from tests.store.builders import HOUR, MINUTE, SECOND
from tests.store.conftest import OpensStore
from tests.store.hammer import at_once
from tickwork.store.admin.access import ApiKeyView, BegunRequest, KeptAnswer, SealedSecret, SessionOrigin
from tickwork.store.admin.audit import AuditFilter, AuditRow
from tickwork.store.base import Store
from tickwork.testing import VirtualClock

DAY = 24 * HOUR


def put_key(store: Store, id: str = "k1", name: str = "deploy", lasts: timedelta | None = None) -> ApiKeyView:
    key = store.access.put_api_key(id, name, f"digest of {id}", ["read", "enqueue"], lasts, "cli:ada")
    assert key is not None
    return key


class TestKeys:
    def test_a_key_is_live_until_it_is_revoked(self, store: Store, clock: VirtualClock) -> None:
        made = put_key(store)
        assert (made.scopes, made.created_by, made.created_at) == (("read", "enqueue"), "cli:ada", clock.now())
        assert made.is_live
        assert store.access.revoke_api_key("k1")
        assert not store.access.revoke_api_key("k1")
        found = store.access.get_api_key("k1")
        assert found is not None
        assert (found.is_live, found.revoked_at) == (False, clock.now())

    def test_a_key_expires_by_the_clock_of_the_store(self, store: Store, clock: VirtualClock) -> None:
        assert put_key(store, lasts=HOUR).is_live
        clock.advance(HOUR)
        found = store.access.get_api_key("k1")
        assert found is not None
        assert (found.is_expired, found.is_live) == (True, False)

    def test_a_name_is_taken_until_its_key_is_revoked(self, store: Store) -> None:
        put_key(store)
        assert store.access.put_api_key("k2", "deploy", "d", ["read"], None, "x") is None
        store.access.revoke_api_key("k1")
        put_key(store, "k2")
        assert {key.id for key in store.access.list_api_keys()} == {"k1", "k2"}

    def test_that_a_key_was_used_is_noted_once_a_minute(self, store: Store, clock: VirtualClock) -> None:
        assert put_key(store).is_stale
        first = clock.now()
        store.access.use_api_key("k1")
        clock.advance(59 * SECOND)
        store.access.use_api_key("k1")
        found = store.access.get_api_key("k1")
        assert found is not None
        assert (found.used_at, found.is_stale) == (first, False)
        clock.advance(SECOND)
        store.access.use_api_key("k1")
        assert [key.used_at for key in store.access.list_api_keys()] == [clock.now()]

    def test_what_is_not_there_is_none(self, store: Store) -> None:
        assert store.access.get_api_key("nothing") is None
        assert not store.access.revoke_api_key("nothing")
        assert store.access.list_api_keys() == []


class TestUsers:
    def test_a_user_is_there_once(self, store: Store) -> None:
        assert store.access.put_user("ada", "admin", "hash")
        assert not store.access.put_user("ada", "viewer", "other")
        (found,) = store.access.list_users()
        assert (found.name, found.role, found.password) == ("ada", "admin", "hash")

    def test_a_change_leaves_the_rest_as_it_is(self, store: Store) -> None:
        store.access.put_user("ada", "admin", "hash")
        assert store.access.change_user("ada", role="viewer")
        assert store.access.change_user("ada", password="new")
        found = store.access.get_user("ada")
        assert found is not None
        assert (found.role, found.password) == ("viewer", "new")
        assert not store.access.change_user("bob", role="viewer")

    def test_access_is_there_with_a_user_or_a_live_key(self, store: Store, clock: VirtualClock) -> None:
        assert not store.access.has_access()
        put_key(store, lasts=HOUR)
        assert store.access.has_access()
        clock.advance(HOUR)
        assert not store.access.has_access()
        store.access.put_user("ada", "viewer", "hash")
        assert store.access.has_access()
        assert store.access.remove_user("ada")
        assert not store.access.has_access()


class TestSessions:
    IDLE = 12 * HOUR

    @pytest.fixture
    def ada(self, store: Store) -> None:
        store.access.put_user("ada", "operator", "hash")
        assert store.access.put_session("s1", "user", "ada", 7 * DAY, "hash")

    def test_a_session_knows_the_role_of_its_user_now(self, store: Store, ada: None) -> None:
        found = store.access.get_session("s1", self.IDLE)
        assert found is not None
        assert (found.kind, found.subject, found.role) == ("user", "ada", "operator")
        store.access.change_user("ada", role="viewer")
        found = store.access.get_session("s1", self.IDLE)
        assert found is not None
        assert found.role == "viewer"

    @pytest.mark.parametrize(
        "end",
        [
            lambda store: store.access.end_session("s1"),
            lambda store: store.access.remove_user("ada"),
            lambda store: store.access.change_user("ada", password="new"),
        ],
    )
    def test_a_session_ends_at_once(self, store: Store, ada: None, end: Callable[[Store], object]) -> None:
        assert end(store)
        assert store.access.get_session("s1", self.IDLE) is None

    def test_open_sessions_are_those_that_can_be_used(self, store: Store, ada: None, clock: VirtualClock) -> None:
        put_key(store)
        store.access.put_session("s2", "key", "k1", 7 * DAY, origin=SessionOrigin("192.0.2.1", "a browser"))
        store.access.put_session("s3", "token", "t", HOUR)
        store.access.put_session("s4", "user", "nobody", 7 * DAY, "hash")
        clock.advance(MINUTE)
        store.access.use_session("s1")
        first, second, third = store.access.open_sessions(self.IDLE)
        assert (first.digest, first.kind, first.subject, first.used_at) == ("s1", "user", "ada", clock.now())
        assert (second.digest, second.key_name, second.origin) == (
            "s2",
            "deploy",
            SessionOrigin("192.0.2.1", "a browser"),
        )
        assert third.digest == "s3"
        assert [one.digest for one in store.access.open_sessions(self.IDLE, "key", "k1")] == ["s2"]
        clock.advance(HOUR)
        store.access.revoke_api_key("k1")
        assert [one.digest for one in store.access.open_sessions(self.IDLE)] == ["s1"]
        clock.advance(12 * HOUR)
        assert store.access.open_sessions(self.IDLE) == []

    def test_a_user_who_comes_back_does_not_bring_old_sessions_back(self, store: Store, ada: None) -> None:
        store.access.remove_user("ada")
        store.access.put_user("ada", "admin", "hash")
        assert store.access.get_session("s1", self.IDLE) is None

    def test_no_session_begins_with_a_password_that_was_changed_meanwhile(self, store: Store, ada: None) -> None:
        store.access.change_user("ada", password="new")
        assert not store.access.put_session("s2", "user", "ada", 7 * DAY, "hash")
        assert not store.access.put_session("s3", "user", "nobody", 7 * DAY, "hash")

    def test_an_idle_session_is_over_and_a_used_one_is_not(self, store: Store, ada: None, clock: VirtualClock) -> None:
        clock.advance(11 * HOUR)
        store.access.use_session("s1")
        clock.advance(11 * HOUR)
        assert store.access.get_session("s1", self.IDLE) is not None
        clock.advance(HOUR)
        assert store.access.get_session("s1", self.IDLE) is None

    def test_a_session_is_over_after_its_time(self, store: Store, ada: None, clock: VirtualClock) -> None:
        for _ in range(7 * 24 - 1):
            clock.advance(HOUR)
            store.access.use_session("s1")
        assert store.access.get_session("s1", self.IDLE) is not None
        clock.advance(HOUR)
        assert store.access.get_session("s1", self.IDLE) is None

    def test_the_session_of_a_key_ends_with_the_key(self, store: Store, clock: VirtualClock) -> None:
        for id, name in (("k1", "a"), ("k2", "b")):
            put_key(store, id, name, lasts=HOUR)
            assert store.access.put_session(f"session of {id}", "key", id, 7 * DAY)
        found = store.access.get_session("session of k1", self.IDLE)
        assert found is not None
        assert (found.key_name, found.scopes) == ("a", ("read", "enqueue"))
        store.access.revoke_api_key("k1")
        assert store.access.get_session("session of k1", self.IDLE) is None
        clock.advance(HOUR)
        assert store.access.get_session("session of k2", self.IDLE) is None

    def test_the_session_of_a_token_says_which(self, store: Store) -> None:
        assert store.access.put_session("s", "token", "digest of a token", 7 * DAY)
        found = store.access.get_session("s", self.IDLE)
        assert found is not None
        assert (found.kind, found.subject, found.role) == ("token", "digest of a token", None)


class TestLogins:
    FREE = {"name:ada": 3, "address:::1": 5}  # noqa: RUF012

    def test_after_some_failures_each_makes_the_next_wait_twice_as_long(
        self, store: Store, clock: VirtualClock
    ) -> None:
        waits = []
        for _ in range(6):
            assert store.access.admit_login({"name:ada": 3}) == 0.0
            wait_s = store.access.admit_login({"name:ada": 3}) if len(waits) >= 2 else 0.0
            waits.append(wait_s)
            clock.advance(timedelta(seconds=wait_s))
        assert waits == [0, 0, 1, 2, 4, 8]

    def test_a_refused_try_is_not_counted(self, store: Store, clock: VirtualClock) -> None:
        for _ in range(3):
            store.access.admit_login(self.FREE)
        for _ in range(5):
            assert store.access.admit_login(self.FREE) == 1.0
        clock.advance(SECOND)
        assert store.access.admit_login(self.FREE) == 0.0
        assert store.access.admit_login(self.FREE) == 2.0

    def test_an_address_waits_whatever_name_it_tries(self, store: Store) -> None:
        for number in range(5):
            assert store.access.admit_login({f"name:{number}": 3, "address:x": 5}) == 0.0
        assert store.access.admit_login({"name:another": 3, "address:x": 5}) > 0
        assert store.access.admit_login({"name:another": 3, "address:y": 5}) == 0.0

    def test_a_good_login_clears_its_name_and_gives_its_address_one_back(self, store: Store) -> None:
        for _ in range(2):
            store.access.admit_login(self.FREE)
        store.access.forgive_login(["name:ada"], ["address:::1"])
        for _ in range(3):
            assert store.access.admit_login(self.FREE) == 0.0
        assert store.access.admit_login({"name:ada": 3}) == 1.0
        assert store.access.admit_login({"address:::1": 5}) == 0.0
        assert store.access.admit_login({"address:::1": 5}) > 0

    def test_failures_are_forgotten_after_an_hour(self, store: Store, clock: VirtualClock) -> None:
        for _ in range(3):
            store.access.admit_login({"name:ada": 3})
        clock.advance(HOUR)
        for _ in range(2):
            assert store.access.admit_login({"name:ada": 3}) == 0.0

    def test_many_guesses_at_once_count_one_another(self, open_store: OpensStore) -> None:
        stores = [open_store() for _ in range(4)]

        def guess(store: Store) -> list[float]:
            return [store.access.admit_login({"name:ada": 3}) for _ in range(3)]

        waits = at_once(*[partial(guess, one) for one in stores])
        assert sum(wait == 0.0 for some in waits for wait in some) == 3


class TestAudit:
    def test_rows_come_newest_first_by_pages_and_filters(self, store: Store, clock: VirtualClock) -> None:
        for number in range(5):
            store.audit.record_changes(
                [AuditRow(f"user:{number % 2}", "pause", f"queue {number}", b"1", None, "r", "::1")]
            )
            clock.advance(MINUTE)
        page = store.audit.list_changes(AuditFilter(), 2)
        assert [row.change.target for row in page] == ["queue 4", "queue 3"]
        page = store.audit.list_changes(AuditFilter(), 9, before=page[-1].id)
        assert [row.change.target for row in page] == ["queue 2", "queue 1", "queue 0"]
        assert page[0].change == AuditRow("user:0", "pause", "queue 2", b"1", None, "r", "::1")
        assert len(store.audit.list_changes(AuditFilter(who="user:1"), 9)) == 2
        assert len(store.audit.list_changes(AuditFilter(target="queue 3", action="pause"), 9)) == 1
        assert store.audit.list_changes(AuditFilter(action="other"), 9) == []
        assert len(store.audit.list_changes(AuditFilter(since=clock.now() - 2 * MINUTE), 9)) == 2


class TestAnswers:
    def begin(self, store: Store, digest: str = "d") -> BegunRequest | KeptAnswer:
        return store.access.begin_answer("user:ada", "key 1", digest, MINUTE)

    def test_the_second_asks_without_effect_until_the_first_was_answered(self, store: Store) -> None:
        begun = self.begin(store)
        assert isinstance(begun, BegunRequest)
        assert self.begin(store) == KeptAnswer("d", None, {}, b"")
        store.access.keep_answer("user:ada", "key 1", begun.began_at, 201, {"Location": "/x"}, b'{"a":1}')
        assert self.begin(store) == KeptAnswer("d", 201, {"Location": "/x"}, b'{"a":1}')
        assert self.begin(store, "other") == KeptAnswer("d", 201, {"Location": "/x"}, b'{"a":1}')

    def test_keys_of_other_callers_are_others(self, store: Store) -> None:
        assert isinstance(self.begin(store), BegunRequest)
        assert isinstance(store.access.begin_answer("user:bob", "key 1", "d", MINUTE), BegunRequest)

    def test_one_that_was_dropped_can_be_asked_again(self, store: Store) -> None:
        begun = self.begin(store)
        assert isinstance(begun, BegunRequest)
        store.access.drop_answer("user:ada", "key 1", begun.began_at)
        assert isinstance(self.begin(store, "other"), BegunRequest)

    def test_one_that_was_given_up_is_taken_on_again_as_the_same(self, store: Store, clock: VirtualClock) -> None:
        first = self.begin(store)
        clock.advance(MINUTE)
        assert self.begin(store, "other") == KeptAnswer("d", None, {}, b"")
        second = self.begin(store)
        assert isinstance(first, BegunRequest)
        assert isinstance(second, BegunRequest)
        assert (second.first_at, second.began_at) == (first.first_at, clock.now())
        store.access.drop_answer("user:ada", "key 1", first.began_at)
        store.access.keep_answer("user:ada", "key 1", first.began_at, 500, {}, b"late")
        assert self.begin(store) == KeptAnswer("d", None, {}, b""), "the first has no say in it any more"

    def test_one_that_was_released_is_taken_on_at_once_as_the_same(self, store: Store, clock: VirtualClock) -> None:
        first = self.begin(store)
        assert isinstance(first, BegunRequest)
        clock.advance(SECOND)
        store.access.release_answer("user:ada", "key 1", first.began_at)
        assert self.begin(store, "other") == KeptAnswer("d", None, {}, b"")
        assert self.begin(store) == BegunRequest(first.first_at, clock.now())

    def test_an_answer_is_kept_for_a_day(self, store: Store, clock: VirtualClock) -> None:
        begun = self.begin(store)
        assert isinstance(begun, BegunRequest)
        store.access.keep_answer("user:ada", "key 1", begun.began_at, 201, {}, b"")
        clock.advance(DAY)
        again = self.begin(store, "other")
        assert isinstance(again, BegunRequest)
        assert again.first_at == clock.now()


def test_secrets_are_stored_as_they_come_and_listed_without_values(store: Store, clock: VirtualClock) -> None:
    store.access.put_secret("TOKEN", SealedSecret("sealed"), "user:ada")
    assert store.access.get_secret("TOKEN") == SealedSecret("sealed", ())
    store.access.put_secret("TOKEN", SealedSecret("sealed anew", ("dag:x", "task:y")), "user:bob")
    assert store.access.get_secret("TOKEN") == SealedSecret("sealed anew", ("dag:x", "task:y"))
    (view,) = store.access.list_secrets()
    assert (view.name, view.set_at, view.set_by) == ("TOKEN", clock.now(), "user:bob")
    assert view.uses == ("dag:x", "task:y")
    assert store.access.delete_secret("TOKEN")
    assert not store.access.delete_secret("TOKEN")
    assert store.access.get_secret("TOKEN") is None


def test_a_store_has_an_id_that_stays_however_many_ask_first(open_store: OpensStore) -> None:
    store = open_store()
    found = at_once(*[store.access.store_id] * 4)
    assert len(set(found)) == 1
    assert len(found[0]) == 32
    assert open_store().access.store_id() == found[0]


def test_a_good_login_is_remembered_for_its_time(store: Store, clock: VirtualClock) -> None:
    assert not store.access.knows_login("known:x")
    store.access.remember_login("known:x", HOUR)
    clock.advance(30 * MINUTE)
    store.access.remember_login("known:x", HOUR)
    clock.advance(59 * MINUTE)
    assert store.access.knows_login("known:x")
    assert not store.access.knows_login("known:y")
    clock.advance(MINUTE)
    assert not store.access.knows_login("known:x")
    assert store.access.prune_access(9) == 1


def test_what_is_old_enough_is_pruned(store: Store, clock: VirtualClock) -> None:
    store.access.put_session("s", "token", "t", HOUR)
    store.access.admit_login({"name:ada": 3})
    store.access.begin_answer("a", "b", "c", MINUTE)
    for _ in range(3):
        store.audit.record_changes([AuditRow("a", "b", "c")])
    assert store.access.prune_access(10) == 0
    clock.advance(DAY)
    assert store.access.prune_access(10) == 1
    assert len(store.audit.list_changes(AuditFilter(), 9)) == 3
    clock.advance(365 * DAY)
    assert store.access.prune_access(2) == 2
    assert store.access.prune_access(2) == 1
    assert store.access.prune_access(2) == 0
