"""The result type of one task contradicts the parameter type of another only if no value fits both."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Any, Literal

import pydantic
import pytest

from tickwork.core.arguments.fitting_types import JsonTypes
from tickwork.core.arguments.type_hints import Hint


class Model(pydantic.BaseModel):
    x: int


@dataclass
class Point:
    x: int


class Color(Enum):
    RED = "red"


def shape(hint: Any) -> JsonTypes:
    return JsonTypes.of(Hint.of(hint, globals()))


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (int, int),
        (int, float),
        (float, int),
        (int, int | None),
        (int | None, int),
        (date, str),
        (Color, Literal["red", "blue"]),
        (Point, dict[str, int]),
        (Point, Model),
        (list[int], tuple[int, ...]),
        (list[int], list[float]),
        (list[Any], list[int]),
        (list[int], Any),
        (Any, int),
        (list, list[int]),
        (int | list[str], list[int] | int),
        ("Unknown", int),
    ],
)
def test_doubt_is_a_fit(given: Any, wanted: Any) -> None:
    assert shape(given).fits(shape(wanted))


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (int, str),
        (None, int),
        (list[int], int),
        (Point, list[Point]),
        (Color, int),
        (list[str], list[int]),
        (list[list[int]], list[int]),
        (str | None, int | list[int]),
    ],
)
def test_what_can_never_be_is_none(given: Any, wanted: Any) -> None:
    assert not shape(given).fits(shape(wanted))
