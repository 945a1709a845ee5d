"""No regular expression of the package takes a time that grows faster than the text that it is given.

A match cannot be interrupted and lets no other thread run: one that takes for ever stops a worker, or the server. So
each pattern is tried with texts that it may be slow with (pumps.py), in a process that is ended when it takes too long.
"""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from tests.core.patterns import Found, Pump, all_patterns, cases_of
from tests.core.pumps import PUMPS

LONGEST_S = 120.0  # for all of them together, on a machine that does much else


def measured(cases: Sequence[dict[str, Any]], within_s: float = LONGEST_S) -> list[dict[str, Any]]:
    """Return the cases that are not linear. The case that does not end is the first without an answer."""
    given = "".join(json.dumps(case) + "\n" for case in cases)
    command = [sys.executable, "-m", "tests.core.patterns"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            answers, _ = process.communicate(given, timeout=within_s)
        except subprocess.TimeoutExpired:
            process.kill()
            answers, _ = process.communicate()
    is_linear = [json.loads(line) for line in answers.splitlines()]
    return [case for case, linear in zip(cases, [*is_linear, False], strict=False) if not linear]


def named(cases: Sequence[dict[str, Any]]) -> list[str]:
    return [f"{case['name']}.{case['use']}: {case['text']!r} on {case['pump']}" for case in cases]


def test_every_pattern_has_texts_to_be_tried_with() -> None:
    names = [found.name for found in all_patterns()]
    assert sorted(set(names) - PUMPS.keys()) == [], "write down in tests/core/pumps.py what these may be slow with"
    assert sorted(PUMPS.keys() - set(names)) == [], "these are gone"
    assert [name for name, count in Counter(names).items() if count > 1] == [], "give each of them a name"


def test_every_pattern_is_used() -> None:
    assert [found.name for found in all_patterns() if not found.uses] == []


@pytest.mark.timeout(300)
def test_twice_the_text_takes_twice_the_time() -> None:
    cases = [case for found in all_patterns() for pump in PUMPS.get(found.name, ()) for case in cases_of(found, pump)]
    assert named(measured(cases)) == []


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("text", "use", "pump"),
    [
        (r"(?=.{1,253}$)([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.?)+", "fullmatch", Pump("a", after="-")),
        (r"\s*(not\s)?\s*\$\{([^}]*)\}", "fullmatch", Pump(" ")),
        (r"([?&][^=&]*(?:password|token)[^=&]*=)[^&#]*", "sub", Pump("?password")),
        (r"^\s*-- include (\w+)\s*$", "search", Pump("\n")),
    ],
    ids=["exponential", "quadratic", "cubic", "quadratic search"],
)
def test_a_pattern_that_is_not_linear_is_found_out(text: str, use: str, pump: Pump) -> None:
    flags = 8 if text.startswith("^") else 0  # MULTILINE
    cases = list(cases_of(Found("bad", text, flags, {use}), pump))
    assert measured(cases, within_s=5.0) == cases
