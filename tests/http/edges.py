"""Values at the edges of what fields take, and pumped texts, put into requests in the place of others."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any
from urllib.parse import quote

from hypothesis import strategies as st

from tests.core.pumps import PUMPS

PLACES = 3  # of a request that get another value
LENGTHS = (60, 2_000, 30_000)
PARAMETER_LENGTH = 5_000
EDGES = (
    "a\0b",
    "\x1b[2J",
    "",
    " ",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00",
    "FREQ=DAILY;UNTIL=99991231T235959Z",
    "DTSTART:00010101T000000Z\nRRULE:FREQ=DAILY",
    "R/1970-01-01T00:00Z/P1M365000D",
    "R99999999999/0001-01-01T00:00Z/PT1S",
    "0.00000000000000000001/h",
    "999999999999d",
    "-1s",
    "9" * 5_000,
    "${secret.A}",
    "${body.a}",
    "@dag",
    "__proto__",
)
NUMBERS = (0, -1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 10**30, 1e308, -1e-308, 5e-324)
OTHERS = (None, True, [], {}, [None] * 2_000, {"": {}}, {"$uuid": "x"}, {"$blob": {"key": "a", "size": 1}})
PUMPED = tuple(pump.text(times) for pumps in PUMPS.values() for pump in pumps for times in LENGTHS)
TEXTS = st.sampled_from(EDGES) | st.sampled_from(PUMPED)
VALUES = TEXTS | st.sampled_from(NUMBERS) | st.sampled_from(OTHERS)


def spiced(draw: Any, case: Any, there: Mapping[str, str]) -> Any:
    """A request about what is there, with other values in up to three places of it."""
    parameters = {name: quote(there.get(name, "name"), safe="") for name in case.path_parameters or {}}
    places = ["nothing", *(f"path {name}" for name in parameters), *(f"query {name}" for name in case.query or {})]
    for _ in range(draw(st.integers(1, PLACES))):
        found = list(leaves(case.body)) if isinstance(case.body, dict | list) else []
        place = draw(st.sampled_from(places + ["body"] * (2 * len(places) if found else 0)))
        kind, _, name = place.partition(" ")
        if kind == "path":
            parameters[name] = quote(draw(TEXTS)[:PARAMETER_LENGTH], safe="") or "%20"
        elif kind == "query":
            case.query[name] = draw(TEXTS)[:PARAMETER_LENGTH]
        elif kind == "body":
            within, key = draw(st.sampled_from(found))
            within[key] = deepcopy(draw(VALUES))
    if parameters:
        case.path_parameters = parameters
    return case


def leaves(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a body, and what it is in."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from leaves(value[key])
