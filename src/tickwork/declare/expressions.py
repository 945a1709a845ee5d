"""Parse expressions in a file: `${params.day}`, `${run.scheduled_for}`, `${fetch.result.lines[0]}`, `${item}`.

Expressions are paths into values, never code.

A text that consists of one expression has its value, of any type; inside a longer text, the value is inserted as text.
`$${` stands for a plain `${`. A value with expressions is stored as JSON with placeholders.

Secrets, `${secret.NAME}`, are not values of the run: the worker reads them from the store. They are stored apart from
the other arguments, so that the result of a step cannot refer to a secret.

Conditions of steps are `${check.result.ok}`, `not ${check.result.ok}` and `${count.result} > 10`. The right operand is
a value in YAML syntax: 10, done, "10", [eu, us], null.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tickwork.core.blob_ref import Path
from tickwork.core.dag.graph import Comparison, Condition, Expression, Item, Param, Placeholder, Result, RunValue, Text
from tickwork.core.text.suggestions import guess
from tickwork.core.text.yaml_loader import read_yaml
from tickwork.declare.document_nodes import Node, ReadContext, UnusableNode
from tickwork.errors import InvalidInput

LENGTH_LIMIT = 2000  # characters of an expression; the time to find its step grows with the square of the length
RESERVED = ("params", "item", "secret")  # words that an expression may begin with besides the name of a step
ONE_ITEM = "item"  # the name of the element if a step maps over one unnamed list

_EXPRESSION = re.compile(r"\$\$\{|\$\{([^}]*)(\}?)")
_RESULT = re.compile(r"\.result(?![\w-])")
_PART = re.compile(r"""\.([\w-]+)|\[(-?[0-9]{1,9})\]|\["([^"]*)"\]|\['([^']*)'\]""")
_SECRET = re.compile(r"secret\.[A-Za-z_][A-Za-z0-9_]*")
_SECRET_ARGUMENT = "secrets"
_KEPT = object()
_OF_RUN = {
    "run.scheduled_for": ("scheduled_for",),
    "run.schedule": ("schedule",),
    "run.is_catchup": ("is_catchup",),
    "run.interval.from": ("interval", "from"),
    "run.interval.to": ("interval", "to"),
}


@dataclass(frozen=True, slots=True)
class NameScope:
    """The names that expressions may use: parameters, steps, mapped steps, and elements of a map.

    `roots`: if not empty, the only names that expressions may use, such as `body` in a hook.
    """

    params: Collection[str] = ()
    steps: Collection[str] = ()
    mapped: Collection[str] = ()
    items: Collection[str] = ()
    roots: Collection[str] = ()


class Inexpressible(Exception):
    """An expression or condition is invalid, or refers to an unknown name."""


def has_expression(text: str) -> bool:
    return any(found[0] != "$${" for found in _EXPRESSION.finditer(text))


def secrets_in(text: str) -> list[str]:
    """Return the names of the secrets in a text."""
    return [one[1].removeprefix("secret.") for one in _EXPRESSION.finditer(text) if _SECRET.fullmatch(one[1] or "")]


def plain(text: str) -> str:
    """Unescape a text without expressions: replace `$${` by `${`."""
    return text.replace("$${", "${")


def value_of(text: str, scope: NameScope, *, as_text: bool = False) -> Expression | str:
    """Parse a text: return a plain text, one expression, or a `Text` of several parts. Raises Inexpressible.

    `as_text`: return a `Text` even for a single expression, so that its value becomes text.
    """
    parts = list(_parts(text, scope))
    if all(isinstance(part, str) for part in parts):
        return "".join(str(part) for part in parts)
    if len(parts) == 1 and not as_text and not isinstance(parts[0], str):
        return parts[0]
    return Text(tuple(parts))


def _parts(text: str, scope: NameScope) -> Iterator[str | Param | RunValue | Result | Item]:
    """Split a text into plain texts and expressions. Raises Inexpressible."""
    end, said = 0, ""
    for found in _EXPRESSION.finditer(text):
        said += text[end : found.start()]
        end = found.end()
        if found[0] == "$${":
            said += "${"
            continue
        if not found[2]:
            raise Inexpressible("a ${ is not closed by a }; write $${ for a plain ${.")
        if said:
            yield said
        said = ""
        yield expression(found[1].strip(), scope)
    if said + text[end:]:
        yield said + text[end:]


