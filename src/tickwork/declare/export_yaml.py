"""Export schedules as a YAML file for `tickwork apply`."""

from __future__ import annotations

from collections.abc import Iterable

from tickwork.core.schedule.spec import ScheduleSpec
from tickwork.core.yaml_loader import write_yaml
from tickwork.declare.export import declared_schedule


def specs_as_yaml(specs: Iterable[ScheduleSpec]) -> str:
    """Return the text of a YAML file that declares these schedules."""
    return write_yaml({"schedules": {spec.name: declared_schedule(spec) for spec in specs}})
