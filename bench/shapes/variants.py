"""The list of measured variants: each shape plain, with a bound, and fused; other options on one shape only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bench.shapes.base import Shape, Variant
from bench.shapes.postgres import append as postgres_append
from bench.shapes.postgres import split as postgres_split
from bench.shapes.postgres import wide as postgres_wide
from bench.shapes.sqlite import append as sqlite_append
from bench.shapes.sqlite import split as sqlite_split
from bench.shapes.sqlite import wide as sqlite_wide

SHAPES = ("wide", "split", "append")
VARIANTS = (
    Variant("sqlite", "wide", "set"),
    Variant("sqlite", "wide", "set", fused=True),
    Variant("sqlite", "split", "rows"),
    Variant("sqlite", "split", "set"),
    Variant("sqlite", "split", "rows", fused=True),
    Variant("sqlite", "split", "set", fused=True),
    Variant("sqlite", "append", "set"),
    Variant("sqlite", "append", "set", fused=True),
    Variant("postgres", "wide", "json"),
    Variant("postgres", "wide", "json", bound=True),
    Variant("postgres", "wide", "json", bound=True, fused=True),
    Variant("postgres", "split", "json"),
    Variant("postgres", "split", "json", bound=True),
    Variant("postgres", "split", "json", bound=True, fused=True),
    Variant("postgres", "split", "unnest", bound=True, fused=True, only_drain=True),
    Variant("postgres", "split", "literal", bound=True, fused=True, only_drain=True),
    Variant("postgres", "append", "json"),
    Variant("postgres", "append", "json", bound=True),
    Variant("postgres", "append", "json", bound=True, fused=True),
)
_CLASSES: dict[tuple[str, str], type[Shape]] = {
    ("sqlite", "wide"): sqlite_wide.Wide,
    ("sqlite", "split"): sqlite_split.Split,
    ("sqlite", "append"): sqlite_append.Append,
    ("postgres", "wide"): postgres_wide.Wide,
    ("postgres", "split"): postgres_split.Split,
    ("postgres", "append"): postgres_append.Append,
}


@contextmanager
def opened(variant: Variant, url: str, worker: str = "one") -> Iterator[Shape]:
    """Open a session on a database for the duration of a block."""
    shape = _CLASSES[variant.store, variant.shape](variant, url, worker)
    try:
        yield shape
    finally:
        shape.close()
