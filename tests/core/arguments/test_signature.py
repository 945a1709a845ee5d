"""A call becomes JSON and a call again: arguments and results come back as what they were, or are refused at once."""

from __future__ import annotations

import functools
import math
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tickwork.core.arguments import payload
from tickwork.core.arguments.roundtrip import difference
from tickwork.core.arguments.signature import Signature
from tickwork.errors import InvalidArguments, InvalidInput, InvalidOption, InvalidPayload

if TYPE_CHECKING:
    from somewhere import Unknown  # type: ignore[import-not-found]


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


@dataclass
class Point:
    x: int
    y: float | None = None


@dataclass(frozen=True, slots=True)
class Order:
    id: UUID
    at: datetime
    total: Decimal
    points: list[Point] = field(default_factory=list)
    color: Color = Color.RED


@dataclass
class Point3(Point):
    z: int = 0


class Row(msgspec.Struct, frozen=True):
    key: bytes
    seen: frozenset[date] = frozenset()


class Pair(NamedTuple):
    left: int
    right: str


class Options(TypedDict):
    size: int
    name: NotRequired[str]


class Customer(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)

    name: str
    born: date
    score: float | None = None
    where: Point | None = None
    nick: str = pydantic.Field(default="", alias="nickName")


class Meeting(pydantic.BaseModel):
    at: datetime


EARLY, LATE = datetime(1980, 1, 1), datetime(2200, 1, 1)  # noqa: DTZ001 - Hypothesis adds the zones
NAIVE = datetime(2026, 11, 15)  # noqa: DTZ001 - to be refused

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=10)
ints = st.integers(-(2**63), 2**63 - 1)
floats = st.floats(allow_nan=False, allow_infinity=False)
decimals = st.decimals(allow_nan=False, allow_infinity=False)
zones = st.timezones() | st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
instants = st.datetimes(EARLY, LATE, timezones=zones)
points = st.builds(Point, ints, st.none() | floats)
orders = st.builds(Order, st.uuids(), instants, decimals, st.lists(points, max_size=3), st.sampled_from(Color))
rows = st.builds(Row, st.binary(max_size=9), st.frozensets(st.dates(), max_size=3))
pairs = st.builds(Pair, ints, texts)
customers = st.builds(
    Customer, name=texts, born=st.dates(), score=st.none() | floats, where=st.none() | points, nickName=texts
)
options = st.fixed_dictionaries({"size": ints}, optional={"name": texts})
extras = st.one_of(ints, texts, instants, st.uuids(), st.binary(max_size=5), st.sets(ints, max_size=3), decimals)
jsonish = st.recursive(extras, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3))

SUPPORTED: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (int, ints),
    (float, floats),
    (bool, st.booleans()),
    (str, texts),
    (bytes, st.binary(max_size=20)),
    (None, st.none()),
    (datetime, instants),
    (date, st.dates()),
    (time, st.times()),
    (timedelta, st.timedeltas()),
    (UUID, st.uuids()),
    (Decimal, decimals),
    (Path, texts.map(Path)),
    (Color, st.sampled_from(Color)),
    (Level, st.sampled_from(Level)),
    (Literal["a", "b", None], st.sampled_from(["a", "b", None])),
    (Point, points),
    (Order, orders),
    (Row, rows),
    (Pair, pairs),
    (Options, options),
    (Customer, customers),
    (list[Customer], st.lists(customers, max_size=3)),
    (Order | None, st.none() | orders),
    (int | str | list[Point] | None, st.none() | ints | texts | st.lists(points, max_size=3)),
    (str | datetime | UUID, texts | instants | st.uuids()),
    (Path | str, texts | texts.map(Path)),
    (list[int], st.lists(ints, max_size=5)),
    (set[UUID], st.sets(st.uuids(), max_size=5)),
    (frozenset[str], st.frozensets(texts, max_size=5)),
    (tuple[int, str, Color], st.tuples(ints, texts, st.sampled_from(Color))),
    (tuple[date, ...], st.lists(st.dates(), max_size=5).map(tuple)),
    (dict[str, Decimal], st.dictionaries(texts, decimals, max_size=5)),
    (dict[int, Point], st.dictionaries(ints, points, max_size=5)),
    (dict[UUID, list[bytes]], st.dictionaries(st.uuids(), st.lists(st.binary(max_size=5), max_size=3), max_size=3)),
    (Sequence[int], st.lists(ints, max_size=5)),
    (Iterable[int], st.lists(ints, max_size=5)),
    (Mapping[str, int], st.dictionaries(texts, ints, max_size=5)),
    (Annotated[int, msgspec.Meta(ge=0)], st.integers(0, 100)),
    (Any, jsonish),
    (object, jsonish),
    (dict, st.dictionaries(texts, jsonish, max_size=3)),
    (list, st.lists(jsonish, max_size=3)),
    (set, st.sets(ints | texts | st.uuids(), max_size=3)),
    (dict[str, Any], st.dictionaries(texts | st.just("$set"), jsonish, max_size=3)),
    (dict[str, Any] | list[Any] | None, st.none() | st.dictionaries(texts, jsonish, max_size=3) | st.lists(jsonish)),
    (list[tuple[str, Any]], st.lists(st.tuples(texts, jsonish), max_size=3)),
    (Any | None, st.none() | jsonish),
]
supported = st.sampled_from(SUPPORTED).flatmap(lambda pair: st.tuples(st.just(pair[0]), pair[1]))


