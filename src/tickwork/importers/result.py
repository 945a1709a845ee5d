"""The result of an import: schedules, notes on parts that were not imported, and errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from tickwork.core.arguments.encode_by_schema import StoredSignature
from tickwork.core.recurrence.base_rule import RuleValue
from tickwork.core.schedule.spec import ScheduleSpec, new_spec
from tickwork.errors import InvalidInput

FILE_LIMIT = 1024 * 1024  # bytes
_TASK = "shell"
_HASH_LENGTH = 6


@dataclass(frozen=True, slots=True)
class Remark:
    """A note or an error about a place in a file."""

    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.text}"


@dataclass(slots=True)
class ImportResult:
    """The result of an import so far.

    `notes` are about settings without an equivalent, `errors` about entries that were not imported.
    """

    specs: list[ScheduleSpec] = field(default_factory=list)
    notes: list[Remark] = field(default_factory=list)
    errors: list[Remark] = field(default_factory=list)
    prefix: str | None = None
    _noted: set[Remark] = field(default_factory=set)
    _names: set[str] = field(default_factory=set)
    _alike: Counter[str] = field(default_factory=Counter)

    def note(self, where: str, text: str) -> None:
        """Add a note, unless the same note exists."""
        remark = Remark(where, text)
        if remark not in self._noted:
            self._noted.add(remark)
            self.notes.append(remark)

    def error(self, where: str, text: str) -> None:
        self.errors.append(Remark(where, text))

    def add(self, base: str, seed: str, rule: RuleValue, arguments: Mapping[str, Any], **given: Any) -> ScheduleSpec:
        """Add a schedule of the task `shell`, with a name derived from `base`. Raises InvalidInput."""
        name = self._free_name(base if self.prefix is None else f"{self.prefix}-{base}", seed)
        args = StoredSignature(None).encode((), arguments, _TASK)
        spec = new_spec(name, _TASK, rule, args, **given)
        self._names.add(name)
        self.specs.append(spec)
        return spec

    def _free_name(self, base: str, seed: str) -> str:
        """Return an unused name: `base` for the first schedule, and with a hash of `seed` for the others.

        The hash keeps the other names stable when a schedule is added to the file.
        """
        if base not in self._names:
            return base
        name = hashed = f"{base}-{sha256(seed.encode()).hexdigest()[:_HASH_LENGTH]}"
        while name in self._names:
            self._alike[hashed] += 1
            name = f"{hashed}-{self._alike[hashed] + 1}"
        return name


def check_size(data: bytes, file: str, *, limit: int = FILE_LIMIT) -> None:
    """Raise InvalidInput if a file is larger than `limit` bytes."""
    if len(data) > limit:
        raise InvalidInput(f"{file} has {len(data):,} bytes; {limit:,} is the most. Is it the right file?")
