"""The occurrence of a schedule in the bodies of jobs and runs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tickwork.core.occurrence import Occurrence
from tickwork.http.framework.route import Struct


class IntervalBody(Struct, rename={"start": "from", "end": "to"}):
    """The period of an occurrence: from the one before it to this one."""

    start: datetime
    end: datetime


def occurrence_fields(occurrence: Occurrence | None) -> dict[str, Any]:
    """Return the four fields that describe an occurrence; without one, they are null and `is_catchup` is false."""
    return {
        "schedule": None if occurrence is None else occurrence.schedule,
        "scheduled_for": None if occurrence is None else occurrence.scheduled_for,
        "is_catchup": occurrence is not None and occurrence.is_catchup,
        "interval": None if occurrence is None or occurrence.interval is None else IntervalBody(*occurrence.interval),
    }
