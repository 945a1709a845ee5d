"""Values that no field is meant for, in every field of every route: each is taken or refused, and nothing breaks.

Stores differ in what they cannot hold: a NUL, half a character, an instant before the year 1, a number of 5,000 digits.
So each of them stands in each field once, on both stores, with something plausible in the other fields.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import pytest
from msgspec import inspect
from starlette.testclient import TestClient

from tickwork.http.framework.route import Route
from tickwork.http.routes import ROUTES
from tickwork.http.server_context import ServerContext

Path = tuple[str | int, ...]
JSON = {"content-type": "application/json"}
EARLY, LATE = b'"0001-01-01T00:00:00+14:00"', b'"9999-12-31T23:59:59-14:00"'
PUMPED = (
    b'"http://' + b"a" * 60 + b'-/"',
    b'"' + b" " * 20_000 + b'!"',
    b'"' + b"${" * 10_000 + b'"',
    b'"FREQ=DAILY;UNTIL=99991231T235959Z"',
    b'"DTSTART:00010101T000000Z\\nRRULE:FREQ=DAILY"',
    b'"R/1970-01-01T00:00Z/P1M365000D"',
    b'"0.00000000000000000001/h"',
)
HOSTILE: dict[str, tuple[bytes, ...]] = {
    "text": (b'"a\\u0000b"', b'"\\ud800"', b'"' + b"x" * 100_000 + b'"', EARLY, LATE, *PUMPED),
    "number": (b"9" * 5000, b"-9223372036854775809", b"1e308"),
    "instant": (EARLY, LATE),
    "any": (b'{"\\u0000": 1}', b"9" * 30, b"[" * 900 + b"]" * 900, b"[" * 100_000 + b"]" * 100_000),
}
PLAIN = {"text": b'"a"', "number": b"1", "instant": b'"2026-11-01T12:00:00Z"', "any": b"1"}
PATHS = ("a%00b", "%ed%a0%80", "x" * 5000, "%0d%0a", "..%2f..%2fetc", "%ff")
QUERIES = (
    "a%00b",
    "%ed%a0%80",
    "x" * 5000,
    "9" * 5000,
    "0001-01-01T00:00:00%2B14:00",
    "9999-12-31T23:59:59-14:00",
    "1:a%00",
)
DAG = """
dags:
  name:
    params: {a: {type: string, default: x}}
    steps:
      a: {task: a, args: {a: "${params.a}"}}
