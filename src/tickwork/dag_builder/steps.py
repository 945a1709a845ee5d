"""Steps while they are traced: what is written down of one, and what an author holds to put them in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

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
from tickwork.dag_builder.references import Reference, TraceOrigin, owned


@dataclass(slots=True, eq=False)
class StepDraft:
    """A step as far as it is known. `run_if` is None until somebody says it.

    `tolerant`: it waits for steps of which some may be skipped without anything being wrong, such as the later rounds
    of a loop. Unless its rule is said, it runs when none of them failed.
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
        """Have it wait for these steps, too."""
        before = len(self.parents)
        self.parents.update(dict.fromkeys(names))
        self.tolerant |= tolerant and len(self.parents) > before

    def wait_for_value(self, value: Expression) -> None:
        """Have it wait for the steps whose results an expression wants."""
        parts = value.parts if isinstance(value, Text) else (value,)
        self.wait_for(steps_in(value), tolerant=any(isinstance(part, Last) for part in parts))

    def demand(self, condition: Condition) -> None:
        """Have it run only where this holds."""
        if condition not in self.when:
            self.when.append(condition)
        self.wait_for_value(condition.value)

    def step(self) -> Step:
        """The step that it comes to."""
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
    """Steps that can be put in an order: `a >> b`, `a >> [b, c] >> d`, `d.after(b, c)`."""

    __slots__ = ()
    _origin: TraceOrigin
    _drafts: list[StepDraft]
    _tolerant: bool

    def after(self, *others: Any) -> Any:
        """Have it wait for other steps, although it may not use their results. Returns itself.

        `load(x).after(check, [lock, mount])`. What follows a whole group, a nested dag or a loop runs when none of its
        steps failed, unless `run_if` says something else.
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
    """The result of a step, or of a nested dag, or of a loop; and a place in the order of steps.

    As any reference it has parts: `ref["key"]`, `ref.field`. `after` is its one method; a part of that name is
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
    """The steps of a group: a place in the order of steps, but no value."""

    __slots__ = ("_drafts", "_origin", "_tolerant", "name")

    def __init__(self, origin: TraceOrigin, name: str, drafts: list[StepDraft]) -> None:
        self._origin = origin
        self._drafts = drafts
        self._tolerant = True
        self.name = name

    def __repr__(self) -> str:
        return f"<the group {self.name!r}>"

    def __format__(self, spec: str) -> str:
        raise self._origin.refusal(f"{self!r} cannot stand in a text; what steps inside of it give can")

    __str__ = __repr__


class DagRef(GroupRef):
    """What a nested dag gave back where that is not a single reference: a list, a dict, nothing.

    `ref["key"]` and unpacking take it apart, `after` and `>>` put all of its steps in order.
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
    """The steps that an author names, one or a list of them. Raises InvalidDag for what is none."""
    found: dict[str, StepDraft] = {}
    for one in _each_of(origin, [value], what):
        if not isinstance(one, OrderedSteps):
            raise origin.refusal(f"{what}: {one!r} is no step")
        found.update({draft.name: draft for draft in one._drafts})
    return list(found.values())


def _each_of(origin: TraceOrigin, values: Iterable[Any], what: str) -> Iterator[OrderedSteps | Reference]:
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
    if isinstance(other, OrderedSteps):
        draft.wait_for((one.name for one in other._drafts), tolerant=other._tolerant)
        return
    before = len(draft.parents)
    draft.wait_for_value(other._value)
    if len(draft.parents) == before and not any(steps_in(other._value)):
        raise other._origin.refusal(f"{other!r} is there from the start; there is nothing to wait for")


def beginning(drafts: list[StepDraft]) -> list[StepDraft]:
    """Those of these steps that wait for none of the others."""
    if len(drafts) == 1:
        return drafts
    names = {draft.name for draft in drafts}
    return [draft for draft in drafts if names.isdisjoint(draft.parents)]
