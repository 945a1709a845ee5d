"""Dags in an app of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tickwork import Dag, Tickwork


@pytest.fixture
def made() -> Callable[..., Dag[Any, Any]]:
    """Makes a dag of a function, in an app of its own."""

    def make(function: Callable[..., Any], **options: Any) -> Dag[Any, Any]:
        return Tickwork().dag(name="etl", **options)(function)

    return make