def expression(inner: str, scope: NameScope) -> Param | RunValue | Result | Item:
    """Parse the text between ${ and }. Raises Inexpressible."""
    if len(inner) > LENGTH_LIMIT:
        raise Inexpressible(f"an expression has up to {LENGTH_LIMIT:,} characters, and this one has {len(inner):,}.")
    head = re.split(r"[.\[]", inner, maxsplit=1)[0]
    rest = inner[len(head) :]
    if scope.roots:
        return _root(inner, head, rest, scope)
    if head == "params":
        return _param(inner, rest, scope)
    if head == "item":
        return _item(inner, rest, scope)
    if head == "run" and not _RESULT.match(rest):  # a step may be named run
        return _of_run(inner)
    if head == "secret":
        raise Inexpressible(f"${{{inner}}} is allowed in env of shell, and in url, headers and auth of http.")
    return _result(inner, head, scope)


def _root(inner: str, head: str, rest: str, scope: NameScope) -> Param:
    if head not in scope.roots:
        known = ", ".join(f"${{{name}}}" for name in scope.roots)
        raise Inexpressible(f"${{{inner}}} names no value: there are {known}, and their parts.")
    return Param(head, _path(inner, rest))


def _param(inner: str, rest: str, scope: NameScope) -> Param:
    name, path = _named(inner, rest, "params.day")
    if name not in scope.params:
        raise Inexpressible(f"there is no parameter {name!r}{guess(name, scope.params)}.")
    return Param(name, path)


def _of_run(inner: str) -> RunValue:
    if inner not in _OF_RUN:
        known = ", ".join(f"${{{name}}}" for name in _OF_RUN)
        raise Inexpressible(f"${{{inner}}} names no value of the run: there are {known}.")
    return RunValue(_OF_RUN[inner])


def _item(inner: str, rest: str, scope: NameScope) -> Item:
    if not scope.items:
        raise Inexpressible(f"${{{inner}}} is an element of what a step is mapped over, and there is no map here.")
    if ONE_ITEM in scope.items:
        return Item(ONE_ITEM, _path(inner, rest))
    name, path = _named(inner, rest, f"item.{next(iter(scope.items))}")
    if name not in scope.items:
        raise Inexpressible(f"nothing is mapped as {name!r}{guess(name, scope.items)}.")
    return Item(name, path)


def _result(inner: str, head: str, scope: NameScope) -> Result:
    """Parse a result of a step. The name of the step is the text before `.result` and may contain dots."""
    ends = list(_RESULT.finditer(inner))
    for end in ends:
        if (step := inner[: end.start()]) in scope.steps:
            path = _path(inner, inner[end.end() :])
            if path and isinstance(path[0], str) and step in scope.mapped:
                raise Inexpressible(
                    f"${{{inner}}}: {step} is mapped, so its result is a list, which has no {path[0]!r}."
                )
            return Result(step, path)
    if ends:
        name = inner[: ends[0].start()]
        raise Inexpressible(f"there is no step {name!r}{guess(name, scope.steps)}.")
    if head in scope.steps:
        raise Inexpressible(f"${{{inner}}}: did you mean ${{{head}.result{inner[len(head) :]}}}?")
    raise Inexpressible(
        f"${{{inner}}} names no value: there are ${{params.NAME}}, ${{run.scheduled_for}}, ${{STEP.result}} and "
        f"${{item}}."
    )


def _named(inner: str, rest: str, example: str) -> tuple[str, Path]:
    name, *path = _path(inner, rest) or ("",)
    if not isinstance(name, str) or not name:
        raise Inexpressible(f"${{{inner}}} does not say which one: ${{{example}}}.")
    return name, tuple(path)


def _path(inner: str, text: str) -> Path:
    """Parse a path such as `.key[0]["any key"]`. Raises Inexpressible."""
    path: list[str | int] = []
    at = 0
    while at < len(text):
        found = _PART.match(text, at)
        if found is None:
            raise Inexpressible(f'${{{inner}}} cannot be read at {text[at:]!r}; a path is .key, [0] or ["any key"].')
        path.append(int(found[2]) if found[2] else found[1] or found[3] or found[4] or "")
        at = found.end()
    return tuple(path)


