"""The chain of the audit log: each row gets its link, once, and what is changed afterwards is found."""

import re
import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import cast

import psycopg
import pytest

from tests.replaced import Replaced
from tests.store.builders import HOUR, MINUTE
from tests.store.conftest import OpensStore
from tests.store.hammer import at_once
from tickwork.services.audit_chainer import BATCH, INTERVAL_S, SETTLED_S, AuditChainer
from tickwork.store.admin.audit import AUDIT_KEPT, AuditRow, ChainHead, check_chain
from tickwork.store.base import Store
from tickwork.store.postgres import PostgresStore
from tickwork.store.rows.instants import to_us
from tickwork.testing import VirtualClock

DAY = 24 * HOUR
Tamper = Callable[..., None]


def record(store: Store, count: int = 1, first: int = 1) -> None:
    for number in range(first, first + count):
        store.audit.record_changes([AuditRow("user:ada", "create_job", f"job:{number}", b"1", b'{"n":2}', "r", "::1")])


def trouble(store: Store, known: ChainHead | None = None) -> str | None:
    return check_chain(store.audit, store.now(), to_us, known).trouble


@pytest.fixture
def tamper(store: Store) -> Tamper:
    """Changes tables behind the back of the store. {t} stands for the table's prefix."""

    def run(sql: str) -> None:
        prefix = f"{store.schema.name}." if isinstance(store, PostgresStore) else "tickwork_"
        with store.connection() as tx:
            tx.execute(sql.replace("{t}", prefix))

    return run


def link_often(store: Store) -> int:
    return sum(store.audit.link_changes(7) for _ in range(10))


class TestLinks:
    def test_every_row_gets_one_link_and_the_chain_holds(self, store: Store) -> None:
        assert check_chain(store.audit, store.now(), to_us) == (0, None, None)
        record(store, 5)
        assert store.audit.link_changes(3) == 3
        assert store.audit.link_changes(100) == 2
        assert store.audit.link_changes(100) == 0
        record(store, 2, 6)
        assert store.audit.link_changes(100) == 2
        found = check_chain(store.audit, store.now(), to_us)
        assert (found.rows, found.trouble) == (7, None)
        assert found.head is not None
        assert found.head.number == 7

    def test_many_who_link_at_once_make_one_chain(self, store: Store, open_store: OpensStore) -> None:
        record(store, 40)
        stores = [open_store() for _ in range(4)]
        counts = at_once(*(partial(link_often, one) for one in stores))
        assert sum(counts) == 40
        assert (check_chain(store.audit, store.now(), to_us).rows, trouble(store)) == (40, None)

    def test_a_row_that_was_committed_late_is_linked_late(self, store: Store, open_store: OpensStore) -> None:
        if not isinstance(store, PostgresStore):
            pytest.skip("writers of a SQLite file come one after the other")
        other = open_store()
        begun, goes_on = threading.Event(), threading.Event()

        def work() -> None:
            record(other)
            begun.set()
            assert goes_on.wait(10)

        thread = threading.Thread(target=lambda: other.in_one_transaction(work))
        thread.start()
        assert begun.wait(10)
        record(store, 1, 2)
        assert store.audit.link_changes(10) == 1
        goes_on.set()
        thread.join(10)
        assert store.audit.link_changes(10) == 1
        assert (check_chain(store.audit, store.now(), to_us).rows, trouble(store)) == (2, None)


