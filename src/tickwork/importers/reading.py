"""What is shared while a file is read: what workers have told, and what there is to tell about the file."""

from __future__ import annotations

from dataclasses import dataclass

from tickwork.importers.field import Field
from tickwork.importers.imported import Remark
from tickwork.importers.problems import Problems
from tickwork.importers.schedules import Known


@dataclass(frozen=True, slots=True)
class Reading:
    """Of one file. `remarks` are on what can be stored and will not work yet; `secrets` say where each is asked for."""

    file: str
    known: Known
    problems: Problems
    remarks: list[Remark]
    secrets: dict[str, str]

    def remark(self, place: Field, text: str) -> None:
        self.remarks.append(Remark(self._where(place), text))

    def ask_for(self, secret: str, place: Field) -> None:
        self.secrets.setdefault(secret, self._where(place))

    def _where(self, place: Field) -> str:
        return f"{self.file}:{place.line}: {place.name}"
