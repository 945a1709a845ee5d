"""`this_run`: references to the schedule occurrence of a run, for use in the function of a dag."""

from __future__ import annotations

from typing import Any

from tickwork.core.dag.graph import RunValue
from tickwork.dag_builder.references import Reference
from tickwork.dag_builder.trace import needed_trace


def _value(doc: str, *path: str) -> Any:
    """Return a property whose value refers to a value of the run that is being traced."""

    def refer(self: ThisRun) -> Any:
        return Reference(needed_trace("this_run").origin, RunValue(path))

    refer.__doc__ = doc
    return property(refer)


class ThisRun:
    """References to the occurrence of a run: `load(day=this_run.scheduled_for)` inside of `@app.dag`.

    Instants are texts such as "2026-11-17T02:00:00Z"; a task whose parameter is a `datetime` receives a `datetime`.
    """

    __slots__ = ()

    scheduled_for = _value("The occurrence; of a run that no schedule started, when it was due.", "scheduled_for")
    schedule = _value("The name of the schedule; None without one.", "schedule")
    is_catchup = _value("Whether the occurrence was missed and caught up with, or backfilled.", "is_catchup")
    interval_from = _value("Where its period begins: at the occurrence before it, if any.", "interval", "from")
    interval_to = _value("Where its period ends: at the occurrence, if it has a period.", "interval", "to")


this_run = ThisRun()