class TestWhatIsFound:
    @pytest.mark.parametrize(
        ("sql", "said"),
        [
            ("UPDATE {t}audit SET who = 'user:bob' WHERE target = 'job:2'", "(user:bob, create_job, job:2"),
            ("UPDATE {t}audit SET after = '{\"n\":3}' WHERE target = 'job:2'", "was changed after it had its link (2)"),
            ("UPDATE {t}audit SET before = NULL WHERE target = 'job:2'", "was changed after it had its link (2)"),
            ("UPDATE {t}audit SET address = '' WHERE target = 'job:2'", "was changed after it had its link (2)"),
            ("DELETE FROM {t}audit WHERE target = 'job:2'", "(link 2) was deleted"),
            ("DELETE FROM {t}audit_links WHERE number = 2", "link 2 is missing"),
            ("UPDATE {t}audit_links SET digest = 'x' WHERE number = 2", "does not fit the link before it"),
            ("UPDATE {t}audit_links SET hash = 'x' WHERE number = 2", "link 2 of row"),
            ("DELETE FROM {t}audit_links WHERE number < 3", "the links before 3 are missing"),
        ],
    )
    def test_the_first_row_that_does_not_fit_is_named(self, store: Store, tamper: Tamper, sql: str, said: str) -> None:
        record(store, 4)
        store.audit.link_changes(100)
        tamper(sql)
        assert said in str(trouble(store))

    def test_a_chain_whose_end_was_cut_off_or_rewritten_does_not_have_the_head_that_is_known(
        self, store: Store, tamper: Tamper
    ) -> None:
        record(store, 4)
        store.audit.link_changes(100)
        known = check_chain(store.audit, store.now(), to_us).head
        record(store, 1, 5)
        store.audit.link_changes(100)
        assert trouble(store, known) is None
        tamper("DELETE FROM {t}audit_links WHERE number > 3")
        tamper("DELETE FROM {t}audit WHERE target IN ('job:4', 'job:5')")
        assert trouble(store) is None  # the chain alone does not tell
        assert "the end was cut off" in str(trouble(store, known))
        record(store, 1, 6)
        store.audit.link_changes(100)
        assert "was rewritten" in str(trouble(store, known))

    def test_a_row_that_gets_no_link_is_told_after_a_while(self, store: Store, clock: VirtualClock) -> None:
        record(store)
        assert trouble(store) is None
        clock.advance(2 * MINUTE)
        assert "has no link" in str(trouble(store))

    def test_a_row_beside_the_chain_is_told_though_its_time_is_still_to_come(
        self, store: Store, clock: VirtualClock, tamper: Tamper
    ) -> None:
        record(store)
        store.audit.link_changes(100)
        later = "now() + interval '9 years'" if isinstance(store, PostgresStore) else "9000000000000000"
        system = "OVERRIDING SYSTEM VALUE" if isinstance(store, PostgresStore) else ""
        columns = "id, at, who, action, target, request_id, address"
        said = f"-20000, {later}, 'user:bob', 'create_job', 'job:9', '', ''"
        tamper(f"INSERT INTO {{t}}audit ({columns}) {system} VALUES ({said})")
        assert store.audit.link_changes(100) == 0
        clock.advance(2 * MINUTE)
        assert "row -20000 (user:bob" in str(trouble(store))

    def test_what_was_pruned_is_no_trouble(self, store: Store, clock: VirtualClock, tamper: Tamper) -> None:
        record(store, 3)
        store.audit.link_changes(100)
        clock.advance(timedelta(days=200))
        record(store, 3, 4)
        store.audit.link_changes(100)
        clock.advance(AUDIT_KEPT - timedelta(days=100))
        for _ in range(3):
            store.access.prune_access(2)
        found = check_chain(store.audit, store.now(), to_us)
        assert (found.rows, found.trouble) == (3, None)
        record(store, 1, 7)
        assert store.audit.link_changes(100) == 1
        tamper("DELETE FROM {t}audit WHERE target = 'job:4'")
        assert "was deleted" in str(trouble(store))

    def test_a_beginning_that_was_cut_off_is_found_though_its_edge_is_made_to_look_old(
        self, store: Store, tamper: Tamper
    ) -> None:
        record(store, 6)
        store.audit.link_changes(100)
        known = check_chain(store.audit, store.now(), to_us).head
        tamper("DELETE FROM {t}audit WHERE target IN ('job:1', 'job:2', 'job:3', 'job:4')")
        tamper("DELETE FROM {t}audit_links WHERE number < 4")
        old = "now() - interval '2 years'" if isinstance(store, PostgresStore) else "1"
        tamper(f"UPDATE {{t}}audit_links SET at = {old} WHERE number = 4")
        assert "the links before 4 are missing" in str(trouble(store))
        assert "the links before 4 are missing" in str(trouble(store, known))
        tamper("DELETE FROM {t}audit WHERE target IN ('job:5', 'job:6')")
        tamper("DELETE FROM {t}audit_links WHERE number > 4")
        assert "the links before 4 are missing" in str(trouble(store))

    def test_a_known_head_that_was_pruned_is_not_passed_over(self, store: Store, clock: VirtualClock) -> None:
        record(store, 1)
        store.audit.link_changes(100)
        known = check_chain(store.audit, store.now(), to_us).head
        record(store, 5, 2)
        store.audit.link_changes(100)
        clock.advance(2 * AUDIT_KEPT)
        for _ in range(5):
            store.access.prune_access(100)
        found = check_chain(store.audit, store.now(), to_us)
        assert (found.rows, found.trouble, found.head and found.head.number) == (0, None, 6)
        assert trouble(store, found.head) is None
        assert "link 1, which was known before, is not there any more" in str(trouble(store, known))

    def test_links_are_pruned_from_the_beginning_alone(self, store: Store, clock: VirtualClock, tamper: Tamper) -> None:
        record(store, 9)
        store.audit.link_changes(100)
        clock.advance(2 * AUDIT_KEPT)
        tamper("DELETE FROM {t}audit WHERE target <> 'job:4'")
        kept = "now() + interval '9 years'" if isinstance(store, PostgresStore) else "9000000000000000"
        tamper(f"UPDATE {{t}}audit SET at = {kept}")
        store.access.prune_access(100)
        assert [one.link.number for one in store.audit.linked_changes(0, 100)] == [2, 3, 4, 5, 6, 7, 8, 9]


