"""Suggestions for misspelled names."""

import difflib

import pytest

from tickwork.core.text.suggestions import closest


@pytest.mark.parametrize(
    ("name", "expected"),
    [("fecth", "fetch"), ("fetc", "fetch"), ("etch", "fetch"), ("unrelated", None), ("f" * 41, None)],
)
def test_the_closest_name(name: str, expected: str | None) -> None:
    assert closest(name, ["load", "fetch", "f" * 40]) == expected


def test_the_closest_of_many_names() -> None:
    names = [f"step{at}" for at in range(400)] + ["fetch_orders"]
    assert closest("fetch_order", names) == "fetch_orders"
    assert closest("fecth_orders", names) == "fetch_orders"


def test_few_of_many_names_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []
    monkeypatch.setattr(difflib.SequenceMatcher, "set_seq1", lambda self, name: compared.append(name))
    monkeypatch.setattr(difflib.SequenceMatcher, "real_quick_ratio", lambda self: 0.0)
    assert closest("name", [f"name{at}" for at in range(100_000)]) is None
    assert len(set(compared)) <= 6  # with the empty one that a matcher begins with
