"""Read documents: nodes with typed access, Structs of fields, and all errors of a file.

A node has its value, path and line. The errors of a file are collected in the order of its lines, so that a user can
correct them in one pass.

A node is read into a msgspec Struct; all unknown, missing and invalid fields are reported. The JSON Schema for editors
is generated from the same Structs, so the two always agree. Invalid fields are left out of the Struct.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, UnsetType

from tickwork.core.job import TaskDefinition
from tickwork.core.text.suggestions import guess
from tickwork.core.text.yaml_loader import Path, YamlDocument
from tickwork.errors import InvalidInput

PROBLEM_LIMIT = 100  # of a text; reading stops after them
TEXT_LIMIT = 1_000_000  # characters of all problems of a text; a problem repeats names that the text chose
_MISSING: Any = object()
_PLAIN_KEY = re.compile(r"[A-Za-z_][\w-]*")


class UnusableNode(InvalidInput):
    """A field of a document is missing or invalid."""

    def __init__(self, field: Node, text: str) -> None:
        super().__init__(text)
        self.field = field


@dataclass(slots=True, eq=False)  # not frozen: a file of ten thousand steps makes a hundred thousand of them
class Node:
    """A value in a document, or a missing field, for which `text`, `number` and `flag` return their default."""

    document: YamlDocument
    path: Path
    value: Any = _MISSING

    @property
    def name(self) -> str:
        """Return the path as text, such as spec.jobTemplate.spec."""
        parts = (
            f"[{one}]" if isinstance(one, int) or not _PLAIN_KEY.fullmatch(one) else f".{one}" for one in self.path
        )
        return "".join(parts).removeprefix(".")

    @property
    def line(self) -> int:
        """Return the line where the node begins; for a missing node, the line of its innermost existing parent."""
        path = self.path
        while path not in self.document.lines:
            path = path[:-1]
        return self.document.lines[path]

    @property
    def is_there(self) -> bool:
        return self.value is not _MISSING and self.value is not None

    def __getitem__(self, key: str) -> Node:
        if self.is_there and not isinstance(self.value, dict):
            raise self.misfit("must have fields")
        found = self.value.get(key, _MISSING) if self.is_there else _MISSING
        return Node(self.document, (*self.path, key), found)

    def has(self, key: str) -> bool:
        """Return whether the node has a field with a value. Faster than `self[key].is_there`."""
        return isinstance(self.value, dict) and self.value.get(key) is not None

    def names(self) -> list[str]:
        return list(self.value) if isinstance(self.value, dict) else []

    def items(self) -> Iterator[Node]:
        """Yield the items of a list; none if the node is missing. Raises UnusableNode if it is not a list."""
        if self.is_there and not isinstance(self.value, list):
            raise self.misfit("must be a list")
        for at, item in enumerate(self.value if self.is_there else []):
            yield Node(self.document, (*self.path, at), item)

    def text(self, default: str | None = None) -> str:
        return str(self._of(str, "a text", default))

    def number(self, default: int | None = None) -> int:
        found = self._of(int, "a whole number, 0 or more", default)
        if isinstance(found, bool) or found < 0:
            raise self.misfit("must be a whole number, 0 or more")
        return int(found)

    def flag(self, default: bool) -> bool:
        return bool(self._of(bool, "true or false", default))

    def _of(self, kind: type, what: str, default: Any) -> Any:
        """Return the value or the default. Raises UnusableNode for another type, or if missing without a default."""
        if not self.is_there:
            if default is None:
                raise UnusableNode(self, f"it is missing; it must be {what}.")
            return default
        if not isinstance(self.value, kind):
            raise self.misfit(f"must be {what}")
        return self.value

    def misfit(self, rule: str) -> UnusableNode:
        """Return the error that the value does not follow a rule, such as "must be a list"."""
        shown = repr(self.value)
        return UnusableNode(self, f"it {rule}, not {shown if len(shown) <= 60 else f'{shown[:57]}...'}.")


class FileProblem(NamedTuple):
    """An error in a file, with its location."""

    file: str
    line: int
    field: str
    text: str
    path: Path = ()

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.field or 'the file'}: {self.text}"


class BadFile(InvalidInput):
    """A file has errors, so nothing of it was applied."""

    def __init__(self, problems: list[FileProblem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


class Problems:
    """The errors of one file, collected while it is read."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._found: list[FileProblem] = []
        self._length = 0  # of their texts and fields, in characters
        self._unsound: set[Path] = set()  # the paths of invalid nodes and of all their ancestors

    def __len__(self) -> int:
        return len(self._found)

    def add(self, place: Node, text: str, *, line: int | None = None) -> None:
        """Add an error.

        Raises BadFile after too many errors, to stop reading: servers read files of untrusted callers.
        """
        line = place.line if line is None else line
        if (count := len(self._found)) >= PROBLEM_LIMIT or self._length > TEXT_LIMIT:
            self._found.append(FileProblem(self.file, line, "", f"reading stopped here, after {count} problems."))
            self.raise_if_any()
        self._found.append(FileProblem(self.file, line, place.name, text, place.path))
        self._length += len(text) + len(self._found[-1].field)

    def is_sound(self, place: Node) -> bool:
        """Return whether a node and all nodes in it have the right types, so that they can be processed further."""
        return place.path not in self._unsound

    def gathered(self) -> _ProblemScope:
        """Return a context manager that collects an UnusableNode raised in its block, and continues after the block."""
        return _ProblemScope(self)

    def note(self, misfit: UnusableNode) -> None:
        """Add an error, and mark its node and all ancestors as unsound."""
        self.add(misfit.field, str(misfit))
        path = misfit.field.path
        self._unsound.update(path[:end] for end in range(len(path) + 1))

    def raise_if_any(self) -> None:
        if self._found:
            raise BadFile(self.by_line())

    def by_line(self) -> list[FileProblem]:
        """Return the errors in the order of their lines."""
        return sorted(self._found, key=lambda one: one.line)


