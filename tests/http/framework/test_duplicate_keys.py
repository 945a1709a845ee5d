"""A body in which an object has a key twice is refused: two parsers would read two requests."""

import hashlib
import hmac
import json
import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from tickwork.http.framework.duplicate_keys import WHOLE_LIMIT, repeated_key

JSON = {"content-type": "application/json"}
API = "/api/v1"
LARGE = b'"' + b"x" * WHOLE_LIMIT + b'"'


@pytest.mark.parametrize(
    ("method", "path", "body", "key"),
    [
        ("POST", "/jobs", b'{"task": "mail", "task": "shell"}', "task"),
        ("POST", "/jobs", b'{"task": "mail", "t\\u0061sk": "shell"}', "task"),
        ("POST", "/jobs", b'{"task": "mail", "args": {"to": "a", "cc": [{"x": 1, "x": 1}]}}', "x"),
        ("POST", "/jobs/batch", b'{"jobs": [{"task": "mail"}, {"task": "mail", "queue": "a", "queue": "b"}]}', "queue"),
        ("POST", "/jobs/batch", b'{"jobs": [{"task": "a", "args": {"n": 1e999}}], "jobs": [{"task": "mail"}]}', "jobs"),
        ("PUT", "/schedules/s", b'{"every": "1h", "task": "a", "task": "b"}', "task"),
        ("POST", "/leases", b'{"queues": ["default"], "worker": "a", "worker": "b"}', "worker"),
    ],
)
def test_a_body_with_a_key_twice_is_refused_and_the_key_is_named(
    admin: TestClient, method: str, path: str, body: bytes, key: str
) -> None:
    answer = admin.request(method, f"{API}{path}", content=body, headers=JSON)
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed")
    assert f"the key '{key}' twice" in answer.json()["detail"]
    assert admin.get(f"{API}/jobs").json()["items"] == []


@pytest.fixture
def secret_of_a_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A", "s3cret")
    monkeypatch.setenv("TICKWORK_SECRET_ENV", "A")


def test_a_message_at_a_hook_with_a_key_twice_is_refused(secret_of_a_hook: None, admin: TestClient) -> None:
    admin.put(f"{API}/hooks/h", json={"style": "github", "secret": "A", "task": "a"}).raise_for_status()
    body = b'{"a": 1, "a": 2}'
    proof = "sha256=" + hmac.new(b"s3cret", body, hashlib.sha256).hexdigest()
    answer = admin.post("/hooks/h", content=body, headers={**JSON, "x-hub-signature-256": proof})
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed"), answer.text
    assert "'a' twice" in answer.json()["detail"]


keys = st.sampled_from(["a", "b", "", '"', "\\", '\\"', "ä", "a:b", '"a":', "\u2028"]) | st.text(max_size=4)
leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | keys
documents = st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(keys, inner), max_leaves=20)


@given(documents, st.booleans(), st.sampled_from([None, 1]))
def test_a_body_without_one_is_taken(document: Any, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(document, ensure_ascii=ascii_only, indent=indent)
    assert repeated_key(text.encode("utf-8", "replace")) is None


@given(st.dictionaries(keys, documents, min_size=1, max_size=4), documents, st.data(), st.booleans())
def test_a_key_that_is_there_twice_is_found_wherever_it_is(
    given_object: dict[str, Any], again: Any, data: st.DataObject, is_large: bool
) -> None:
    key = data.draw(st.sampled_from(sorted(given_object)))
    pairs = [*given_object.items(), (key, again)]
    said = "{" + ",".join(f"{json.dumps(name)}:{json.dumps(value)}" for name, value in pairs) + "}"
    wrapped = f'[0, {{"in": {said}}}]'.encode()
    whole = b'{"x": ' + LARGE + b', "y": ' + wrapped + b"}" if is_large else wrapped
    assert repeated_key(whole) == key


@pytest.mark.parametrize("number", [b"1e999", b"9" * 5_000, b"-" + b"9" * 400 + b".5"])
def test_a_number_of_any_size_hides_no_key(number: bytes) -> None:
    assert repeated_key(b'{"a": 1, "n": ' + number + b"}") is None
    assert repeated_key(b'{"a": 1, "n": ' + number + b', "a": 2}') == "a"
    assert repeated_key(b'{"a": ' + LARGE + b', "n": [' + number + b', {"k": 1, "k": 2}]}') == "k"


def test_to_look_for_a_key_takes_little_memory() -> None:
    body = b'{"jobs": [' + b",".join([b'{"task": "mail", "args": {"n": 1}}'] * 100_000) + b'], "jobs": []}'
    tracemalloc.start()
    assert repeated_key(body) == "jobs"
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * len(body)


def test_a_large_body_is_looked_at_in_parts() -> None:
    inner = b'{"a": ' + LARGE + b', "b": [1, {"k": 1}, ' + LARGE + b"]}"
    assert repeated_key(inner) is None
    assert repeated_key(inner.replace(b'"b"', b'"a"')) == "a"
    assert repeated_key(inner.replace(b'{"k": 1}', b'{"k": 1, "k": 2}')) == "k"


def test_the_time_that_it_takes_does_not_grow_with_the_square_of_the_keys() -> None:
    body = b"{" + b"".join(b'"%d":0,' % n for n in range(100_000)) + b'"99999":1}'
    began = time.process_time()
    assert repeated_key(body) == "99999"
    assert time.process_time() - began < 5


@pytest.mark.parametrize(("depth", "inner"), [(950, b"1"), (60, LARGE), (950, b'{"k": 1, "k": 2}')])
def test_a_body_too_deep_to_be_looked_at_is_refused(admin: TestClient, depth: int, inner: bytes) -> None:
    args = b'{"a":' * depth + inner + b"}" * depth
    answer = admin.post(f"{API}/jobs", content=b'{"task": "mail", "args": %s}' % args, headers=JSON)
    if (depth, inner) != (950, b"1"):
        assert (answer.status_code, answer.json()["code"]) == (400, "malformed")
    assert answer.status_code in (201, 400, 422)
