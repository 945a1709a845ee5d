"""Invalid input is refused before anything is stored, with an error that names the value and the next step."""

import math
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from tickwork import InvalidInput, Tickwork, TickworkError
from tickwork.errors import (
    InvalidArguments,
    InvalidOption,
    InvalidPayload,
    MixedDrivers,
    StoreFull,
    StoreNotOurs,
    StoreReadOnly,
    StoreUnreachable,
)
from tickwork.store.sqlite.file import connection as sqlite_connection

NAIVE = datetime(2030, 1, 1)  # noqa: DTZ001


class Shop:
    """An app with a task, and another app that knows it by name only."""

    def __init__(self, app: Tickwork) -> None:
        self.app = app

        @app.task
        def send(to: str, n: int = 1, when: datetime | None = None) -> None: ...

        @app.task
        def anything(value: Any = None) -> None: ...

        self.send = send
        self.anything = anything


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def one_shop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """All of these tests share a store, since they may store nothing."""
    if request.param == "sqlite":
        app = Tickwork(f"sqlite:///{tmp_path_factory.mktemp('shop')}/tickwork.db")
    else:
        app = Tickwork(request.getfixturevalue("postgres_database"), schema="bad_input", upgrade=True)
    yield Shop(app)
    app.close()


@pytest.fixture
def shop(one_shop: Shop) -> Iterator[Shop]:
    yield one_shop
    assert one_shop.app.jobs() == [], "nothing was stored"


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


REFUSED: list[tuple[str, Callable[[Shop], object], type[Exception], str]] = [
    ("a missing argument", lambda s: s.send.enqueue(), InvalidArguments, "task 'send' needs 'to'"),
    (
        "an unknown argument",
        lambda s: s.send.enqueue("a", too=1),
        InvalidArguments,
        "no parameter 'too'.*It takes 'to'",
    ),
    ("too many arguments", lambda s: s.send.enqueue("a", 1, None, 4), InvalidArguments, "was given 4 arguments"),
    ("a wrong type", lambda s: s.send.enqueue("a", "2"), InvalidArguments, "argument 'n' of task 'send': expected int"),
    ("a wrong type by name", lambda s: s.send.enqueue(to=5), InvalidArguments, "argument 'to'.*expected str"),
    (
        "a row that is none",
        lambda s: s.send.enqueue_many(["abc"]),
        InvalidArguments,
        "each row .* is a tuple.*or a dict",
    ),
    ("one bad row of many", lambda s: s.send.enqueue_many([("a",), (1,)]), InvalidArguments, "expected str"),
    ("too large", lambda s: s.send.enqueue("x" * 300_000), InvalidPayload, "the cap is 262,144"),
    ("NaN", lambda s: s.anything.enqueue(math.nan), InvalidPayload, "NaN"),
    ("infinity inside", lambda s: s.anything.enqueue({"a": [math.inf]}), InvalidPayload, r"a.*Infinity"),
    ("NUL", lambda s: s.send.enqueue("a\0b"), InvalidPayload, "NUL"),
    ("NUL in a key", lambda s: s.anything.enqueue({"a\0": 1}), InvalidPayload, "NUL"),
    ("a lone surrogate", lambda s: s.send.enqueue("\ud800"), InvalidPayload, "lone surrogate"),
    ("a large integer", lambda s: s.anything.enqueue(2**64), InvalidPayload, "64 bits; pass it as a string"),
    ("too deep", lambda s: s.anything.enqueue(nested(100)), InvalidPayload, "64 levels"),
    ("no JSON", lambda s: s.anything.enqueue(object()), InvalidPayload, "has no JSON"),
    ("a naive argument", lambda s: s.send.enqueue("a", when=NAIVE), InvalidInput, "zone"),
    (
        "a naive time",
        lambda s: s.send.options(at=NAIVE).enqueue("a"),
        InvalidOption,
        "at is .* without a zone. Say which",
    ),
    ("a negative delay", lambda s: s.send.options(delay="-5s").enqueue("a"), InvalidOption, "delay: '-5s' is negative"),
    (
        "an unknown priority",
        lambda s: s.send.options(priority="vip").enqueue("a"),
        InvalidOption,
        "'high', 'normal', 'low'",
    ),
    (
        "5 parsecs",
        lambda s: s.send.options(timeout="5 parsecs").enqueue("a"),
        InvalidOption,
        "timeout: '5 parsecs' is not",
    ),
    ("a bare number", lambda s: s.send.options(delay=5).enqueue("a"), InvalidOption, "of what\\? Say '5s'"),
    ("for ever", lambda s: s.send.options(delay=timedelta.max).enqueue("a"), InvalidOption, "delay: .* is too long"),
    ("the end of time", lambda s: s.send.options(at=datetime.max.replace(tzinfo=UTC)), InvalidOption, "in the years"),
    ("an unknown option", lambda s: s.send.options(prioritty=1), InvalidOption, "did you mean 'priority'?"),
    (
        "one key for many",
        lambda s: s.send.options(key="k").enqueue_many([("a",)]),
        InvalidOption,
        "one live job per key",
    ),
    (
        "a strange transaction",
        lambda s: s.send.options(tx=object()).enqueue("a"),
        InvalidInput,
        "tx= is a builtins.object",
    ),
    ("by name: NaN", lambda s: s.app.enqueue("other", x=math.nan), InvalidPayload, "task 'other'.*NaN"),
    ("by name: NUL", lambda s: s.app.enqueue("other", x="\0"), InvalidPayload, "NUL"),
    ("by name: too large", lambda s: s.app.enqueue("other", x="x" * 300_000), InvalidPayload, "the cap is 262,144"),
    ("by name: positional", lambda s: s.app.enqueue("other", 1), InvalidArguments, "Pass them by name"),
    ("a name with NUL", lambda s: s.app.enqueue("a\0b"), InvalidOption, "the name of a task must be a printable text"),
    ("no name", lambda s: s.app.enqueue(""), InvalidOption, "the name of a task"),
    ("a limit of none", lambda s: s.app.jobs(limit=0), InvalidInput, "limit must be from 1 to 1000"),
    ("a limit of all", lambda s: s.app.jobs(limit=10**9), InvalidInput, "limit must be from 1 to 1000.*next_cursor"),
    ("a cursor", lambda s: s.app.jobs(cursor="there"), InvalidInput, "'there' is not a place .* next_cursor"),
    ("a filter", lambda s: s.app.jobs(colour="red"), InvalidInput, "cannot be chosen by 'colour'"),
    (
        "a state",
        lambda s: s.app.jobs(state="lost"),
        InvalidInput,
        "there is no state 'lost'; the states are waiting, queued",
    ),
    ("no job", lambda s: s.app.job(), InvalidInput, "an id or a key"),
    ("two jobs", lambda s: s.app.job("1", key="k"), InvalidInput, "an id or a key"),
    ("cancel what?", lambda s: s.app.cancel(), InvalidInput, "say which jobs"),
    ("discard what?", lambda s: s.app.discard(), InvalidInput, "say which jobs"),
    ("a key with NUL", lambda s: s.app.job(key="\0"), InvalidOption, "key must be a printable text"),
    ("a label with NUL", lambda s: s.app.jobs(label="\0"), InvalidOption, "labels must be a printable text"),
    ("a queue that is none", lambda s: s.app.cancel(queue=7), InvalidOption, "queue must be a printable text"),
    ("a rate", lambda s: s.app.redrive(rate="fast"), InvalidOption, "rate: 'fast' is not a rate"),
]


