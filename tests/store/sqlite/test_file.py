"""The file behind a SQLite store: full or read-only disks, other writers, other libraries, forks and strange places."""

import os
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.store.builders import a_job, claim, insert_one, jobs
from tickwork.errors import MixedDrivers, StoreFull, StoreNotOurs, StoreReadOnly, StoreUnreachable
from tickwork.store.sqlite import SqliteStore
from tickwork.store.sqlite.file import connection
from tickwork.store.sqlite.file.connection import has_wal_defect

NOBODY = 65534


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture(params=["apsw", "sqlite3"])
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def store(path: Path, driver: str) -> Iterator[SqliteStore]:
    store = SqliteStore(str(path), driver=driver)
    yield store
    store.close()


def test_what_was_answered_is_on_the_disk(store: SqliteStore, path: Path) -> None:
    # Pragmas of a connection are only visible on it.
    for opened in (store._file._writer, connection.open_connection(str(path), store._file.driver)):
        assert opened.run("PRAGMA synchronous") == [(2,)], "FULL"
        assert opened.run("PRAGMA journal_mode") == [("wal",)]


def modes(folder: Path) -> dict[str, str]:
    return {path.name: f"{path.stat().st_mode & 0o777:o}" for path in folder.iterdir()}


def test_all_files_of_a_store_are_for_their_user_alone_whatever_the_umask(path: Path, driver: str) -> None:
    before = os.umask(0)
    try:
        store = SqliteStore(str(path), driver=driver)
        insert_one(store)
        waiter = store.waiter()
        found = modes(path.parent)
        waiter.close()
        assert not any("chmod 600" in one for one in store.health().warnings)
        store.close()
    finally:
        os.umask(before)
    assert found == {
        **dict.fromkeys(("jobs.db", "jobs.db-wal", "jobs.db-shm", "jobs.db-writer"), "600"),
        "jobs.db-wake": "700",
    }


def test_files_that_were_open_to_others_are_closed_to_them_when_their_owner_opens_the_store(
    path: Path, driver: str
) -> None:
    SqliteStore(str(path), driver=driver).close()
    for end in ("", "-writer"):
        Path(f"{path}{end}").touch()
        Path(f"{path}{end}").chmod(0o664)
    store = SqliteStore(str(path), driver=driver)
    insert_one(store)
    assert set(modes(path.parent).values()) == {"600"}
    store.close()


def test_files_of_another_user_keep_their_mode_and_are_a_finding(
    path: Path, driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    SqliteStore(str(path), driver=driver).close()
    path.chmod(0o644)
    monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
    store = SqliteStore(str(path), driver=driver)
    assert modes(path.parent)["jobs.db"] == "644"
    (finding,) = [one for one in store.health().warnings if "chmod 600" in one]
    assert str(path) in finding
    store.close()


def test_a_file_that_another_program_has_tables_in_keeps_its_mode(path: Path) -> None:
    own = sqlite3.connect(path)
    own.execute("CREATE TABLE orders (id INTEGER)")
    own.close()
    path.chmod(0o660)
    store = SqliteStore(str(path), adopt=True)
    assert modes(path.parent)["jobs.db"] == "660"
    assert any("chmod 600" in one for one in store.health().warnings)
    store.close()


def test_a_full_disk_refuses_the_whole_batch_and_work_goes_on_when_there_is_room(store: SqliteStore) -> None:
    ((pages,),) = store._file._writer.run("PRAGMA page_count")
    store._file._writer.run(f"PRAGMA max_page_count = {pages + 5}")
    batch = jobs(100, args=b'["%s"]' % (b"x" * 1000))
    with pytest.raises(StoreFull, match="Nothing was written"):
        store.insert_jobs(batch)
    assert store.reads.get_jobs([job.id for job in batch]) == {}

    store._file._writer.run("PRAGMA max_page_count = 1000000")
    assert len(store.insert_jobs(batch)) == 100


def test_a_store_that_cannot_be_written_says_so(store: SqliteStore) -> None:
    store._file._writer.run("PRAGMA query_only = 1")
    with pytest.raises(StoreReadOnly, match="cannot be written"):
        insert_one(store)


def test_a_read_only_file_is_refused_when_it_is_opened(tmp_path: Path, driver: str) -> None:
    folder = tmp_path / "readonly"
    folder.mkdir()
    SqliteStore(str(folder / "jobs.db"), driver=driver).close()
    (folder / "jobs.db").chmod(0o444)
    folder.chmod(0o555)
    raised = as_nobody(tmp_path, lambda: insert_one(SqliteStore(str(folder / "jobs.db"), driver=driver)))
    folder.chmod(0o755)
    assert raised in {"StoreReadOnly", "StoreUnreachable"}


def as_nobody(folder: Path, work: object) -> str:
    """Run `work` in a forked process that root's rights do not help; return the name of what it raised."""
    for parent in (folder, *folder.parents):
        if parent.stat().st_mode & 0o005 != 0o005:
            parent.chmod(parent.stat().st_mode | 0o005)
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            assert callable(work)
            work()
            os.write(writing, b"nothing")
        except BaseException as error:
            os.write(writing, type(error).__name__.encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        name = answer.read()
    os.waitpid(pid, 0)
    return name


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreUnreachable, match=r"no folder .*nowhere"):
        SqliteStore(str(tmp_path / "nowhere" / "jobs.db"))


def test_a_folder_is_no_file(tmp_path: Path, driver: str) -> None:
    with pytest.raises(StoreUnreachable, match="cannot be opened"):
        SqliteStore(str(tmp_path), driver=driver)


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "9p", "fuse.sshfs"])
def test_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    share = tmp_path / "a share"
    share.mkdir()
    mounts = tmp_path / "mounts"
    escaped = str(share).replace(" ", r"\040")
    mounts.write_text(f"/dev/sda1 / ext4 rw 0 0\nserver:/x {escaped} {kind} rw 0 0\ntmpfs /elsewhere tmpfs rw 0 0\n")
    monkeypatch.setattr(connection, "MOUNTS", mounts)
    with pytest.raises(StoreNotOurs, match=f"network file system.*{kind}"):
        SqliteStore(str(share / "jobs.db"))
    assert list(share.iterdir()) == []
    SqliteStore(str(tmp_path / "local.db")).close()


