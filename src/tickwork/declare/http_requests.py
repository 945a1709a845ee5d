"""Read HTTP requests of steps and schedules from a file into arguments of the task `http`."""

from __future__ import annotations

from typing import Any

from tickwork.core.duration import parse_duration
from tickwork.core.web.answer import is_expected
from tickwork.declare.context import ReadContext
from tickwork.declare.dag_fields import HttpFields
from tickwork.declare.expressions import NameScope, PlaceholderWriter
from tickwork.declare.node import Node
from tickwork.declare.read_struct import read_struct
from tickwork.declare.schedules import made

_MAY_BE_SECRET = ("url", "headers", "auth")


def request_of(place: Node, reading: ReadContext) -> dict[str, Any]:
    """Return the arguments of a request outside of a dag, which may use secrets but no values of a run."""
    read_struct(place, HttpFields, reading.problems)
    filler = PlaceholderWriter(NameScope(), reading)
    return filler.arguments(read_request(place, filler))


def read_request(place: Node, filler: PlaceholderWriter) -> dict[str, Any]:
    """Return the arguments of a request, without the texts with secrets, which `filler` keeps. Reports all errors."""
    problems, url, auth = filler.reading.problems, place["url"], place["auth"]
    if place.has("json") and place.has("body"):
        problems.add(place["body"], "json is the body already: say one of them.")
    if auth.is_there and sum(auth.has(name) for name in auth.names()) != 1:
        problems.add(auth, "say one of basic, bearer and hmac.")
    if isinstance(url.value, str) and not url.value.startswith(("http://", "https://", "${")):
        problems.note(url.misfit("must begin with http:// or https://"))
    _check_numbers(place, filler)
    return {
        name: filler.fill(place[name], name, as_text=name not in ("json", "expect"), secret=name in _MAY_BE_SECRET)
        for name in HttpFields.__struct_fields__
        if place.has(name)
    }


def _check_numbers(place: Node, filler: PlaceholderWriter) -> None:
    """Report invalid timeouts and expected statuses."""
    for name in ("timeout", "connect_timeout"):
        if place.has(name):
            with filler.reading.problems.gathered():
                made(place[name], lambda name=name: parse_duration(place[name].value, what=name))  # type: ignore[misc]
    if isinstance(place["expect"].value, list):
        with filler.reading.problems.gathered():
            made(place["expect"], lambda: is_expected(200, place["expect"].value))
