"""Read the flow-control arguments of the task decorator into a TaskLimits.

`@app.task(limits=[...], limit="stripe", sequence="account", breaker=breaker(...), debounce=..., throttle=...,
sticky="account")`. A key or weight that names a parameter the task does not have is refused here, at declaration.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from typing import Any, TypeVar

import msgspec

from tickwork.core.job_limits import Habit, TaskLimits
from tickwork.core.limits.breaker import Breaker
from tickwork.core.limits.debounce import Debounce, Throttle, debounce, throttle
from tickwork.core.limits.limit_keys import bound_key, read_key
from tickwork.core.limits.limits import AnyLimit, Bound, Concurrency, read_limits, sequence
from tickwork.core.option_parsing import shown
from tickwork.errors import InvalidOption

DECLARED = ("limits", "limit", "sequence", "breaker", "debounce", "throttle", "sticky")
Keyed = TypeVar("Keyed", bound=Breaker | Debounce | Throttle)


def split_limits(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the flow-control arguments that are set, and the other arguments."""
    task_limits = {name: value for name, value in given.items() if name in DECLARED and value is not None}
    return task_limits, {name: value for name, value in given.items() if name not in DECLARED}


def read_task_limits(task: str, parameters: Collection[str], given: Mapping[str, Any]) -> TaskLimits:
    """Return the TaskLimits for the arguments of a decorator, after checking them. Raises InvalidOption."""
    return TaskLimits(
        limits=_limits(f"task:{task}", parameters, given),
        breaker=_breaker(task, parameters, given.get("breaker")),
        habit=_habit(task, parameters, given),
        sticky=_sticky(task, parameters, given.get("sticky")),
    )


def bare(limit: Bound) -> Bound:
    """Return a limit without its key and weight. Limits of one name must be equal in this form."""
    return msgspec.structs.replace(limit, key=None, weight=1)


def _limits(owner: str, parameters: Collection[str], given: Mapping[str, Any]) -> tuple[AnyLimit, ...]:
    """Return the limits of a decorator: `limits`, `limit` and `sequence`."""
    own = given.get("limits", ())
    if isinstance(own, str) or not isinstance(own, Iterable):
        return read_limits(owner, own)  # raises InvalidOption
    shared = given.get("limit", ())
    names = [shared] if isinstance(shared, str) else shared
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise InvalidOption(
            f'limit of {owner} is the name of a limit, or a list of names, not {shown(shared)}: "stripe".'
        )
    return read_limits(owner, [*own, *names, *_sequence(owner, given.get("sequence"))], parameters)


def _sequence(owner: str, given: Any) -> list[Concurrency]:
    if given is None:
        return []
    line = sequence(given) if isinstance(given, str) else given
    if not isinstance(line, Concurrency) or not line.in_order:
        how = '"account", or sequence("account", on_retry="pass")'
        raise InvalidOption(f"sequence of {owner} is a key such as {how}, not {shown(given)}.")
    return [line]


def _breaker(task: str, parameters: Collection[str], given: Any) -> Breaker | None:
    if given is None:
        return None
    if not isinstance(given, Breaker):
        raise InvalidOption(f'breaker of task {task!r} must be breaker(failures=50, window="1m"), not {shown(given)}.')
    return _bound(f"breaker of task {task!r}", given, parameters)


def _habit(task: str, parameters: Collection[str], given: Mapping[str, Any]) -> Habit | None:
    """Return the debounce or throttle of a decorator. Raises InvalidOption if both are given."""
    if "debounce" in given and "throttle" in given:
        raise InvalidOption(f"task {task!r} is debounced or throttled, not both: each is a key of its own.")
    for name, make, kind in (("debounce", debounce, Debounce), ("throttle", throttle, Throttle)):
        if name not in given:
            continue
        said = given[name]
        habit = make(said) if isinstance(said, str | timedelta) else said
        if not isinstance(habit, kind):
            raise InvalidOption(f'{name} of task {task!r} must be {name}("5s", key="account"), not {shown(said)}.')
        return _bound(f"{name} of task {task!r}", habit, parameters)
    return None


def _sticky(task: str, parameters: Collection[str], given: Any) -> str | None:
    what = f"sticky of task {task!r}"
    return None if given is None else bound_key(what, read_key(what, given), parameters)


def _bound(what: str, rule: Keyed, parameters: Collection[str]) -> Keyed:
    if rule.key is None:
        return rule
    return msgspec.structs.replace(rule, key=bound_key(what, rule.key, parameters))