def test_another_writer_that_does_not_release_the_lock_is_blamed(
    path: Path, driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "BUSY_S", 0.2)
    store = SqliteStore(str(path), driver=driver)
    other = sqlite3.connect(path, isolation_level=None) if driver == "sqlite3" else None
    with store.connection() as tx:
        tx.execute("DELETE FROM tickwork_logs")
        waiting = SqliteStore.insert_jobs
        if not has_wal_defect(connection.library_version(driver)):
            with ThreadPoolExecutor(1) as thread, pytest.raises(StoreUnreachable, match="stayed locked"):
                thread.submit(waiting, store, [a_job()]).result()
    if other is not None:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnreachable, match="stayed locked"):
            waiting(store, [a_job()])
        other.execute("ROLLBACK")
        other.close()
    insert_one(store)
    store.close()


def test_writers_wait_for_each_other(path: Path) -> None:
    first, second = SqliteStore(str(path)), SqliteStore(str(path))
    with first.connection() as tx:
        first.insert_jobs([a_job()], tx=tx)
        waiting = threading.Thread(target=lambda: insert_one(second))
        waiting.start()
        waiting.join(0.1)
        assert waiting.is_alive()
    waiting.join(5)
    assert len(claim(first)) == 2
    first.close()
    second.close()


class TestLibraries:
    def test_one_file_is_not_opened_through_two(self, path: Path) -> None:
        store = SqliteStore(str(path), driver="apsw")
        with pytest.raises(MixedDrivers, match="driver='apsw'"):
            SqliteStore(str(path), driver="sqlite3")
        link = path.with_name("link.db")
        link.symlink_to(path)
        with pytest.raises(MixedDrivers):
            SqliteStore(str(link), driver="sqlite3")
        insert_one(store)
        store.close()

    def test_but_by_one_after_the_other(self, path: Path) -> None:
        for driver in ("apsw", "sqlite3", "apsw"):
            store = SqliteStore(str(path), driver=driver)
            another = SqliteStore(str(path), driver=driver)
            store.close()
            insert_one(another)
            another.close()

    @pytest.mark.parametrize(
        ("version", "defect"),
        [
            ("3.40.1", True),
            ("3.44.5", True),
            ("3.44.6", False),
            ("3.45.0", True),
            ("3.50.6", True),
            ("3.50.7", False),
            ("3.51.0", True),
            ("3.51.2", True),
            ("3.51.3", False),
            ("3.54.1", False),
        ],
    )
    def test_those_with_the_wal_defect_are_known(self, version: str, defect: bool) -> None:
        assert has_wal_defect(version) is defect

    def test_one_with_the_defect_is_used_behind_a_lock_and_warned_of(
        self, path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr("tickwork.store.sqlite.file.file.library_version", lambda driver: "3.40.1")
        store = SqliteStore(str(path))
        assert "3.51.3" in caplog.text
        assert path.with_name("jobs.db-writer").exists()
        insert_one(store)
        assert any("WAL-reset" in warning for warning in store.health().warnings)
        store.close()


def test_a_store_in_memory_is_a_store() -> None:
    store = SqliteStore(":memory:")
    insert_one(store)
    assert len(claim(store)) == 1
    assert store.waiter().fileno() == -1
    store.close()


def test_health_says_how_durable_it_is(store: SqliteStore, path: Path) -> None:
    facts = store.health().facts
    assert str(path) in facts["store"]
    assert "FULL" in facts["durability"]
    assert "host" in facts["clock"]


def test_a_script_runs_to_its_end_though_a_statement_has_rows_to_give(store: SqliteStore) -> None:
    writer = store._file._writer
    writer.script("PRAGMA journal_size_limit=1000;\nPRAGMA cache_size=1234;")
    assert writer.run("PRAGMA cache_size") == [(1234,)]
