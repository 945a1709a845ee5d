"""Specs as the YAML that `tickwork apply` takes: to be looked at, changed and kept beside the code."""

from __future__ import annotations

from collections.abc import Iterable

from tickwork.core.schedule.spec import ScheduleSpec
from tickwork.core.yaml_loader import write_yaml
from tickwork.declare.export import declared_schedule


def specs_as_yaml(specs: Iterable[ScheduleSpec]) -> str:
    """Return a file with these schedules."""
    return write_yaml({"schedules": {spec.name: declared_schedule(spec) for spec in specs}})