@pytest.mark.parametrize(("refused", "kind", "said"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_it_is_refused_before_anything_is_stored(
    shop: Shop, refused: Callable[[Shop], object], kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=f"(?s){said}") as error:
        refused(shop)
    assert isinstance(error.value, TickworkError)
    assert isinstance(error.value, ValueError)


def test_too_many_jobs_at_once_are_refused(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tickwork.api.client.ENQUEUE_LIMIT", 10)
    with pytest.raises(InvalidInput, match=r"11 jobs in one transaction are too many .*Enqueue them in parts"):
        shop.send.enqueue_many([("a",)] * 11)


def test_what_cannot_be_an_id_is_no_job(app: Tickwork) -> None:
    for id in ("nonsense", "", "\0", "00000000-0000-0000-0000-000000000000"):
        assert app.job(id) is None
        assert app.cancel(id) == 0


# -- tasks


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"pool": "fast"}, "pool must be one of thread, async, process, not 'fast'"),
        ({"pool": "async"}, "is a plain function, which cannot run in the pool 'async'"),
        ({"name": "a\nb"}, "the name of a task must be a printable text"),
        ({"name": ""}, "the name of a task must be a printable text"),
        ({"retrys": 3}, "did you mean 'retries'?"),
        ({"timeout": "soon"}, "timeout: 'soon' is not a duration"),
    ],
)
def test_a_task_with_a_wrong_option_is_refused_where_it_is_defined(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidOption, match=said):

        @Tickwork("sqlite:///unused.db").task(**given)
        def work() -> None: ...


@pytest.mark.parametrize("given", [{"pool": "thread"}, {"pool": "process"}, {"transactional": True}])
def test_an_async_task_runs_on_the_loop_only(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption, match="is an async function"):

        @Tickwork("sqlite:///unused.db").task(**given)
        async def work() -> None: ...


