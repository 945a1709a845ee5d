"""What is wrong with a file: all of it, in the order of its lines, so that one reading is enough to mend it."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from typing import NamedTuple

from tickwork.core.yaml_loader import Path
from tickwork.declare.node import Node, UnusableNode
from tickwork.errors import InvalidInput


class FileProblem(NamedTuple):
    """One thing that is wrong, with its place."""

    file: str
    line: int
    field: str
    text: str
    path: Path = ()

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.field or 'the file'}: {self.text}"


class BadFile(InvalidInput):
    """A file of which nothing was taken, since parts of it cannot be read."""

    def __init__(self, problems: list[FileProblem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


class Problems:
    """Gathers what is wrong while a file is read."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._found: list[FileProblem] = []
        self._unsound: set[Path] = set()  # the places of misfits, and what they are in

    def __len__(self) -> int:
        return len(self._found)

    def add(self, place: Node, text: str, *, line: int | None = None) -> None:
        self._found.append(FileProblem(self.file, place.line if line is None else line, place.name, text, place.path))

    def is_sound(self, place: Node) -> bool:
        """Whether a place and all in it are of the types that they should be. What is not cannot be read further."""
        return place.path not in self._unsound

    def gathered(self) -> _ProblemScope:
        """Note a misfit in a block, and go on after it."""
        return _ProblemScope(self)

    def note(self, misfit: UnusableNode) -> None:
        self.add(misfit.field, str(misfit))
        path = misfit.field.path
        self._unsound.update(path[:end] for end in range(len(path) + 1))

    def raise_if_any(self) -> None:
        if self._found:
            raise BadFile(self.by_line())

    def by_line(self) -> list[FileProblem]:
        """Return what was found, in the order of the lines."""
        return sorted(self._found, key=lambda one: one.line)


class _ProblemScope:
    """A block that a misfit ends, and no more than that."""

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
    """What is added to the name of something that is not there: " (did you mean 'fetch'?)", or nothing."""
    near = get_close_matches(name, known, n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""
