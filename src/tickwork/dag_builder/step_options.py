"""Step options: the `.options(...)` that apply to a step of a dag, besides those of any job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, cast, get_args

import msgspec

from tickwork.core.dag.graph import RunIf, Template
from tickwork.core.job_limits import TaskLimits, encode_task_limits
from tickwork.core.job_options import DEFAULT_QUEUE, Options
from tickwork.core.option_parsing import nearest, read_text, read_whole, shown
from tickwork.dag_builder.references import has_reference
from tickwork.errors import InvalidOption

MOST_PARALLEL = 1_000_000
_NOT_OF_STEPS = ("delay", "at", "key", "key_for", "if_exists", "collection", "parent", "trace", "tx")


@dataclass(frozen=True, slots=True)
class StepOptions:
    """Options that only a step has. `again_every` is set by `task.until(...)`."""

    name: str | None = None
    run_if: RunIf | None = None
    max_parallel: int | None = None
    produce: tuple[str, ...] = ()
    again_every: timedelta | None = None
    may_fail: bool = False

    def updated(self, given: Mapping[str, Any]) -> StepOptions:
        """Return these options with checked new values. Raises InvalidOption."""
        read: dict[str, Any] = {name: _READERS[name](value) for name, value in given.items()}
        return replace(self, **read)

    @property
    def said(self) -> str | None:
        """The first option set that only makes sense in a dag; None if there is none."""
        names = ("name", "run_if", "max_parallel")
        alone = next((name for name in names if getattr(self, name) is not None), "may_fail" if self.may_fail else None)
        return alone if self.again_every is None else "until"


NO_STEP = StepOptions()


def split_step(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split options into those of a step and those of a job. Raises InvalidOption for texts with references."""
    for name, value in given.items():
        if isinstance(value, str) and has_reference(value):
            raise InvalidOption(f"{name} has a reference in it. Options are the same for all runs: pass an argument.")
    return (
        {name: value for name, value in given.items() if name in _READERS},
        {name: value for name, value in given.items() if name not in _READERS},
    )


def step_template(task: str, options: Options, task_limits: TaskLimits, said: StepOptions) -> Template:
    """Return the template of a step's jobs. Raises InvalidOption for options that a step cannot have."""
    _refuse_for_steps(task, options, task_limits)
    made = run_template(task, options, task_limits)
    return msgspec.structs.replace(made, policy=msgspec.structs.replace(made.policy, again_every=said.again_every))


def run_template(name: str, options: Options, task_limits: TaskLimits) -> Template:
    """Return the template of jobs with these default options."""
    return Template(
        task=name,
        queue=options.queue or DEFAULT_QUEUE,
        priority=options.priority,
        policy=options.policy(),
        labels=options.labels or (),
        tenant=options.tenant,
        needs=options.needs or "",
        task_limits=encode_task_limits(task_limits),
    )


def _refuse_for_steps(task: str, options: Options, task_limits: TaskLimits) -> None:
    """Raise InvalidOption for options that a step cannot have."""
    for name in _NOT_OF_STEPS:
        if getattr(options, name) is not None:
            raise InvalidOption(
                f"a step of a dag has no {name}=, and task {task!r} has one here. Leave it out: .options({name}=None)."
            )
    if options.expires is not None and not isinstance(options.expires, timedelta):
        raise InvalidOption(f"task {task!r} expires at an instant. A step does a while after it is due: expires='1h'.")
    if task_limits.habit is not None:
        raise InvalidOption(
            f"task {task!r} is debounced or throttled: several calls are one job, and a step has jobs of its own. Call "
            f"it in a task, or make another task of its function."
        )


def asset_names(what: str, value: Any) -> tuple[str, ...]:
    """Return asset names as a tuple, given one name or several. Raises InvalidOption."""
    if isinstance(value, str):
        return (read_text(what, value),)
    if not isinstance(value, Iterable):
        raise InvalidOption(f"{what} is the name of an asset, or a list of names, not {shown(value)}.")
    return tuple(read_text(what, name) for name in value)


def _run_if(value: Any) -> RunIf | None:
    if value is not None and value not in get_args(RunIf):
        raise InvalidOption(f"there is no run_if={shown(value)}; {nearest(str(value), get_args(RunIf))}")
    return cast("RunIf | None", value)


def _name(value: Any) -> str | None:
    return None if value is None else read_text("the name of a step", value)


def _max_parallel(value: Any) -> int | None:
    return None if value is None else read_whole("max_parallel", value, 1, MOST_PARALLEL)


def _produce(value: Any) -> tuple[str, ...]:
    return () if value is None else asset_names("produce", value)


def _may_fail(value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidOption(f"may_fail is True or False, not {shown(value)}.")
    return value


_READERS = {
    "name": _name,
    "run_if": _run_if,
    "max_parallel": _max_parallel,
    "produce": _produce,
    "may_fail": _may_fail,
}