"""


class Leaf(str):
    """Stands for a value of a kind, until it is written."""


def example(kind: inspect.Type) -> Any:
    """Something of this type, with leaves where a value has to be made up."""
    match kind:
        case inspect.Metadata(type=inner):
            return example(inner)
        case inspect.UnionType(types=types):
            some = [one for one in types if not isinstance(one, inspect.NoneType)]
            text = [one for one in some if isinstance(one, inspect.StrType)]
            return example((text or some)[0])
        case inspect.StrType():
            return Leaf("text")
        case inspect.IntType() | inspect.FloatType():
            return Leaf("number")
        case inspect.DateTimeType():
            return Leaf("instant")
        case inspect.BoolType():
            return False
        case inspect.LiteralType(values=values):
            return values[0]
        case inspect.EnumType(cls=cls):
            return next(iter(cls)).value
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            return [example(item)]
        case inspect.DictType(value_type=value):
            return {"a": example(value)}
        case inspect.StructType(fields=fields) | inspect.TypedDictType(fields=fields):
            return {field.encode_name: example(field.type) for field in fields}
        case _:
            return Leaf("any")


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Leaf]]:
    """Yield the paths of values to make up, with their kinds."""
    if isinstance(value, Leaf):
        yield path, value
    elif isinstance(value, dict):
        for name, one in value.items():
            yield from leaves(one, (*path, name))
    elif isinstance(value, list):
        for at, one in enumerate(value):
            yield from leaves(one, (*path, at))


def written(value: Any, at: Path | None = None, hostile: bytes = b"", path: Path = ()) -> bytes:
    """A body as JSON, with a hostile value in one place."""
    if isinstance(value, Leaf):
        return hostile if path == at else PLAIN[value]
    if isinstance(value, dict):
        fields = (
            msgspec.json.encode(name) + b":" + written(one, at, hostile, (*path, name)) for name, one in value.items()
        )
        return b"{" + b",".join(fields) + b"}"
    if isinstance(value, list):
        return b"[" + b",".join(written(one, at, hostile, (*path, n)) for n, one in enumerate(value)) + b"]"
    return msgspec.json.encode(value)


def bodies(kind: Any) -> Iterator[bytes]:
    """Bodies with one hostile value each; beside it stands what has to, and nothing else."""
    info = inspect.type_info(kind)
    made = example(info)
    required = {field.encode_name for field in info.fields if field.required}  # type: ignore[attr-defined]
    for at, leaf in leaves(made):
        kept = {name: one for name, one in made.items() if name in required or name == at[0]}
        yield from (written(kept, at, hostile) for hostile in HOSTILE[leaf])


def plain_body(route: Route) -> bytes | None:
    return None if route.body is None else written(example(inspect.type_info(route.body)))


def path_of(route: Route, id: str) -> str:
    return re.sub(r"{(\w+)}", r"\1", route.path.replace("{id}", id))


@pytest.fixture
def seed(admin: TestClient, monkeypatch: pytest.MonkeyPatch) -> Callable[[Route], str]:
    """Makes something for routes to be about: all is called "name"; returns the id of a run, or of a leased job."""
    monkeypatch.setenv("TICKWORK_SECRET_KEY", "ab" * 32)

    def seed(route: Route) -> str:
        admin.post("/api/v1/dags", json={"text": DAG}).raise_for_status()
        admin.put("/api/v1/schedules/name", json={"every": "1h", "task": "a"}).raise_for_status()
        admin.put("/api/v1/hooks/name", json={"style": "github", "secret": "A", "task": "a"}).raise_for_status()
        admin.post("/api/v1/users", json={"name": "name", "role": "viewer", "password": "a" * 8}).raise_for_status()
        if "/runs/" in route.path:
            run = str(admin.post("/api/v1/dags/name/runs", json={}).json()["id"])
            admin.post(f"/api/v1/runs/{run}/cancel").raise_for_status()
            return run
        admin.post("/api/v1/jobs", json={"task": "a"}).raise_for_status()
        asked = {"queues": ["default"], "worker": "w", "lease": "1h"}
        (job,) = admin.post("/api/v1/leases", json=asked).json()["jobs"]
        return str(job["id"])

    return seed


def of(routes: Iterable[Route]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("route", list(routes), ids=lambda route: route.name)


@of(route for route in ROUTES if route.body is not None)
def test_no_value_of_a_body_breaks_the_server(admin: TestClient, route: Route, seed: Callable[[Route], str]) -> None:
    path = path_of(route, seed(route))
    for body in bodies(route.body):
        answer = admin.request(route.method, path, content=body, headers=JSON)
        assert answer.status_code < 500, (body[:200], answer.text)


@of(route for route in ROUTES if route.names)
def test_no_name_in_a_path_breaks_the_server(admin: TestClient, route: Route, parts: ServerContext) -> None:
    parts.stopping.set()
    for hostile in PATHS:
        path = re.sub(r"{\w+}", hostile.replace("\\", ""), route.path)
        answer = admin.request(route.method, path, content=plain_body(route), headers=JSON)
        assert answer.status_code < 500, (path[:200], answer.text)


@of(route for route in ROUTES if route.query is not None)
def test_no_parameter_breaks_the_server(
    admin: TestClient, route: Route, parts: ServerContext, seed: Callable[[Route], str]
) -> None:
    path = path_of(route, seed(route))
    parts.stopping.set()
    for name in route.query.__struct_encode_fields__:
        for hostile in QUERIES:
            answer = admin.get(f"{path}?{name}={hostile}")
            assert answer.status_code < 500, (name, hostile[:200], answer.text)