class TestService:
    def test_rows_have_their_links_within_ten_seconds(self, store: Store, clock: VirtualClock) -> None:
        assert 2 * INTERVAL_S <= 10
        linker = AuditChainer(store, clock)
        record(store)
        assert linker.tick(0.0) == INTERVAL_S
        assert store.audit.unlinked_changes(1) == []
        clock.advance(timedelta(seconds=INTERVAL_S))
        record(store)
        linker.tick(0.0)
        assert store.audit.unlinked_changes(1) == []

    def test_a_log_that_does_not_grow_is_left_alone(self, store: Store, clock: VirtualClock) -> None:
        linker = AuditChainer(store, clock)
        record(store)
        linker.tick(0.0)
        clock.advance(timedelta(seconds=SETTLED_S))
        calls: list[int] = []

        def link_changes(limit: int) -> int:
            calls.append(limit)
            return store.audit.link_changes(limit)

        linker._store = cast("Store", Replaced(store, audit=Replaced(store.audit, link_changes=link_changes)))
        assert linker.tick(0.0) == INTERVAL_S
        assert calls == []
        record(store)
        linker.tick(0.0)
        assert calls == [BATCH]


def test_a_role_that_may_only_add_to_the_log_runs_everything(
    postgres_database: str, schema: str, clock: VirtualClock
) -> None:
    role = f"app_{schema}"
    with psycopg.connect(postgres_database, autocommit=True) as owner:
        owner.execute(f"DROP ROLE IF EXISTS {role}".encode())
        owner.execute(f"CREATE ROLE {role}".encode())
        owner.execute(f"GRANT USAGE ON SCHEMA {schema} TO {role}".encode())
        owner.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {role}".encode())
        tables = f"{schema}.audit, {schema}.audit_links"
        owner.execute(f"REVOKE UPDATE, DELETE, TRUNCATE ON {tables} FROM {role}".encode())
    apart = "&" if "?" in postgres_database else "?"
    store = PostgresStore(f"{postgres_database}{apart}options=-c%20role%3D{role}", schema=schema, clock=clock)
    try:
        record(store, 3)
        assert store.audit.link_changes(10) == 3
        assert trouble(store) is None
        clock.advance(2 * AUDIT_KEPT)
        store.access.prune_access(10)
        assert len(store.audit.linked_changes(0, 10)) == 3
        with pytest.raises(psycopg.errors.InsufficientPrivilege), store.connection() as tx:
            tx.execute(f"DELETE FROM {schema}.audit")
    finally:
        store.close()
        with psycopg.connect(postgres_database, autocommit=True) as owner:
            owner.execute(f"DROP OWNED BY {role}".encode())
            owner.execute(f"DROP ROLE {role}".encode())


