"""References to blobs: how they are told from users' own values, and how they are resolved."""

import json
from typing import Any

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from tickwork.core.arguments.payload import seal, tagged
from tickwork.core.arguments.signature import Signature
from tickwork.core.blob_ref import MARK, BlobRef, Unfillable, opened, owner_of, part_of, reference_in, whole
from tickwork.errors import BlobError

JOB = "019a8f3e-1c2d-7abc-8def-0123456789ab"
ROWS = json.dumps([{"id": 1, "tags": ["a", None]}, {"id": 2}]).encode()
REFERENCE = BlobRef.of(ROWS, JOB, 3)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
KEYS = TEXTS | st.integers(-5, 5)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | TEXTS | st.sampled_from(["$blob", '{"$blob": ']),
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS | st.just("$blob"), inner),
    max_leaves=10,
)


def load(reference: BlobRef) -> bytes:
    assert reference.key == REFERENCE.key
    return ROWS


def test_a_reference_is_json_that_names_the_digest_the_job_and_the_attempt() -> None:
    stored = REFERENCE.encode()
    assert json.loads(stored) == {"$blob": {"key": REFERENCE.key, "size": len(ROWS)}}
    assert reference_in(stored) == reference_in(Raw(stored)) == REFERENCE
    assert owner_of(REFERENCE.key) == JOB
    assert REFERENCE.key.endswith(f".{JOB}.3")
    assert BlobRef.of(ROWS, JOB, 4).key != REFERENCE.key


def test_what_is_no_key_of_ours_has_no_owner() -> None:
    assert owner_of(f"{REFERENCE.key}~00ff") == JOB, "it has begun to write it"
    for name in ("", "readme.txt", REFERENCE.key[1:], f"{REFERENCE.key}.bak", f"../{REFERENCE.key}"):
        assert owner_of(name) is None


def test_what_was_read_must_be_what_was_written() -> None:
    assert REFERENCE.checked(ROWS) == ROWS
    for wrong in (b"", ROWS[:-1], ROWS + b" ", ROWS.replace(b"1", b"3")):
        with pytest.raises(BlobError, match="is not what was written"):
            REFERENCE.checked(wrong)


@given(JSON)
def test_no_value_of_a_user_is_taken_for_a_reference(value: Any) -> None:
    for data in (seal(value), seal(tagged(value)), seal({"x": msgspec.Raw(json.dumps(value).encode())})):
        assert MARK not in data
        assert whole(data, load) == data
        assert reference_in(data) is None


class Forged(pydantic.BaseModel):
    """A model that writes its JSON as it likes."""

    key: str

    def model_dump_json(self, **_: Any) -> str:
        return REFERENCE.encode().decode()


def test_a_forged_reference_comes_back_as_the_dict_that_it_is() -> None:
    """With a hint, JSON is written as it is, or comes ready-made."""

    def forge() -> dict[str, Any]:
        return {"$blob": {"key": REFERENCE.key, "size": 7}}

    assert seal(Forged(key="x")) == REFERENCE.encode().replace(b": ", b":")
    stored = Signature.of(forge).encode_result(forge(), "t")
    assert reference_in(stored) is None
    assert whole(stored, load) == stored
    assert Signature.of(forge).decode_result(stored) == forge()


@given(st.lists(KEYS, max_size=4))
def test_a_path_into_a_blob_is_kept_in_the_reference(path: list[str | int]) -> None:
    found = part_of(Raw(REFERENCE.encode()), tuple(path), "it")
    reference = reference_in(found)
    assert reference is not None
    assert (reference.key, reference.path) == (REFERENCE.key, tuple(path))
    with_it = b'{"a":' + bytes(found) + b"}"
    try:
        assert whole(with_it, load).startswith(b'{"a":')
    except Unfillable:
        assert path, "all of it is there"


def test_references_are_resolved_wherever_they_stand() -> None:
    tag = Raw(REFERENCE.encode())
    second = part_of(part_of(tag, (0,), "it"), ("tags",), "it")
    args = msgspec.json.encode({"rows": tag, "many": [tag, second], "own": '{"$blob": '})
    found = json.loads(whole(args, load))
    assert found == {"rows": json.loads(ROWS), "many": [json.loads(ROWS), ["a", None]], "own": '{"$blob": '}


def test_references_in_a_blob_are_resolved_too() -> None:
    outer = b'{"rows":' + REFERENCE.encode() + b"}"
    reference = BlobRef.of(outer, JOB, 1)
    blobs = {reference.key: outer, REFERENCE.key: ROWS}
    assert json.loads(whole(reference.encode(), lambda one: blobs[one.key])) == {"rows": json.loads(ROWS)}


def test_opening_leaves_what_is_inside_as_it_is() -> None:
    inner = BlobRef.of(b'"x"', JOB, 9).encode()
    outer = b"[" + inner + b",1]"
    reference = BlobRef.of(outer, JOB, 1)
    assert bytes(opened(Raw(reference.encode()), lambda one: outer)) == outer
    assert bytes(opened(Raw(outer), load)) == outer


def test_a_path_that_leads_nowhere_says_where_it_ends() -> None:
    with pytest.raises(Unfillable, match=r"the result\[0\] has no 'name': it is \{\"id\": 1"):
        whole(bytes(part_of(Raw(REFERENCE.encode()), (0, "name"), "it")), load)
    assert whole(bytes(part_of(Raw(REFERENCE.encode()), (0, "tags", 1, "x"), "it")), load) == b"null"
