"""Steps while a dag is traced: the drafts, and the references by which authors use results and order steps.

Step options are the `.options(...)` that apply to a step of a dag, besides those of any job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, cast, get_args

import msgspec

from tickwork.core.arguments.unstorable import brief
from tickwork.core.dag.graph import (
    ApprovalStep,
    Condition,
    Expression,
    JsonTemplate,
    Last,
    Map,
    RunIf,
    Step,
    Template,
    Text,
    steps_in,
)
from tickwork.core.job_options import DEFAULT_QUEUE, Options
from tickwork.core.limits.task_limits import TaskLimits, encode_task_limits
from tickwork.core.option_parsing import nearest, read_text, read_whole, shown
from tickwork.dag_builder.references import Reference, TraceOrigin, has_reference, owned
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
        """The name of the first option set that is only valid in a dag; None if there is none."""
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
    if task_limits.merging is not None:
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


@dataclass(slots=True, eq=False)
class StepDraft:
    """A recorded step that can still change. `run_if` is None until the author sets it.

    `tolerant`: the step waits for steps of which some may be skipped in normal operation, such as the later rounds of
    a loop. Unless its `run_if` is set, it runs when none of them failed.
    """

    name: str
    args: JsonTemplate
    job: Template | None = None
    approval: ApprovalStep | None = None
    map: Map | None = None
    run_if: RunIf | None = None
    group: str = ""
    produce: tuple[str, ...] = ()
    parents: dict[str, None] = field(default_factory=dict)
    when: list[Condition] = field(default_factory=list)
    tolerant: bool = False
    may_fail: bool = False

    def wait_for(self, names: Iterable[str], *, tolerant: bool = False) -> None:
        """Make these steps parents of the step."""
        before = len(self.parents)
        self.parents.update(dict.fromkeys(names))
        self.tolerant |= tolerant and len(self.parents) > before

    def wait_for_value(self, value: Expression) -> None:
        """Make the steps whose results an expression uses parents of the step."""
        parts = value.parts if isinstance(value, Text) else (value,)
        self.wait_for(steps_in(value), tolerant=any(isinstance(part, Last) for part in parts))

    def demand(self, condition: Condition) -> None:
        """Add a condition: the step runs only if the condition holds."""
        if condition not in self.when:
            self.when.append(condition)
        self.wait_for_value(condition.value)

    def step(self) -> Step:
        """Return the finished step."""
        return Step(
            name=self.name,
            parents=tuple(self.parents),
            job=self.job,
            approval=self.approval,
            args=self.args,
            map=self.map,
            run_if=self.run_if or ("none_failed" if self.tolerant else "all_succeeded"),
            when=tuple(self.when),
            group=self.group,
            produce=self.produce,
            may_fail=self.may_fail,
        )


class OrderedSteps:
    """Steps that can be ordered: `a >> b`, `a >> [b, c] >> d`, `d.after(b, c)`."""

    __slots__ = ()
    _origin: TraceOrigin
    _drafts: list[StepDraft]
    _tolerant: bool

    def after(self, *others: Any) -> Any:
        """Make these steps wait for other steps, even if they do not use their results. Returns itself.

        `load(x).after(check, [lock, mount])`. A step after a whole group, a nested dag or a loop runs when none of its
        steps failed, unless its `run_if` is set.
        """
        for other in _each_of(self._origin, others, "after(...)"):
            for draft in beginning(self._drafts):
                _wait(draft, other)
        return self

    def __rshift__(self, others: Any) -> Any:
        for other in _each_of(self._origin, [others], ">>"):
            if not isinstance(other, OrderedSteps):
                raise self._origin.refusal(f"{other!r} is no step, so nothing can come before it")
            other.after(self)
        return others

    def __rrshift__(self, others: Any) -> Any:
        return self.after(others)


class StepRef(OrderedSteps, Reference):
    """The result of a step, a nested dag or a loop; it can also be ordered with other steps.

    Like any reference it has parts: `ref["key"]`, `ref.field`. `after` is its only method; a part of that name is
    `ref["after"]`.
    """

    __slots__ = ("_drafts", "_tolerant")

    def __init__(
        self, origin: TraceOrigin, value: Expression, drafts: list[StepDraft], *, tolerant: bool = False
    ) -> None:
        super().__init__(origin, value)
        self._drafts = drafts
        self._tolerant = tolerant


class GroupRef(OrderedSteps):
    """The steps of a group. They can be ordered with other steps, but have no value."""

    __slots__ = ("_drafts", "_origin", "_tolerant", "name")

    def __init__(self, origin: TraceOrigin, name: str, drafts: list[StepDraft]) -> None:
        self._origin = origin
        self._drafts = drafts
        self._tolerant = True
        self.name = name

    def __repr__(self) -> str:
        return f"<the group {self.name!r}>"

    def __format__(self, spec: str) -> str:
        raise self._origin.refusal(f"{self!r} cannot be a part of a text; the results of steps inside of it can")

    __str__ = __repr__


class DagRef(GroupRef):
    """The return value of a nested dag if it is not a single reference: a list, a dict or None.

    `ref["key"]` and unpacking take it apart; `after` and `>>` order all of its steps.
    """

    __slots__ = ("_whole",)

    def __init__(self, origin: TraceOrigin, name: str, drafts: list[StepDraft], whole: Any) -> None:
        super().__init__(origin, name, drafts)
        self._whole = whole

    def __getitem__(self, key: Any) -> Any:
        return self._whole[key]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not isinstance(self._whole, dict) or name not in self._whole:
            raise AttributeError(f"what {self!r} returned has no {name!r}")
        return self._whole[name]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._whole)

    def __len__(self) -> int:
        return len(self._whole)

    def __bool__(self) -> bool:
        raise self._origin.refusal(f"what {self!r} returned cannot decide anything here: use a part of it in if_")

    def __repr__(self) -> str:
        return f"<the dag {self.name!r}>"


def drafts_of(origin: TraceOrigin, value: Any, what: str) -> list[StepDraft]:
    """Return the steps that an author passed, one step or a list. Raises InvalidDag for anything else."""
    found: dict[str, StepDraft] = {}
    for one in _each_of(origin, [value], what):
        if not isinstance(one, OrderedSteps):
            raise origin.refusal(f"{what}: {one!r} is no step")
        found.update({draft.name: draft for draft in one._drafts})
    return list(found.values())


def _each_of(origin: TraceOrigin, values: Iterable[Any], what: str) -> Iterator[OrderedSteps | Reference]:
    """Yield the steps and references in nested lists. Raises InvalidDag for anything else."""
    for value in values:
        if isinstance(value, list | tuple):
            yield from _each_of(origin, value, what)
        elif isinstance(value, OrderedSteps | Reference):
            yield owned(origin, value)
        elif callable(value):
            name = getattr(value, "name", brief(value))
            raise origin.refusal(f"{what} takes steps, and {name!r} is a step only when it is called: {name}(...)")
        else:
            raise origin.refusal(f"{what} takes steps and lists of them, not {brief(value)}")


def _wait(draft: StepDraft, other: OrderedSteps | Reference) -> None:
    """Make a step wait for other steps. Raises InvalidDag for a reference that depends on no step."""
    if isinstance(other, OrderedSteps):
        draft.wait_for((one.name for one in other._drafts), tolerant=other._tolerant)
        return
    before = len(draft.parents)
    draft.wait_for_value(other._value)
    if len(draft.parents) == before and not any(steps_in(other._value)):
        raise other._origin.refusal(f"{other!r} is there from the start; there is nothing to wait for")


def beginning(drafts: list[StepDraft]) -> list[StepDraft]:
    """Return the steps that wait for none of the other given steps."""
    if len(drafts) == 1:
        return drafts
    names = {draft.name for draft in drafts}
    return [draft for draft in drafts if names.isdisjoint(draft.parents)]
