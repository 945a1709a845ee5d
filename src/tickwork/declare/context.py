"""What is shared while a file is read: what workers have told, and what there is to tell about the file."""

from __future__ import annotations

from dataclasses import dataclass

from tickwork.declare.node import Node
from tickwork.declare.problems import Problems
from tickwork.declare.schedules import Known


@dataclass(frozen=True, slots=True)
class ReadContext:
    """Of one file. `secrets` say where each is asked for."""

    file: str
    known: Known
    problems: Problems
    secrets: dict[str, str]

    def ask_for(self, secret: str, place: Node) -> None:
        self.secrets.setdefault(secret, f"{self.file}:{place.line}: {place.name}")
