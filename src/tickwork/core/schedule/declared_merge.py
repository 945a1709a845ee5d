"""Who owns what of a schedule that code declares: code owns what it says, run time owns what somebody edited.

Three values tell them apart, field by field: what code declared the last time, how the schedule is stored now, and what
code declares today. What code has changed takes its new value; what somebody edited, and code did not touch, stays.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tickwork.core.schedule.spec import ScheduleSpec
from tickwork.errors import InvalidOption

_NESTED = ("policies", "options")  # each of these is many fields


def merge(base: ScheduleSpec | None, current: ScheduleSpec, declared: ScheduleSpec) -> ScheduleSpec:
    """Return what a stored schedule becomes when code declares it. Without a base, code declares it for the first time.

    An edit and a declaration that do not go together, such as a jitter and a window, leave what code says.
    """
    if base is None:
        return declared
    before, stored, said = (msgspec.structs.asdict(spec) for spec in (base, current, declared))
    try:
        merged = {name: _merge(before[name], stored[name], said[name], nested=name in _NESTED) for name in said}
        if merged["target"] != current.target:
            merged["args"] = declared.args  # they belong to the target
        return ScheduleSpec(**merged)
    except InvalidOption:
        return declared


def _merge(before: Any, stored: Any, said: Any, *, nested: bool) -> Any:
    if not nested:
        return stored if said == before else said
    fields = {
        name: _merge(getattr(before, name), getattr(stored, name), getattr(said, name), nested=False)
        for name in said.__struct_fields__
    }
    return type(said)(**fields)
