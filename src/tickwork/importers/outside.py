"""Where values that come from outside may stand: what a run computes, what its parameters are, what a message says.

Whoever gives such a value may be anybody who may start a run, or who sends messages. It can be a part of what a
built-in task is told, and never say what is run, nor which secret is given to it.
"""

from __future__ import annotations

from collections.abc import Iterable

from tickwork.core.dag.graph import Hole

_FILLED_OF_SHELL = ("env", "cwd", "stdin")
_BUILT_IN = ("http", "shell", "smtp")


def misplaced(task: str, holes: Iterable[Hole], shell: tuple[str, ...] = _FILLED_OF_SHELL) -> str | None:
    """What is wrong with values in these places of a task's arguments; `shell`: where a command may have them."""
    places = [str(hole.where[0]) if hole.where else "" for hole in holes]
    if task == "shell" and any(place not in shell for place in places):
        return f"a value may not say what is run: pass it to the command through {' or '.join(shell)}."
    if task in _BUILT_IN and any(place in ("", "secrets") for place in places):
        return "a value may not say which secret is given to a task: write ${secret.NAME} itself."
    return None