DOCUMENTED = Path(__file__).parents[3] / "docs" / "server.md"
LOST = (
    "DELETE FROM {s}.audit",
    "UPDATE {s}.audit SET who = 'x'",
    "TRUNCATE {s}.audit",
    "DELETE FROM {s}.audit_links",
    "UPDATE {s}.audit_links SET hash = 'x'",
    "TRUNCATE {s}.audit_links",
    "DROP TABLE {s}.audit",
    "DROP TABLE {s}.audit_links",
    "DROP SCHEMA {s} CASCADE",
    "ALTER TABLE {s}.audit RENAME TO audit_before",
    "ALTER TABLE {s}.audit OWNER TO current_user",
    "CREATE TRIGGER t BEFORE INSERT ON {s}.audit FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
)


def test_what_the_guide_says_takes_the_log_out_of_the_hands_of_the_application(
    postgres_database: str, own_schema: str, clock: VirtualClock
) -> None:
    schema, owner, role = own_schema, f"{own_schema}_owner", f"{own_schema}_app"
    found = re.search("```sql\n(.*?audit_links.*?)```", DOCUMENTED.read_text(), re.DOTALL)
    assert found is not None
    said = re.sub(r"\btickwork\b", schema, found[1].replace("tickwork_", f"{schema}_"))
    apart = "&" if "?" in postgres_database else "?"
    as_role = f"{postgres_database}{apart}options=-c%20role%3D"
    with psycopg.connect(postgres_database, autocommit=True) as database:
        database.execute(
            f"CREATE ROLE {owner}; CREATE ROLE {role}; CREATE SCHEMA {schema} AUTHORIZATION {role}".encode()
        )
    try:
        first = PostgresStore(f"{as_role}{role}", schema=schema, clock=clock)
        first.upgrade()
        first.close()
        with psycopg.connect(postgres_database, autocommit=True) as database:
            database.execute(said.encode())
        store = PostgresStore(f"{as_role}{role}", schema=schema, clock=clock)
        try:
            record(store, 3)
            assert store.audit.link_changes(10) == 3
            for sql in LOST:
                with pytest.raises(psycopg.errors.InsufficientPrivilege), store.connection() as tx:
                    tx.execute(sql.format(s=schema))
            assert (check_chain(store.audit, store.now(), to_us).rows, trouble(store)) == (3, None)
        finally:
            store.close()
        with psycopg.connect(f"{as_role}{owner}") as database:  # an upgrade
            database.execute(f"ALTER TABLE {schema}.jobs ADD COLUMN more text; CREATE TABLE {schema}.more ()".encode())
        with psycopg.connect(f"{as_role}{role}") as database:
            database.execute(f"SELECT more FROM {schema}.jobs; SELECT FROM {schema}.more".encode())
    finally:
        with psycopg.connect(postgres_database, autocommit=True) as database:
            database.execute(f"DROP SCHEMA {schema} CASCADE".encode())
            database.execute(f"DROP OWNED BY {owner}, {role}; DROP ROLE {owner}, {role}".encode())
