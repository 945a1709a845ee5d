"""Load YAML as plain values in JSON's types, with the line of each value.

Values are built from the parser's events, so no content of a file can construct an object. Aliases are refused (a few
lines of them can expand to gigabytes), as are repeated keys. Plain scalars follow YAML 1.2: `on`, `yes` and 12:30 are
texts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from tickwork.errors import InvalidInput

Path = tuple[str | int, ...]

DEPTH_LIMIT = 64
VALUES_LIMIT = 250_000  # more values take seconds to read, during which a server does little else
_CONSTANTS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INT = re.compile(r"[-+]?[0-9]{1,100}")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]{1,100}|[0-9]{1,100}(?:\.[0-9]{0,100})?)(?:[eE][-+]?[0-9]{1,5})?")
_TAGS = (None, "!", "tag:yaml.org,2002:str")  # the last two mark a text


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """One document of a file. `lines` has the line of each part of the value by its path; a field begins at its key.

    `repeated` are the repeated keys, with their lines. The first of their values is kept.
    """

    value: Any
    lines: dict[Path, int]
    repeated: list[tuple[Path, int]]


def read_yaml(text: str, *, file: str) -> list[YamlDocument]:
    """Return the documents in a text; an empty one is None. Raises InvalidInput, which names the file and the line."""
    documents = read_documents(text, file=file)
    for document in documents:
        for path, line in document.repeated:
            raise InvalidInput(f"{file}:{line}: the key {path[-1]!r} is given twice.")
    return documents


def read_documents(text: str, *, file: str) -> list[YamlDocument]:
    """Return documents like `read_yaml`, for a caller that reports repeated keys itself, with all other problems."""
    try:
        return list(_YamlReader(file, yaml.parse(_as_yaml(text, file), Loader=_LOADER)).documents())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = 1 if mark is None else mark.line + 1
        raise InvalidInput(f"{file}:{line}: this is not YAML: {error.problem or error.context}.") from None
    except yaml.YAMLError as error:  # a character that YAML may not contain
        raise InvalidInput(f"{file}: this is not YAML: {' '.join(str(error).split())}.") from None


_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PAIR = re.compile(r"((?<!\\)(?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")


def _as_yaml(text: str, file: str) -> str:
    """Return JSON as equivalent YAML. They differ in two points: tabs between values, and escaped surrogate pairs."""
    if not file.endswith(".json"):
        return text
    return _PAIR.sub(_joined, text.replace("\t", " "))


def _joined(pair: re.Match[str]) -> str:
    halves = bytes.fromhex(pair[2] + pair[3])
    return pair[1] + halves.decode("utf-16-be")


def write_yaml(value: Any) -> str:
    """Return plain values as YAML that `read_yaml` and other parsers read as the same values."""
    return yaml.dump(value, Dumper=_YamlDumper, sort_keys=False, allow_unicode=True, width=100)


class _YamlDumper(yaml.SafeDumper):
    """A dumper that quotes texts that YAML 1.1 or 1.2 would read as other values, and writes no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _write_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if text.count("\n") > 1 else None if _plain(text) is text else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_YamlDumper.add_representer(str, _write_text)


class _YamlReader:
    """Builds values from the events of a parser."""

    def __init__(self, file: str, events: Iterator[Any]) -> None:
        self._file = file
        self._events = events
        self._lines: dict[Path, int] = {}
        self._repeated: list[tuple[Path, int]] = []

    def documents(self) -> Iterator[YamlDocument]:
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._lines, self._repeated = {}, []
                yield YamlDocument(self._value(next(self._events), ()), self._lines, self._repeated)

    def _value(self, event: Any, path: Path) -> Any:
        """Return the value that begins with an event, and record its line. Raises InvalidInput."""
        self._lines.setdefault(path, _line(event))
        if len(self._lines) > VALUES_LIMIT:
            raise self._refusal(event, f"there are more than {VALUES_LIMIT:,} values; declare them in several texts")
        if len(path) > DEPTH_LIMIT:
            raise self._refusal(event, f"values are nested more than {DEPTH_LIMIT} levels deep")
        if getattr(event, "tag", None) not in _TAGS:
            raise self._refusal(event, f"the tag {event.tag} is not read here")
        match event:
            case yaml.ScalarEvent():
                return _plain(event.value) if event.tag is None and event.implicit[0] else event.value
            case yaml.SequenceStartEvent():
                return [self._value(item, (*path, at)) for at, item in enumerate(self._until(yaml.SequenceEndEvent))]
            case yaml.MappingStartEvent():
                return self._mapping(path)
            case _:
                raise self._refusal(event, "aliases (*name) are not read here; write the value out")

    def _mapping(self, path: Path) -> dict[str, Any]:
        """Return the values of a mapping; the first of repeated keys is kept."""
        found: dict[str, Any] = {}
        for key in self._until(yaml.MappingEndEvent):
            if not isinstance(key, yaml.ScalarEvent):
                raise self._refusal(key, "a key must be a text")
            where, line = (*path, key.value), _line(key)
            if key.value in found:
                self._repeated.append((where, line))
            self._lines.setdefault(where, line)
            found.setdefault(key.value, self._value(next(self._events), where))
        return found

    def _until(self, end: type[Any]) -> Iterator[Any]:
        while not isinstance(event := next(self._events), end):
            yield event

    def _refusal(self, event: Any, reason: str) -> InvalidInput:
        return InvalidInput(f"{self._file}:{_line(event)}: {reason}.")


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _plain(text: str) -> Any:
    """Return the value of a plain (unquoted) scalar."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text) and math.isfinite(value := float(text)):
        return value
    return text