def test_two_tasks_of_one_name_are_refused() -> None:
    app = Tickwork("sqlite:///unused.db")

    @app.task
    def work() -> None: ...

    with pytest.raises(InvalidOption, match=r"two tasks are named 'work': .*test_bad_input.py:\d+ and .*name="):

        @app.task(name="work")
        def other() -> None: ...


def test_a_worker_needs_a_slot_and_real_queues(app: Tickwork) -> None:
    with pytest.raises(InvalidInput, match="concurrency must be at least 1"), app.worker(concurrency=0):
        pass
    for queue in ("", "mail:heavy", "mail:-1", ":3"):
        with (
            pytest.raises(InvalidInput, match=r"is not a queue\. Write NAME"),
            app.worker(queues=[queue]),
        ):
            pass


# -- stores


@pytest.mark.parametrize(
    ("url", "kind", "said"),
    [
        ("mysql://ada:secret@db/x", InvalidInput, "begins with 'mysql', which names no store. Write sqlite:///"),
        ("tickwork.db", InvalidInput, "names no store"),
        ("host=db password=s3cret", InvalidInput, r"begins with 'host=db password=\*\*\*', which names no store"),
        ("sqlite:", InvalidInput, "names no file. Write sqlite:///tickwork.db"),
        ("sqlite:////no/such/folder/tickwork.db", StoreUnreachable, "there is no folder /no/such/folder"),
        ("postgresql://ada:secret@127.0.0.1:1/x", StoreUnreachable, "127.0.0.1"),
    ],
)
def test_a_dead_or_wrong_url_is_refused_in_time_and_without_its_password(
    url: str, kind: type[Exception], said: str
) -> None:
    app = Tickwork(url)

    @app.task
    def work() -> None: ...

    began = time.monotonic()
    with pytest.raises(kind, match=said) as error:
        work.enqueue()
    assert time.monotonic() - began < 30
    assert "secret" not in str(error.value)


def test_a_file_that_is_no_database_is_refused_and_not_touched(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_bytes(b"dear diary, " * 1000)
    with pytest.raises(StoreNotOurs, match="is not a SQLite database"):
        Tickwork(f"sqlite:///{file}").jobs()
    assert file.read_bytes() == b"dear diary, " * 1000


def test_a_database_of_another_program_is_refused_and_not_touched(tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    other = apsw.Connection(str(file))
    other.execute("CREATE TABLE recipes (name TEXT)")
    other.close()
    before = file.read_bytes()
    with pytest.raises(StoreNotOurs, match=r"its tables: recipes.*Nothing was touched.*upgrade=True"):
        Tickwork(f"sqlite:///{file}").jobs()
    assert file.read_bytes() == before


def test_a_file_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    # A test cannot make a full or read-only disk; pragmas of the connection have the same effect.
    app.store._file._writer.run("PRAGMA query_only=ON")  # type: ignore[attr-defined]  # root may write anywhere
    with pytest.raises(StoreReadOnly, match=r"tickwork.db cannot be written.*Nothing was written"):
        app.enqueue("work")


def test_a_full_disk_says_so_and_is_no_trouble_once_there_is_room(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    writer = app.store._file._writer  # type: ignore[attr-defined]
    ((pages,),) = writer.run("PRAGMA page_count")
    writer.run(f"PRAGMA max_page_count={pages}")
    with pytest.raises(StoreFull, match=r"the disk of .* is full\. Nothing was written"):
        app.named("work").enqueue_many([{"x": "x" * 10_000}] * 100)
    assert app.jobs() == []
    writer.run("PRAGMA max_page_count=1000000")
    assert app.enqueue("work").state == "queued"


def test_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = [line.split(" ")[2] for line in Path("/proc/mounts").read_text().splitlines()]
    monkeypatch.setattr(sqlite_connection, "_NETWORK", frozenset(mounts))
    with pytest.raises(StoreNotOurs, match=r"network file system.*Nothing was touched.*TICKWORK_URL=postgresql"):
        Tickwork(f"sqlite:///{tmp_path}/tickwork.db").jobs()
    assert list(tmp_path.iterdir()) == []


def test_a_library_with_the_wal_defect_is_warned_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tickwork.store.sqlite.file.file.has_wal_defect", lambda version: True)
    Tickwork(f"sqlite:///{tmp_path}/tickwork.db").enqueue("work")
    assert "WAL-reset defect" in caplog.text
    assert "driver='apsw'" in caplog.text


def test_two_sqlite_libraries_on_one_file_are_refused(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    with pytest.raises(MixedDrivers, match="Use one of them"):
        Tickwork(app.url, driver="sqlite3").jobs()


def app_on(folder: Path) -> Tickwork:
    app = Tickwork(f"sqlite:///{folder}/tickwork.db")
    app.jobs()
    return app
