"""The shared state of reading a file: task definitions that workers have registered, problems, and used secrets."""

from __future__ import annotations

from dataclasses import dataclass

from tickwork.declare.node import Node
from tickwork.declare.problems import Problems
from tickwork.declare.schedules import Known


@dataclass(frozen=True, slots=True)
class ReadContext:
    """The state of reading one file. `secrets` maps the name of each secret to the place of its first use."""

    file: str
    known: Known
    problems: Problems
    secrets: dict[str, str]

    def ask_for(self, secret: str, place: Node) -> None:
        """Record the use of a secret."""
        self.secrets.setdefault(secret, f"{self.file}:{place.line}: {place.name}")