def taking(hint: Any) -> Signature:
    """The signature of a task with one parameter, `value`, and a result, both of this hint."""

    def task(value: Any) -> Any: ...

    task.__annotations__ = {"value": hint, "return": hint}
    return Signature.of(task)


def back(hint: Any, value: Any) -> Any:
    signature = taking(hint)
    args, kwargs = signature.decode(signature.encode((value,), {}, "demo"))
    assert (args, list(kwargs)) == ((), ["value"])
    return kwargs["value"]


def refusal(kind: type[InvalidInput], hint: Any, value: Any) -> str:
    with pytest.raises(kind) as refused:
        taking(hint).encode((value,), {}, "demo")
    return str(refused.value)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, datetime):
        return type(one) is type(other) and not (one - other)
    if isinstance(one, Order):
        return same(one.at, other.at) and (one.id, one.total, one.points) == (other.id, other.total, other.points)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and not isinstance(one, Pair):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and bool(one == other)


each_supported_type = pytest.mark.parametrize(("hint", "values"), SUPPORTED, ids=[str(hint) for hint, _ in SUPPORTED])


@each_supported_type
@settings(max_examples=20)
@given(data=st.data())
def test_every_value_of_a_supported_type_comes_back_equal_and_of_the_same_type(
    hint: Any, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    value = data.draw(values)
    assert same(back(hint, value), value)


@each_supported_type
@settings(max_examples=20)
@given(data=st.data())
def test_every_result_of_a_supported_type_comes_back_equal_and_of_the_same_type(
    hint: Any, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    value, signature = data.draw(values), taking(hint)
    assert same(signature.decode_result(signature.encode_result(value, "demo")), value)


@each_supported_type
@settings(max_examples=20)
@given(data=st.data())
def test_what_was_stored_can_be_given_by_name_and_comes_back_the_same(
    hint: Any, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    value, signature = data.draw(values), taking(hint)
    stored = signature.encode((value,), {}, "demo")
    again = signature.encode_named(msgspec.json.decode(stored), "demo")
    assert same(signature.decode(again)[1]["value"], value)


@settings(max_examples=500)
@given(st.sampled_from(SUPPORTED), supported)
def test_any_value_for_any_hint_comes_back_as_that_hint_says_or_is_refused(one: Any, pair: tuple[Any, Any]) -> None:
    hint, (_, value) = one[0], pair
    try:
        result = back(hint, value)
    except InvalidInput:
        return
    assert difference(value, result) is None


# ---- binding --------------------------------------------------------------------------------------------------------


def send_email(to: str, subject: str = "hello", *, retries: int = 3) -> None: ...


def everything(a: int, b: int = 2, /, c: int = 3, *rest: int, d: int, **options: str) -> None: ...


def told(call: Callable[[], object]) -> str:
    with pytest.raises(InvalidArguments) as refused:
        call()
    return str(refused.value)


def test_arguments_are_stored_by_name_and_defaults_stay_the_workers() -> None:
    mail = Signature.of(send_email)
    assert mail.encode(("ada@example.org",), {}, "mail") == b'{"to":"ada@example.org"}'
    assert mail.encode((), {"retries": 1, "to": "a"}, "mail") == b'{"retries":1,"to":"a"}'
    assert mail.decode(b'{"to":"a"}') == ((), {"to": "a"})


def test_a_call_without_arguments_is_an_empty_object() -> None:
    def nothing() -> None: ...

    assert Signature.of(nothing).encode((), {}, "nothing") == b"{}"
    assert Signature.of(nothing).decode(b"{}") == ((), {})


def test_a_missing_argument_is_named() -> None:
    said = told(lambda: Signature.of(send_email).encode((), {"subject": "x"}, "mail"))
    assert said == "task 'mail' needs 'to'. It takes 'to', 'subject', 'retries'."


def test_an_unexpected_argument_is_named_and_the_nearest_one_suggested() -> None:
    said = told(lambda: Signature.of(send_email).encode(("a",), {"subjetc": "x"}, "mail"))
    assert said.startswith("task 'mail' has no parameter 'subjetc' (did you mean 'subject'?).")


def test_an_argument_given_twice_is_named() -> None:
    said = told(lambda: Signature.of(send_email).encode(("a",), {"to": "b"}, "mail"))
    assert said == "task 'mail' was given 'to' twice, by position and by name."


def test_too_many_positional_arguments_are_counted() -> None:
    said = told(lambda: Signature.of(send_email).encode(("a", "b", 3), {}, "mail"))
    assert said == "task 'mail' was given 3 arguments by position and takes 2 that way."


def test_a_positional_only_parameter_cannot_be_named() -> None:
    def task(a: int, /) -> None: ...

    assert "takes 'a' by position only" in told(lambda: Signature.of(task).encode((1,), {"a": 1}, "demo"))


calls = st.tuples(
    st.lists(ints, min_size=1, max_size=6).map(tuple),
    st.dictionaries(st.sampled_from(["a", "b", "x", "options", "rest"]), texts),
    ints,
)


@given(calls)
def test_every_kind_of_parameter_gets_back_what_it_was_given(call: tuple[Any, Any, int]) -> None:
    def spread(a: int, b: int = 2, /, c: int = 3, *rest: int, d: int, **options: str) -> Any:
        return a, b, c, rest, d, options

    given_args, named, d = call
    signature = Signature.of(everything)
    args, kwargs = signature.decode(signature.encode(given_args, {"d": d, **named}, "demo"))
    assert spread(*args, **kwargs) == spread(*given_args, d=d, **named)


def test_star_parameters_are_stored_under_their_own_names() -> None:
    data = Signature.of(everything).encode((1, 2, 3, 4, 5), {"d": 6, "e": "x"}, "demo")
    assert data == b'{"a":1,"b":2,"c":3,"rest":[4,5],"d":6,"options":{"e":"x"}}'


def test_star_parameters_are_checked_against_their_hints() -> None:
    signature = Signature.of(everything)
    assert "'rest' of task 'demo'" in told(lambda: signature.encode((1, 2, 3, "x"), {"d": 1}, "demo"))
    assert "'options' of task 'demo'" in told(lambda: signature.encode((1,), {"d": 1, "e": 5}, "demo"))


def test_the_first_parameter_of_a_transactional_task_is_no_argument() -> None:
    def task(connection: Any, order: int) -> None: ...

    signature = Signature.of(task, skip_first=True)
    assert signature.encode((5,), {}, "demo") == b'{"order":5}'
    assert signature.decode(b'{"order":5}') == ((), {"order": 5})


def test_partials_wrapped_functions_methods_and_callable_objects_have_signatures_too() -> None:
    @functools.wraps(send_email)
    def wrapped(*args: Any, **kwargs: Any) -> None: ...

    class Mailer:
        def __call__(self, to: Color) -> None: ...

        def method(self, to: Color) -> None: ...

    assert Signature.of(wrapped).encode(("a",), {}, "demo") == b'{"to":"a"}'
    assert Signature.of(functools.partial(send_email, subject="x")).encode(("a",), {}, "demo") == b'{"to":"a"}'
    for task in (Mailer(), Mailer().method):
        assert Signature.of(task).decode(b'{"to":"red"}') == ((), {"to": Color.RED})


def test_a_parameter_may_have_any_name() -> None:
    def task(self: int, cls: int, __x: int, naïve: int, type: int, p0: int) -> None: ...  # noqa: PLC2401 - any name

    signature = Signature.of(task)
    names = {"self": 1, "cls": 2, "__x": 3, "naïve": 4, "type": 5, "p0": 6}
    assert signature.decode(signature.encode((), names, "demo")) == ((), names)


# ---- values that do not fit -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hint", "value", "said"),
    [
        (int, "5", "expected int, was given str '5'"),
        (int, True, "expected int, was given bool True"),
        (int, 5.0, "expected int, was given float 5.0"),
        (int, None, "expected int, was given None"),
        (float, "1", "expected float, was given str '1'"),
        (float, 2**60 + 1, "would come back as 1.15"),
        (str, b"a", "expected str, was given bytes b'a'"),
        (str, Color.RED, "expected str, was given Color"),
        (datetime, "2026-11-15T00:00:00Z", "expected datetime, was given str '2026-11-15T00:00:00Z'"),
        (date, datetime(2026, 1, 1, tzinfo=UTC), "expected date, was given datetime"),
        (UUID, str(UUID(int=1)), "expected UUID, was given str"),
        (Path, "a/b", "expected Path, was given str 'a/b'"),
        (Color, "red", "expected Color, was given str 'red'"),
        (Literal["a", "b"], "c", "expected Literal['a', 'b'], was given str 'c'"),
        (Point, {"x": 1}, "expected Point, was given dict"),
        (Point, Point3(1), "expected Point, was given Point3"),
        (dict[str, int], {1: 1}, "would come back as {'1': 1}"),
        (dict[str, Any], {1: 1}, "would come back as {'1': 1}"),
        (list[int], {1}, "expected list[int], was given set {1}"),
        (list[int], "12", "expected list[int], was given str '12'"),
        (list[Any], "12", "expected list[Any], was given str '12'"),
        (list[int], [1, "2"], "expected list[int], but at $[1]: Expected `int`, got `str`"),
        (list[datetime], ["2026-11-15T00:00:00Z"], "expected datetime, was given str '2026-11-15T00:00:00Z' at $[0]"),
        (list[Point], [Point(1), Point("x")], "at $[1].x: Expected `int`, got `str`"),  # type: ignore[arg-type]
        (tuple[int, str], (1, "a", 2), "Expected `array` of length 2"),
        (tuple[int, Any], (1, "a", 2), "Expected `array` of length 2"),
        (Pair, (1, "a"), "expected Pair, was given tuple"),
        (Options, {"name": "a"}, "missing required field `size`"),
        (Options, {"size": 1, "sise": 2}, "would come back as {'size': 1}"),
        (Customer, {"name": "Ada", "born": "1815-12-10"}, "expected Customer, was given dict"),
        (Customer, {"name": 5}, "Customer says: name Input should be a valid string; born Field required"),
        (str | datetime, 5, "was given int 5"),
        (Point | Row, 5, "was given int 5"),
        (Annotated[int, msgspec.Meta(ge=0)], -1, "was given int -1"),
    ],
)
def test_a_value_that_is_not_what_its_hint_says_is_refused_at_enqueue(hint: Any, value: Any, said: str) -> None:
    message = refusal(InvalidArguments, hint, value)
    assert message.startswith("argument 'value' of task 'demo': ")
    assert said in message


@pytest.mark.parametrize(
    ("hint", "value", "said"),
    [
        (float, math.nan, "NaN and Infinity"),
        (float | None, math.inf, "NaN and Infinity"),
        (Point, Point(1, math.nan), "at $.y, NaN and Infinity"),
        (Customer, Customer(name="a", born=date(2026, 1, 1), score=math.nan), "at $.score, NaN and Infinity"),
        (Decimal, Decimal("Infinity"), "NaN and Infinity"),
        (int, 2**63, "64 bits; pass it as a string"),
        (set[int], {2**64}, "64 bits; pass it as a string"),
        (list[Point], [Point(-(2**63) - 1)], "at $[0].x, an integer does not fit"),
        (str, "a\0b", "holds a NUL character"),
        (Path, Path("a\0b"), "holds a NUL character"),
        (dict[str, int], {"a\0b": 1}, 'at $["a\\u0000b"], the text'),
        (list[str], ["a", "\ud800"], "at $[1], the text '\\ud800' holds a lone surrogate"),
        (datetime, NAIVE, "has no zone; give it one"),
        (datetime | None, NAIVE, "has no zone; give it one"),
        (Meeting, Meeting(at=NAIVE), "at $.at, the datetime 2026-11-15 00:00:00 has no zone"),
        (set[datetime], {NAIVE}, "has no zone; give it one"),
        (dict[datetime, int], {NAIVE: 1}, "has no zone; give it one"),
        (time, time(12, tzinfo=ZoneInfo("Europe/Berlin")), "depends on the day"),
        (dict[str, Any], {"a": [NAIVE]}, "at $.a[0], the datetime 2026-11-15 00:00:00 has no zone"),
        (Any, Point(1), "a Point has no JSON of its own; annotate the parameter"),
        (dict[str, Any], {"a": Color.RED}, "at $.a, a Color has no JSON of its own; annotate the parameter"),
        (set, {(1, 2)}, "a tuple inside a set"),
        (list[int], [range(3)], "at $[0], a builtins.range has no JSON"),
        (Point | Row, Point(1), "(Its hint "),
        (str, "x" * 300_000, "the payload of task 'demo' is 300,012 bytes; the cap is 262,144"),
    ],
)
def test_a_value_that_no_store_may_hold_is_refused_with_its_place(hint: Any, value: Any, said: str) -> None:
    message = refusal(InvalidPayload, hint, value)
    assert message.startswith(("argument 'value' of task 'demo' cannot be stored: ", "the payload of task 'demo'"))
    assert said in message


def test_a_typed_value_too_deep_or_inside_itself_is_refused_and_crashes_nothing() -> None:
    loop: list[Any] = []
    loop.append(loop)
    for hint in (list, Any, list[list[Any]]):
        assert "nested more than 64 levels deep" in refusal(InvalidPayload, hint, loop)


def test_a_hint_takes_what_is_as_good() -> None:
    assert back(float, 1) == 1.0
    assert back(list[int], (1, 2)) == [1, 2]
    assert back(Mapping[str, int], defaultdict(int, a=1)) == {"a": 1}
    assert type(back(int, Level.HIGH)) is int
    assert back(str, type("Markup", (str,), {})("<b>")) == "<b>"
    assert back(datetime, type("Frozen", (datetime,), {})(2026, 1, 1, tzinfo=UTC)) == datetime(2026, 1, 1, tzinfo=UTC)


def test_a_datetime_in_the_hour_that_its_zone_repeats_keeps_its_instant() -> None:
    for fold in (0, 1):
        late = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=fold)
        assert back(datetime, late).astimezone(UTC) == late.astimezone(UTC)


def test_a_default_of_none_lets_none_be_given() -> None:
    def task(limit: int = None) -> None: ...  # type: ignore[assignment]  # noqa: RUF013

    assert Signature.of(task).encode((None,), {}, "demo") == b'{"limit":null}'


def test_a_hint_for_type_checkers_only_counts_as_none() -> None:
    def task(a: Unknown, b: list[Unknown], c: int, *rest: Unknown, **named: Unknown) -> Unknown: ...

    signature = Signature.of(task)
    data = signature.encode((UUID(int=1), [{1}], 5, b"x"), {"z": Decimal(1)}, "demo")
    assert signature.decode(data) == ((UUID(int=1), [{1}], 5, b"x"), {"z": Decimal(1)})
    assert signature.decode_result(signature.encode_result({1}, "demo")) == {1}
    with pytest.raises(InvalidArguments, match="'c' of task 'demo': expected int, was given str 'x'"):
        signature.encode((1, [], "x"), {}, "demo")
    with pytest.raises(InvalidPayload, match="Its hint Unknown is not known where the task is defined"):
        signature.encode((Point(1), [], 5), {}, "demo")


def test_parameters_without_a_hint_get_back_what_they_were_given() -> None:
    def task(a, *rest, **named): ...  # type: ignore[no-untyped-def]

    signature = Signature.of(task)
    data = signature.encode(({"$x": 1}, {2}), {"when": timedelta(1)}, "demo")
    assert signature.decode(data) == (({"$x": 1}, {2}), {"when": timedelta(1)})


def test_pydantic_is_not_imported_for_tasks_that_do_not_use_it() -> None:
    code = "import sys, tickwork.core.arguments.signature; sys.exit('pydantic' in sys.modules)"
    environment = {"PYTHONPATH": ":".join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0


# ---- by name, as JSON -----------------------------------------------------------------------------------------------


def book(at: datetime, guests: list[Customer], note: Any = None, *extra: int, **labels: str) -> None: ...


def test_named_arguments_are_json_and_reach_the_handler_as_their_types() -> None:
    signature = Signature.of(book)
    ada = {"name": "Ada", "born": "1815-12-10"}
    data = signature.encode_named({"at": "2026-11-15T00:00:00Z", "guests": [ada], "labels": {"x": "y"}}, "book")
    args, kwargs = signature.decode(data)
    assert args == (datetime(2026, 11, 15, tzinfo=UTC), [Customer(name="Ada", born=date(1815, 12, 10))])
    assert kwargs == {"x": "y"}


@pytest.mark.parametrize(
    ("kind", "changed", "said"),
    [
        (InvalidArguments, {"att": 1}, "has no parameter 'att' (did you mean 'at'?)"),
        (InvalidArguments, {"at": 5}, "argument 'at' of task 'book': expected datetime, was given int 5"),
        (InvalidArguments, {"at": "tomorrow"}, "was given str 'tomorrow' (Invalid RFC3339 encoded datetime)"),
        (InvalidArguments, {"guests": [{"name": "A"}]}, "at $[0]: Customer says: born Field required"),
        (InvalidArguments, {"note": {"$nonsense": 1}}, 'a dict with that only key is {"$dict": {"$nonsense": …}}'),
        (InvalidArguments, {"extra": [1]}, "one that goes by position is missing before another one"),
        (InvalidArguments, {"labels": {"at": "x"}}, "'at' is among 'labels', but is a parameter of its own"),
        (InvalidPayload, {"at": "2026-11-15T00:00:00"}, "has no zone"),
        (InvalidPayload, {"at": datetime(2026, 11, 15, tzinfo=UTC)}, "is not plain JSON"),
        (InvalidPayload, {"note": {1: 2}}, "argument 'note' of task 'book' cannot be stored: {1: 2} is not plain JSON"),
        (InvalidPayload, {"note": math.nan}, "NaN and Infinity"),
        (InvalidPayload, {"note": ["a\0"]}, "argument 'note' of task 'book' cannot be stored: at $[0], the text"),
        (InvalidPayload, {"note": 2**64}, "64 bits"),
    ],
)
def test_named_arguments_that_do_not_fit_are_refused(kind: type[InvalidInput], changed: Any, said: str) -> None:
    with pytest.raises(kind) as refused:
        Signature.of(book).encode_named({"at": "2026-11-15T00:00:00Z", "guests": [], **changed}, "book")
    assert said in str(refused.value)


def test_a_missing_named_argument_is_named() -> None:
    assert told(lambda: Signature.of(book).encode_named({"guests": []}, "book")).startswith("task 'book' needs 'at'.")


# ---- in the worker --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "data", "said"),
    [
        (InvalidPayload, b"", "the stored arguments of send_email() cannot be read"),
        (InvalidPayload, b'{"to":', "the stored arguments of send_email() cannot be read"),
        (InvalidPayload, b'{"to":"\xff"}', "the stored arguments of send_email() cannot be read"),
        (InvalidArguments, b"[]", "do not fit send_email(): Expected `object`, got `array`"),
        (InvalidArguments, b"{}", "do not fit send_email(): Object missing required field `to`"),
        (InvalidArguments, b'{"to":5}', "do not fit send_email(): Expected `str`, got `int` - at `$.to`"),
        (InvalidArguments, b'{"to":"a","cc":"b"}', "do not fit send_email(): Object contains unknown field `cc`"),
    ],
)
def test_a_corrupt_or_outdated_row_fails_clearly(kind: type[InvalidInput], data: bytes, said: str) -> None:
    with pytest.raises(kind) as refused:
        Signature.of(send_email).decode(data)
    assert said in str(refused.value)


@given(st.binary(max_size=30) | jsonish.map(lambda value: payload.encode(value, what="x", limit_bytes=10**6)))
def test_any_row_is_read_or_refused(data: bytes) -> None:
    for task in (send_email, everything, book):
        with suppress(InvalidInput):
            Signature.of(task).decode(data)


# ---- results --------------------------------------------------------------------------------------------------------


def test_a_task_that_returns_none_stores_null() -> None:
    assert Signature.of(send_email).encode_result(None, "mail") == b"null"
    assert Signature.of(send_email).decode_result(b"null") is None


def test_a_result_without_an_annotation_comes_back_by_its_tags() -> None:
    def task(): ...  # type: ignore[no-untyped-def]

    signature = Signature.of(task)
    result = {"at": datetime(2026, 11, 15, tzinfo=UTC), "ids": {UUID(int=1)}}
    assert signature.encode_result(None, "demo") == b"null"
    assert signature.decode_result(signature.encode_result(result, "demo")) == result


@pytest.mark.parametrize(
    ("hint", "result", "said"),
    [
        (int, "5", "the result of task 'demo': expected int, was given str '5'"),
        (int, None, "the result of task 'demo': expected int, was given None"),
        (None, 5, "the result of task 'demo': expected NoneType, was given int 5"),
        (list[Point], [Point("x")], "the result of task 'demo': expected list["),  # type: ignore[arg-type]
        (datetime, "2026-11-15T00:00:00Z", "the result of task 'demo': expected datetime, was given str"),
        (list[float], [math.nan], "the result of task 'demo' cannot be stored: at $[0], NaN and Infinity"),
        (dict[str, Any], {"a": Point(1)}, "the result of task 'demo' cannot be stored: at $.a, a Point has no JSON"),
        (Any, Point(1), "annotate the parameter (or the return) with its type"),
    ],
)
def test_a_result_that_does_not_fit_is_refused(hint: Any, result: Any, said: str) -> None:
    with pytest.raises(InvalidPayload) as refused:
        taking(hint).encode_result(result, "demo")
    assert said in str(refused.value)


def test_a_result_over_the_cap_is_refused() -> None:
    assert len(taking(str).encode_result("x" * 98, "demo", limit_bytes=100)) == 100
    with pytest.raises(InvalidPayload, match="the result of task 'demo' is 101 bytes; the cap is 100: "):
        taking(str).encode_result("x" * 99, "demo", limit_bytes=100)


def test_a_stored_result_that_no_longer_fits_is_refused() -> None:
    with pytest.raises(InvalidPayload, match=r"the stored result of .* cannot be read: Expected `int`, got `str`"):
        taking(int).decode_result(b'"5"')


# ---- schema ---------------------------------------------------------------------------------------------------------


def test_the_schema_describes_the_arguments_by_name() -> None:
    schema = Signature.of(send_email).schema()["$defs"]["Arguments"]
    assert schema["required"] == ["to"]
    assert schema["additionalProperties"] is False
    assert {name: about["type"] for name, about in schema["properties"].items()} == {
        "to": "string",
        "subject": "string",
        "retries": "integer",
    }


@pytest.mark.parametrize("hint", [hint for hint, _ in SUPPORTED], ids=str)
def test_every_supported_hint_has_a_schema_that_json_can_hold(hint: Any) -> None:
    assert msgspec.json.encode(taking(hint).schema())


# ---- batch handlers, as one of their jobs meets them -----------------------------------------------------------------


def of_batch(function: Callable[..., Any]) -> Signature:
    return Signature.of_batch(function)


def test_a_job_of_a_batch_brings_one_item_by_position_or_by_name() -> None:
    def index(points: list[Point]) -> None: ...

    signature = of_batch(index)
    data = signature.encode((Point(1, 2.0),), {}, "index")
    assert data == b'{"points":{"x":1,"y":2.0}}'
    assert signature.encode((), {"points": Point(1, 2.0)}, "index") == data
    assert signature.encode_named({"points": {"x": 1, "y": 2.0}}, "index") == data
    assert signature.decode_one(data) == Point(1, 2.0)
    assert signature.schema()["$defs"]["Arguments"]["required"] == ["points"]
    for wrong in ([Point(1)], 7):
        with pytest.raises(InvalidArguments, match="argument 'points' of task 'index': expected Point"):
            signature.encode((wrong,), {}, "index")
    with pytest.raises(InvalidArguments, match="needs 'points'"):
        signature.encode((), {}, "index")
    with pytest.raises(InvalidArguments, match="the stored arguments do not fit"):
        signature.decode_one(b'{"points":7}')


def test_items_without_a_hint_come_back_as_what_they_were() -> None:
    def bare(items, /): ...  # type: ignore[no-untyped-def]
    def lists(items: list) -> None: ...  # type: ignore[type-arg]
    def anything(items: Any) -> Any: ...
    def unknown(items: list[Unknown]) -> list[Unknown]: ...

    for function in (bare, lists, anything, unknown):
        signature = of_batch(function)
        for value in (7, [1, 2], {1, 2}, UUID(int=5), None):
            assert signature.decode_one(signature.encode((value,), {}, "t")) == value


def test_what_is_a_list_by_another_name_is_one() -> None:
    def sequence(items: Sequence[int]) -> Sequence[int]: ...
    def iterable(items: Iterable[int]) -> list[int]: ...

    for function in (sequence, iterable):
        assert of_batch(function).decode_one(of_batch(function).encode((7,), {}, "t")) == 7


def test_the_result_of_a_job_is_one_of_the_list_and_exceptions_are_no_part_of_it() -> None:
    def nothing(items: list[int]) -> None: ...
    def some(items: list[int]) -> list[UUID]: ...
    def perhaps(items: list[int]) -> list[UUID] | None: ...
    def failing(items: list[int]) -> list[UUID | Exception]: ...
    def only_failing(items: list[int]) -> list[Exception | None]: ...

    one = UUID(int=1)
    for function, good, bad in (
        (nothing, [None], [one]),
        (some, [one], [None, 7, [one]]),
        (perhaps, [one, None], [7]),
        (failing, [one], [None, 7]),
        (only_failing, [None], [7]),
    ):
        signature = of_batch(function)
        for value in good:
            assert signature.decode_result(signature.encode_result(value, "t")) == value
        for value in bad:
            with pytest.raises(InvalidPayload):
                signature.encode_result(value, "t")


def test_a_batch_handler_that_does_not_take_or_return_lists_is_refused() -> None:
    def number(items: int) -> None: ...
    def pairs(items: dict[str, int]) -> None: ...
    def counts(items: list[int]) -> int: ...
    def either(items: list[int]) -> list[int] | list[str]: ...

    for function in (number, pairs):
        with pytest.raises(InvalidOption, match=r"annotate it as a list, like list\[int\]"):
            of_batch(function)
    for function in (counts, either):
        with pytest.raises(InvalidOption, match="returns None or a list with a result for each of its jobs"):
            of_batch(function)


# -- arguments of which a part is known


def test_known_arguments_are_checked_and_those_with_holes_only_written() -> None:
    def book(day: date, days: dict[str, date], rest: list[Any], n: int = 0) -> None: ...

    signature = Signature.of(book)
    bound = signature.bind((date(2026, 1, 2), {"a": None, "b": date(2026, 1, 3)}, [None, date(2026, 1, 4)]), {}, "book")
    data = signature.encode_some(bound, "book", {"days", "rest"})
    assert msgspec.json.decode(data) == {
        "day": "2026-01-02",
        "days": {"a": None, "b": "2026-01-03"},
        "rest": [None, {"$date": "2026-01-04"}],
    }
    with pytest.raises(InvalidArguments, match="argument 'days' of task 'book'"):
        signature.encode_some(bound, "book")
    with pytest.raises(InvalidArguments, match="argument 'day' of task 'book': expected date, was given int 5"):
        signature.encode_some({**bound, "day": 5}, "book", {"days", "rest"})
    with pytest.raises(InvalidPayload, match="argument 'rest' of task 'book' cannot be stored"):
        signature.encode_some({"rest": [math.nan]}, "book", {"rest"})


def test_arguments_may_be_written_one_by_one() -> None:
    def book(day: date, n: int) -> None: ...

    signature = Signature.of(book, kind="dag")
    assert signature.encode_some({"n": 3}, "book") == b'{"n":3}'
    with pytest.raises(InvalidArguments, match="argument 'n' of dag 'book': expected int, was given str 'x'"):
        signature.encode_some({"n": "x"}, "book")