@dataclass(slots=True)
class PlaceholderWriter:
    """Converts values of a file to JSON and collects their placeholders. Reports invalid expressions as problems."""

    scope: NameScope
    reading: ReadContext
    holes: list[Placeholder] = field(default_factory=list)
    secrets: dict[str, str] = field(default_factory=dict)

    def fill(self, place: Node, *where: str | int, as_text: bool = False, secret: bool = False) -> Any:
        """Return a value with null for each placeholder.

        With `as_text`, all values are converted to text. With `secret`, texts may contain secrets; such texts are
        left out and kept in `secrets`.
        """
        value = place.value
        if isinstance(value, str):
            with self.reading.problems.gathered():
                return self._text(place, value, where, as_text, secret)
            return None
        if isinstance(value, dict):
            given = [key for key in value if not as_text or value[key] is not None]
            filled = {key: self.fill(place[key], *where, key, as_text=as_text, secret=secret) for key in given}
            return {key: one for key, one in filled.items() if one is not _KEPT}
        if isinstance(value, list):
            return [self.fill(one, *where, at, as_text=as_text) for at, one in enumerate(place.items())]
        return msgspec.json.encode(value).decode() if as_text else value

    def arguments(self, filled: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments in their stored form; texts that contain secrets are in an argument of their own."""
        kept = {name: value for name, value in filled.items() if value is not _KEPT}
        return {**kept, _SECRET_ARGUMENT: self.secrets} if self.secrets else kept

    def _text(self, place: Node, text: str, where: Path, as_text: bool, secret: bool) -> Any:
        """Return a text, or null with a new placeholder if it has expressions. Raises UnusableNode."""
        if secret and secrets_in(text):
            self._keep(place, text, where)
            return _KEPT
        try:
            value = value_of(text, self.scope, as_text=as_text)
        except Inexpressible as error:
            raise UnusableNode(place, str(error)) from None
        if isinstance(value, str):
            return value
        self.holes.append(Placeholder(where, value))
        return None

    def _keep(self, place: Node, text: str, where: Path) -> None:
        """Keep a text with secrets unchanged in `secrets`. Raises UnusableNode if it has other expressions."""
        others = [one[0] for one in _EXPRESSION.finditer(text) if one[1] is not None and not _SECRET.fullmatch(one[1])]
        if others:
            raise UnusableNode(
                place, f"a text with a secret can have no other expressions, and this one has {others[0]}."
            )
        self.secrets[".".join(map(str, where))] = text
        for name in secrets_in(text):
            self.reading.ask_for(name, place)


_SIGNS: tuple[Comparison, ...] = ("==", "!=", "<", "<=", ">", ">=", "in", "not in")
_CONDITION = re.compile(r"(not\s+)?\$\{([^}]*)\}\s*(?:(==|!=|<=|>=|<|>|in\b|not\s+in\b)(.*))?", re.DOTALL)


def read_condition(text: str, scope: NameScope) -> Condition:
    """Parse a condition. Raises Inexpressible."""
    found = _CONDITION.fullmatch(text.strip())
    if found is None or (found[1] and found[3]):
        raise Inexpressible(
            f"{text!r} is not a condition: say ${{STEP.result}}, not ${{STEP.result}}, or ${{STEP.result}} > 10, "
            f"with an operator: {' '.join(_SIGNS)}."
        )
    value = expression(found[2].strip(), scope)
    if found[3] is None:
        return Condition(value, "false" if found[1] else "true")
    sign = next(one for one in _SIGNS if one == " ".join(found[3].split()))
    return Condition(value, sign, _other(text, sign, found[4]))


def _other(text: str, sign: str, right: str) -> Any:
    """Return the value of the right operand. Raises Inexpressible."""
    if has_expression(right):
        raise Inexpressible(f"{text!r} compares with another expression; the right operand is a value, such as 10.")
    if not right.strip():
        raise Inexpressible(f"{text!r} does not say what to compare with.")
    try:
        (document,) = read_yaml(right.strip(), file="")
    except (InvalidInput, ValueError):
        raise Inexpressible(f"{text!r}: {right.strip()!r} is not a value as YAML has them.") from None
    if sign.endswith("in") and not isinstance(document.value, list):
        raise Inexpressible(f"{text!r}: {sign} asks for a list, such as [eu, us].")
    return document.value
