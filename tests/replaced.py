"""An object with some of its attributes replaced, for tests that watch or break a verb of a store."""

from __future__ import annotations

from typing import Any


class Replaced:
    """Passes everything on to an object, except for the attributes that are given."""

    def __init__(self, of: object, **attributes: Any) -> None:
        self._of = of
        self.__dict__.update(attributes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of, name)
