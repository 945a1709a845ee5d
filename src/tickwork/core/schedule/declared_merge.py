"""Three-way merge of a schedule that code declares: keep edits made at run time, apply changes made in code.

Each field has three values: the last declaration, the stored value, and the new declaration. A field that code changed
takes the new value; a field that was edited at run time, and that code did not change, keeps the stored value.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tickwork.core.schedule.spec import ScheduleSpec
from tickwork.errors import InvalidOption

_NESTED = ("policies", "options")  # structs, whose fields are merged one by one


def merge(base: ScheduleSpec | None, current: ScheduleSpec, declared: ScheduleSpec) -> ScheduleSpec:
    """Return a stored schedule merged with its new declaration. Without a base, it is the first declaration.

    If an edit and the declaration are not valid together, such as a jitter and a window, the declaration wins.
    """
    if base is None:
        return declared
    before, stored, said = (msgspec.structs.asdict(spec) for spec in (base, current, declared))
    try:
        merged = {name: _merge(before[name], stored[name], said[name], nested=name in _NESTED) for name in said}
        if merged["target"] != current.target:
            merged["args"] = declared.args  # arguments belong to their target
        return ScheduleSpec(**merged)
    except InvalidOption:
        return declared


def _merge(before: Any, stored: Any, said: Any, *, nested: bool) -> Any:
    """Merge one value; with `nested`, merge each field of a struct."""
    if not nested:
        return stored if said == before else said
    fields = {
        name: _merge(getattr(before, name), getattr(stored, name), getattr(said, name), nested=False)
        for name in said.__struct_fields__
    }
    return type(said)(**fields)