class _ProblemScope:
    """The context manager of `Problems.gathered`."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, UnusableNode):
            return False
        self._problems.note(error)
        return True


Made = TypeVar("Made", bound=msgspec.Struct)

_WORDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false", list: "a list"}


class _AcceptedType(NamedTuple):
    """A type that a value may have: its name for error messages, its Python types, and the type of its contents."""

    words: str
    types: tuple[type, ...]
    values: tuple[str, ...] = ()
    struct: type[msgspec.Struct] | None = None
    inner: Any = None

    def fits(self, value: Any) -> bool:
        return not self.types or (type(value) in self.types and (not self.values or value in self.values))


def read_struct(place: Node, kind: type[Made], problems: Problems) -> Made:
    """Read the fields of a node into a Struct, with UNSET for missing and invalid ones, and report all errors.

    Raises UnusableNode if the node is not a mapping.
    """
    if not isinstance(place.value, dict):
        raise place.misfit("must have fields")
    types = _types_of(kind)
    given: dict[str, Any] = {}
    for name in place.value:
        if name not in types:
            known = guess(name, types) or f"; there are {', '.join(types)}"
            problems.add(place[name], f"there is no such field here{known}.")
        elif place.has(name):
            with problems.gathered():
                given[name] = _read(place[name], types[name], problems)
    for name in _required(kind):
        if name not in given:
            given[name] = UNSET
            if not place.has(name):
                problems.add(place[name], "it is missing.")
    return kind(**given)


def _read(place: Node, kind: Any, problems: Problems) -> Any:
    """Read a value as the first type of a union that fits. Raises UnusableNode if none does."""
    shapes = _shapes(kind)
    for shape in shapes:
        if shape.fits(place.value):
            break
    else:
        raise place.misfit(f"must be {' or '.join(shape.words for shape in shapes)}")
    if shape.struct is not None:
        return read_struct(place, shape.struct, problems)
    if shape.inner is None:
        return place.value
    read: dict[Any, Any] = {}
    parts = enumerate(place.items()) if isinstance(place.value, list) else ((key, place[key]) for key in place.value)
    for key, part in parts:
        with problems.gathered():
            read[key] = _read(part, shape.inner, problems)
    return list(read.values()) if isinstance(place.value, list) else read


@cache
def _types_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


@cache
def _required(kind: type[msgspec.Struct]) -> list[str]:
    return [field.name for field in msgspec.structs.fields(kind) if field.required]


@cache
def _shapes(kind: Any) -> tuple[_AcceptedType, ...]:
    """Return the types that a type hint accepts, one for each member of a union."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return tuple(shape for one in arguments if one is not UnsetType for shape in _shapes(one))
    if origin is Annotated:
        example = "".join(f" such as {one}" for one in (arguments[1].examples or ())[:1])
        return tuple(shape._replace(words=shape.words + example) for shape in _shapes(arguments[0]))
    if origin is Literal:
        return (_AcceptedType(f"one of {', '.join(arguments)}", (str,), values=arguments),)
    if origin in (list, dict):
        inner = None if arguments[-1] is Any else arguments[-1]
        return (_AcceptedType(_WORDS.get(origin, "fields"), (origin,), inner=inner),)
    if kind is Any:
        return (_AcceptedType("anything", ()),)
    if issubclass(kind, msgspec.Struct):
        return (_AcceptedType("fields", (dict,), struct=kind),)
    return (_AcceptedType(_WORDS[kind], (int, float) if kind is float else (kind,)),)


Known = Callable[[str], TaskDefinition | None]  # returns the definition that workers have registered for a task


@dataclass(frozen=True, slots=True)
class ReadContext:
    """The state of reading one file. `secrets` maps the name of each secret to the place of its first use."""

    file: str
    known: Known
    problems: Problems
    secrets: dict[str, str]

    def ask_for(self, secret: str, place: Node) -> None:
        """Record where a secret is used."""
        self.secrets.setdefault(secret, f"{self.file}:{place.line}: {place.name}")
