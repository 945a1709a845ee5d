"""Arguments and results come back as what they were, through a real run on both stores."""

import enum
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import pydantic
import pytest

from tickwork import JobFailed, Tickwork


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


@dataclass(frozen=True)
class Address:
    street: str
    since: datetime


@dataclass
class Person:
    name: str
    home: Address
    colours: list[Colour]


class Order(pydantic.BaseModel):
    id: UUID
    price: Decimal
    placed_at: datetime


class Point(msgspec.Struct):
    x: float
    y: float = 0.0


NOON = datetime(2030, 1, 1, 12, 30, 15, 123456, tzinfo=UTC)
HOME = Address("Main Street", NOON)


def echo_task(app: Tickwork, hint: Any) -> tuple[Any, list[type]]:
    """A task of its own for a type, and the types of what it was given."""

    def echo(value: Any) -> Any:
        kinds.append(type(value))
        return value

    kinds: list[type] = []
    echo.__annotations__ = {"value": hint, "return": hint}
    return app.task(name=f"echo_{len(app.tasks)}")(echo), kinds


TYPED = [
    (int, 7),
    (float, 0.1),
    (bool, True),
    (str, "ünï∂é 🦆"),
    (type(None), None),
    (Colour, Colour.BLUE),
    (Size, Size.LARGE),
    (datetime, NOON),
    (datetime, datetime(2030, 1, 1, tzinfo=timezone(timedelta(hours=5, minutes=45)))),
    (date, date(2030, 2, 28)),
    (timedelta, timedelta(days=1, microseconds=7)),
    (UUID, UUID(int=2**100)),
    (Decimal, Decimal("12345678901234567890.1200")),
    (bytes, bytes(range(256))),
    (Address, HOME),
    (Person, Person("ada", HOME, [Colour.RED])),
    (Order, Order(id=UUID(int=7), price=Decimal("9.90"), placed_at=NOON)),
    (Point, Point(1.5)),
    (list[Order], [Order(id=UUID(int=7), price=Decimal("9.90"), placed_at=NOON)]),
    (dict[str, Point], {"a": Point(1, 2)}),
    (tuple[int, str], (1, "one")),
    (set[int], {1, 2, 3}),
    (int | None, None),
    (Address | None, HOME),
]


def test_typed_values_come_back_as_what_they_were(app: Tickwork) -> None:
    tasks = [(*echo_task(app, hint), value) for hint, value in TYPED]
    with app.worker():
        for task, kinds, value in tasks:
            back = task.enqueue(value).result(timeout=10)
            assert back == value
            assert type(back) is type(value)
            assert kinds == [type(value)], "the handler saw it as what it was"


UNTYPED = [
    {"a": [1, 2.5, None, True, "x"], "b": {"c": {}}},
    NOON,
    date(2030, 1, 1),
    timedelta(seconds=5),
    UUID(int=7),
    Decimal("1.10"),
    b"\0\xff",
    {1, 2},
    frozenset({"a"}),
    {"$uuid": "looks like one of ours"},
    {"at": NOON, "nested": [{"id": UUID(int=1), "price": Decimal("0.30")}]},
    2**63 - 1,
    -(2**63),
]


def test_without_hints_values_come_back_too(app: Tickwork) -> None:
    @app.task
    def echo(value):  # type: ignore[no-untyped-def]
        return value

    with app.worker():
        jobs = echo.enqueue_many([(value,) for value in UNTYPED])
        assert [job.result(timeout=10) for job in jobs] == UNTYPED
        assert echo.enqueue((1, 2)).result(timeout=10) == [1, 2]  # the one loss that is documented


def test_a_result_is_plain_json_where_its_task_is_not_known(store_url: str, app: Tickwork) -> None:
    @app.task
    def where() -> Address:
        return HOME

    other = Tickwork(store_url)
    with app.worker():
        job = where.enqueue()
        assert job.result(timeout=10) == HOME
        found = other.job(job.id)
        assert found is not None
        assert found.result() == {"street": "Main Street", "since": "2030-01-01T12:30:15.123456Z"}
    other.close()


def test_a_result_that_does_not_fit_its_hint_fails_the_job(app: Tickwork) -> None:
    @app.task(retries=5)
    def promises_a_number() -> int:
        return "seven"  # type: ignore[return-value]

    with app.worker(), pytest.raises(JobFailed, match="expected int"):
        promises_a_number.enqueue().result(timeout=10)


def test_defaults_of_today_apply_to_a_job_of_yesterday(app: Tickwork) -> None:
    @app.task
    def greet(name: str, greeting: str = "hello") -> str:
        return f"{greeting} {name}"

    job = app.enqueue("greet", name="ada")
    with app.worker():
        assert job.result(timeout=10) == "hello ada"
