"""Collect all errors of a file in the order of its lines, so that a user can correct them in one pass."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from typing import NamedTuple

from tickwork.core.yaml_loader import Path
from tickwork.declare.node import Node, UnusableNode
from tickwork.errors import InvalidInput


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
        self._unsound: set[Path] = set()  # the paths of invalid nodes and of all their ancestors

    def __len__(self) -> int:
        return len(self._found)

    def add(self, place: Node, text: str, *, line: int | None = None) -> None:
        self._found.append(FileProblem(self.file, place.line if line is None else line, place.name, text, place.path))

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


def meant(name: str, known: Collection[str]) -> str:
    """Return a suggestion for an unknown name: " (did you mean 'fetch'?)", or an empty text."""
    near = get_close_matches(name, known, n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""
