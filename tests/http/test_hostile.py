"""Values that no field is meant for, in every field of every route: each is taken or refused, and nothing breaks.

Stores differ in what they cannot hold: a NUL, half a character, an instant before the year 1, a number of 5,000 digits.
So each of them stands in each field once, on both stores, with something plausible in the other fields.
"""

import itertools
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec import inspect
from starlette.testclient import TestClient

from tickwork import Tickwork
from tickwork.http.route import Route
from tickwork.http.table import ROUTES

RAW = "hostile-%d"
EARLY, LATE = b'"0001-01-01T00:00:00+14:00"', b'"9999-12-31T23:59:59-14:00"'
HOSTILE: dict[str, tuple[bytes, ...]] = {
    "text": (b'"\\u0000"', b'"a\\u0000b"', b'"\\ud800"', b'"' + b"x" * 100_000 + b'"', b'"\\u001b[31m\\r\\n"', b'"\xf0\x9f\x92\xa9"', EARLY, LATE, b'""', b'"99999999999999999999d"', b'"-1s"', b'"1e400"', b'"../../etc/passwd"'),
    "number": (b"9" * 5000, b"9223372036854775808", b"-9223372036854775809", b"1e308", b"-1", b"0", b"NaN"),
    "instant": (EARLY, LATE),
    "any": (b'{"\\u0000": 1}', b"9" * 5000, b"9" * 30, b"[" * 900 + b"]" * 900, b"[" * 100_000 + b"]" * 100_000, b'{"$blob": {"key": "x", "size": 1}}', b'"\\ud800"', b"1e999"),
}
PLAIN = {"text": b'"a"', "number": b"1", "instant": b'"2026-11-01T12:00:00Z"', "any": b"1"}


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


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Leaf]]:
    if isinstance(value, Leaf):
        yield path, value
    elif isinstance(value, dict):
        for name, one in value.items():
            yield from leaves(one, (*path, name))
    elif isinstance(value, list):
        for at, one in enumerate(value):
            yield from leaves(one, (*path, at))


def written(value: Any, at: tuple[Any, ...] | None, hostile: bytes, drop: frozenset[str], path: tuple[Any, ...] = ()) -> bytes:
    if isinstance(value, Leaf):
        return hostile if path == at else PLAIN[value]
    if isinstance(value, dict):
        kept = {n: v for n, v in value.items() if path or n not in drop or (at and at[0] == n)}
        return b"{" + b",".join(msgspec.json.encode(n) + b":" + written(v, at, hostile, drop, (*path, n)) for n, v in kept.items()) + b"}"
    if isinstance(value, list):
        return b"[" + b",".join(written(v, at, hostile, drop, (*path, i)) for i, v in enumerate(value)) + b"]"
    return msgspec.json.encode(value)


def optional(kind: Any) -> frozenset[str]:
    info = inspect.type_info(kind)
    return frozenset(f.encode_name for f in info.fields if not f.required)


BODIES = [route for route in ROUTES if route.body is not None]


@pytest.mark.parametrize("route", BODIES, ids=lambda route: route.name)
def test_bodies(app: Tickwork, admin: TestClient, route: Route, monkeypatch: pytest.MonkeyPatch) -> None:
    made = example(inspect.type_info(route.body))
    bad = []
    monkeypatch.setenv("TICKWORK_SECRET_KEY", "ab" * 32)
    path = route.path.replace("{id}", seeded(admin, route)).replace("{", "").replace("}", "")
    for at, leaf in leaves(made):
        for drop in (optional(route.body), frozenset()):
            for hostile in HOSTILE[leaf]:
                data = written(made, at, hostile, drop)
                answer = admin.request(route.method, path, content=data, headers={"content-type": "application/json"})
                if answer.status_code >= 500:
                    bad.append((at, hostile[:40], answer.status_code, answer.text[:200]))
    assert not bad


DAG = """
dags:
  name:
    params: {a: {type: string, default: x}}
    steps:
      a: {task: a, args: {a: "${params.a}"}}
"""


def seeded(admin: TestClient, route: Route) -> str:
    """Something for routes to be about: everything is named a; the id of a job that is leased, or of a run."""
    admin.post("/api/v1/dags", json={"text": DAG}).raise_for_status()
    admin.put("/api/v1/schedules/name", json={"every": "1h", "task": "a"}).raise_for_status()
    admin.put("/api/v1/calendars/name", json={"dates": ["2026-12-25"]}).raise_for_status()
    admin.put("/api/v1/hooks/name", json={"style": "github", "secret": "A", "task": "a"}).raise_for_status()
    admin.post("/api/v1/users", json={"name": "name", "role": "viewer", "password": "a" * 8}).raise_for_status()
    if "/runs/" in route.path:
        run = admin.post("/api/v1/dags/name/runs", json={}).json()["id"]
        admin.post(f"/api/v1/runs/{run}/cancel").raise_for_status()
        return run
    admin.post("/api/v1/jobs", json={"task": "a", "args": {}}).raise_for_status()
    (job,) = admin.post("/api/v1/leases", json={"queues": ["default"], "worker": "w", "lease": "1h"}).json()["jobs"]
    return str(job["id"])


PATHS = ("%00", "a%00b", "%ed%a0%80", "%f0%9f%92%a9", "x" * 5000, "%0d%0a", "..%2f..%2fetc", "%1b%5b31m", "%ff")


@pytest.mark.parametrize("route", [route for route in ROUTES if route.names], ids=lambda route: route.name)
def test_paths(app: Tickwork, admin: TestClient, route: Route) -> None:
    made = None if route.body is None else written(example(inspect.type_info(route.body)), None, b"", optional(route.body))
    bad = []
    for hostile in PATHS:
        path = route.path
        for name in route.names:
            path = path.replace("{" + name + "}", hostile)
        answer = admin.request(route.method, path, content=made, headers={"content-type": "application/json"})
        if answer.status_code >= 500:
            bad.append((hostile, answer.status_code, answer.text[:200]))
    assert not bad


QUERIES = ("%00", "a%00b", "%ed%a0%80", "%f0%9f%92%a9", "x" * 5000, "9" * 5000, "9223372036854775808", "-1", "0", "1e400", "0001-01-01T00:00:00%2B14:00", "9999-12-31T23:59:59-14:00", "", "NaN", "true", "0:%00", "0:0", "1:a%00")


@pytest.mark.parametrize("route", [route for route in ROUTES if route.query], ids=lambda route: route.name)
def test_queries(app: Tickwork, admin: TestClient, route: Route, parts: Any) -> None:
    bad = []
    id = seeded(admin, route)
    parts.stopping.set()
    for name in route.names:
        path = route.path.replace("{id}", id).replace("{", "").replace("}", "")
    for field in inspect.type_info(route.query).fields:
        for hostile in QUERIES:
            path = route.path.replace("{id}", id).replace("{", "").replace("}", "")
            answer = admin.request(route.method, f"{path}?{field.encode_name}={hostile}")
            if answer.status_code >= 500:
                bad.append((field.name, hostile[:40], answer.status_code, answer.text[:200]))
    assert not bad
