"""Parse the conditions of steps: `${check.result.ok}`, `not ${check.result.ok}`, `${count.result} > 10`.

The right operand is a value in YAML syntax: 10, done, "10", [eu, us], null.
"""

from __future__ import annotations

import re
from typing import Any

from tickwork.core.dag.graph import Comparison, Condition
from tickwork.core.yaml_loader import read_yaml
from tickwork.declare.expressions import Inexpressible, NameScope, expression, has_expression
from tickwork.errors import InvalidInput

_SIGNS: tuple[Comparison, ...] = ("==", "!=", "<", "<=", ">", ">=", "in", "not in")
_CONDITION = re.compile(r"(not\s+)?\$\{([^}]*)\}\s*(?:(==|!=|<=|>=|<|>|in\b|not\s+in\b)(.*))?", re.DOTALL)


def read_condition(text: str, scope: NameScope) -> Condition:
    """Parse a condition. Raises Inexpressible."""
    found = _CONDITION.fullmatch(text.strip())
    if found is None or (found[1] and found[3]):
        raise Inexpressible(
            f"{text!r} is not a condition: say ${{STEP.result}}, not ${{STEP.result}}, or ${{STEP.result}} > 10, "
            f"with one of {' '.join(_SIGNS)}."
        )
    value = expression(found[2].strip(), scope)
    if found[3] is None:
        return Condition(value, "false" if found[1] else "true")
    sign = next(one for one in _SIGNS if one == " ".join(found[3].split()))
    return Condition(value, sign, _other(text, sign, found[4]))


def _other(text: str, sign: str, right: str) -> Any:
    """Return the value of the right operand. Raises Inexpressible."""
    if has_expression(right):
        raise Inexpressible(f"{text!r} compares with another expression; on the right stands a value, such as 10.")
    if not right.strip():
        raise Inexpressible(f"{text!r} does not say what to compare with.")
    try:
        (document,) = read_yaml(right.strip(), file="")
    except (InvalidInput, ValueError):
        raise Inexpressible(f"{text!r}: {right.strip()!r} is not a value as YAML has them.") from None
    if sign.endswith("in") and not isinstance(document.value, list):
        raise Inexpressible(f"{text!r}: {sign} asks for a list, such as [eu, us].")
    return document.value
