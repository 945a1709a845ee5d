"""The limits of a task: what its decorator declares, checked and as it is stored.

`@app.task(limits=[...], limit="stripe", sequence="account", breaker=breaker(...), debounce=..., throttle=...,
sticky="account")`. A key or weight that names a parameter the task does not have is refused here, at declaration.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import timedelta
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from tickwork.core.limits.breaker import Breaker, Rule
from tickwork.core.limits.debounce import Debounce, Throttle, debounce, limits_of, throttle
from tickwork.core.limits.limit_keys import bound_key, parameter_of, read_key
from tickwork.core.limits.limits import AnyLimit, Bound, Concurrency, Shared, read_limits, sequence
from tickwork.core.option_parsing import VersionedJson, shown
from tickwork.errors import InvalidOption

CallMerging = Debounce | Throttle


class TaskLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The flow control of a task, as it is stored.

    `queues` are the limits that its app declares for queues, by queue name: they apply to jobs of the task in that
    queue. `defaults` are the defaults, in JSON types, of the parameters that keys and weights read. `tenant` and
    `needs` apply to jobs that do not set them. `sticky` is the key by which jobs are placed on one worker.
    """

    limits: tuple[AnyLimit, ...] = ()
    breaker: Breaker | None = None
    merging: CallMerging | None = None
    queues: dict[str, tuple[AnyLimit, ...]] = {}
    defaults: dict[str, Any] = {}
    tenant: str | None = None
    needs: str = ""
    sticky: str | None = None

    @property
    def parameters(self) -> set[str]:
        """The parameters that keys and weights read."""
        limits = [*self.limits, *(limit for owned in self.queues.values() for limit in owned)]
        said = [limit.key for limit in limits] + [limit.weight for limit in limits if isinstance(limit.weight, str)]
        said += [rule.key for rule in (self.breaker, self.merging) if rule is not None] + [self.sticky]
        return {name for key in said if key is not None and (name := parameter_of(key)) is not None}


NO_LIMITS = TaskLimits()
_TASK_LIMITS: VersionedJson[TaskLimits] = VersionedJson("limits", msgspec.json.Decoder(TaskLimits))


def encode_task_limits(task_limits: TaskLimits) -> str | None:
    """Return the stored form of a TaskLimits; None if it has only defaults."""
    return None if task_limits == NO_LIMITS else _TASK_LIMITS.encode(task_limits).decode()


@lru_cache(maxsize=1024)
def decode_task_limits(text: str | None) -> TaskLimits:
    """Return the TaskLimits that `encode_task_limits` was given. Raises InvalidInput for any other text."""
    return NO_LIMITS if text is None else _TASK_LIMITS.decode(text.encode())


def breaker_name(task: str) -> str:
    """Return the name of a task's breaker among the limits."""
    return f"task:{task}#breaker"


def rules_of(task: str, task_limits: TaskLimits) -> Iterator[tuple[str, Rule]]:
    """Yield the rules that a task and the queues of its app declare, by name."""
    for limits in (task_limits.limits, *task_limits.queues.values(), limits_of(task_limits.merging, task)):
        yield from ((limit.name or "", limit) for limit in limits if not isinstance(limit, Shared))
    if task_limits.breaker is not None:
        yield breaker_name(task), task_limits.breaker


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
        merging=_merging(task, parameters, given),
        sticky=_sticky(task, parameters, given.get("sticky")),
    )


def bare(limit: Bound) -> Bound:
    """Return a limit without its key and weight. Limits of the same name must be equal in this form."""
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


def _merging(task: str, parameters: Collection[str], given: Mapping[str, Any]) -> CallMerging | None:
    """Return the debounce or throttle of a decorator. Raises InvalidOption if both are given."""
    if "debounce" in given and "throttle" in given:
        raise InvalidOption(f"task {task!r} is debounced or throttled, not both: each is a key of its own.")
    for name, make, kind in (("debounce", debounce, Debounce), ("throttle", throttle, Throttle)):
        if name not in given:
            continue
        said = given[name]
        merging = make(said) if isinstance(said, str | timedelta) else said
        if not isinstance(merging, kind):
            raise InvalidOption(f'{name} of task {task!r} must be {name}("5s", key="account"), not {shown(said)}.')
        return _bound(f"{name} of task {task!r}", merging, parameters)
    return None


def _sticky(task: str, parameters: Collection[str], given: Any) -> str | None:
    what = f"sticky of task {task!r}"
    return None if given is None else bound_key(what, read_key(what, given), parameters)


def _bound(what: str, rule: Keyed, parameters: Collection[str]) -> Keyed:
    if rule.key is None:
        return rule
    return msgspec.structs.replace(rule, key=bound_key(what, rule.key, parameters))
