"""Tracing of a dag's function: each call of a task inside of it records a step.

The active trace is in a context variable, so outside of a trace a call of a task only costs reading that variable.
Blocks (`if_`, `group`, a nested dag) apply their conditions, group and prefix to the steps recorded until they end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tickwork.core.arguments.fitting_types import ANYTHING, JsonTypes
from tickwork.core.dag.graph import ApprovalStep, Condition, Expression, JsonTemplate, Map, Result, Step, Template, Text
from tickwork.dag_builder.references import TraceOrigin
from tickwork.dag_builder.steps import StepDraft, StepOptions, StepRef
from tickwork.errors import InvalidDag

_TRACE: ContextVar[Trace | None] = ContextVar("tickwork_trace", default=None)
_A_TEXT = JsonTypes("str", frozenset({"string"}))
current_trace: Callable[[], Trace | None] = _TRACE.get


def needed_trace(what: str) -> Trace:
    """Return the active trace. Raises InvalidDag if there is none."""
    trace = current_trace()
    if trace is None:
        raise InvalidDag(f"{what} belongs inside of a function with @app.dag, which is not being traced here.")
    return trace


class Trace:
    """The steps recorded so far, and the conditions, group and prefix that apply to the next steps."""

    def __init__(self, dag: str) -> None:
        self.origin = TraceOrigin(dag)
        self.when: tuple[Condition, ...] = ()
        self.group = ""
        self.shapes: dict[Expression, JsonTypes] = {}
        self._drafts: dict[str, StepDraft] = {}
        self._names: set[str] = set()
        self._counts: dict[str, int] = {}
        self._prefix = ""
        self._dags: tuple[str, ...] = (dag,)
        self._collecting: list[list[StepDraft]] = []

    @contextmanager
    def going_on(self) -> Iterator[Trace]:
        """Make this trace active while the block runs, so that calls of tasks record steps in it."""
        token = _TRACE.set(self)
        try:
            yield self
        except Exception as error:
            error.add_note(f"while the function of dag {self.origin.dag!r} was traced")
            raise
        finally:
            _TRACE.reset(token)

    def steps(self) -> tuple[Step, ...]:
        """Return the recorded steps."""
        return tuple(draft.step() for draft in self._drafts.values())

    def add(
        self,
        called: str,
        said: StepOptions,
        args: JsonTemplate,
        *,
        job: Template | None = None,
        approval: ApprovalStep | None = None,
        map: Map | None = None,
    ) -> StepRef:
        """Record a step and return the reference to its result. Its name is `called`, unless its options set one."""
        name = self.name(called, said.name)
        draft = StepDraft(
            name,
            args,
            job=job,
            approval=approval,
            map=map,
            run_if=said.run_if,
            group=self.group,
            produce=said.produce,
            may_fail=said.may_fail,
        )
        for hole in args.holes:
            draft.wait_for_value(hole.value)
        for over in map.over.values() if map is not None else ():
            if not isinstance(over, list):
                draft.wait_for_value(over)
        for condition in self.when:
            draft.demand(condition)
        self._drafts[name] = draft
        for drafts in self._collecting:
            drafts.append(draft)
        return StepRef(self.origin, Result(name), [draft])

    def shape(self, value: Expression) -> JsonTypes:
        """Return the JSON types that an expression can have, as far as type hints tell."""
        return _A_TEXT if isinstance(value, Text) else self.shapes.get(value, ANYTHING)

    def name(self, called: str, said: str | None = None) -> str:
        """Return a unique name: the name given by the author, or else `called`, `called_2` and so on.

        Raises InvalidDag if the given name is taken.
        """
        if said is not None:
            name = f"{self._prefix}{said}"
            if name in self._names:
                raise self.origin.refusal(f"two steps are named {name!r}. Give one of them another name")
        else:
            name = self._free(f"{self._prefix}{called}")
        self._names.add(name)
        return name

    def _free(self, name: str) -> str:
        """Return the name, with the lowest unused number if it is taken."""
        free, count = name, self._counts.get(name, 1)
        while free in self._names:
            count += 1
            free = f"{name}_{count}"
        self._counts[name] = count
        return free

    @contextmanager
    def collecting(self) -> Iterator[list[StepDraft]]:
        """Yield a list that collects the steps recorded while the block runs."""
        drafts: list[StepDraft] = []
        self._collecting.append(drafts)
        try:
            yield drafts
        finally:
            self._collecting.pop()

    @contextmanager
    def grouped(self, name: str) -> Iterator[list[StepDraft]]:
        """Put the steps of the block into a group, nested in the current group."""
        outer = self.group
        self.group = f"{outer}.{name}" if outer else name
        try:
            with self.collecting() as drafts:
                yield drafts
        finally:
            self.group = outer

    @contextmanager
    def nested(self, dag: str, said: str | None) -> Iterator[list[StepDraft]]:
        """Record the steps of another dag as a group, which has the dag's name. That prefixes the names of the steps.

        Raises InvalidDag if the dag contains itself.
        """
        if dag in self._dags:
            raise self.origin.refusal(f"a dag that contains itself has no end: {' -> '.join((*self._dags, dag))}")
        name, prefix, dags = self.name(dag, said), self._prefix, self._dags
        self._prefix, self._dags = f"{name}.", (*dags, dag)
        try:
            with self.grouped(name.removeprefix(prefix)) as drafts:
                yield drafts
        finally:
            self._prefix, self._dags = prefix, dags

    @contextmanager
    def demanding(self, *conditions: Condition) -> Iterator[None]:
        """Add conditions to the steps of the block, besides the conditions of enclosing blocks."""
        outer = self.when
        self.when = (*outer, *conditions)
        try:
            yield
        finally:
            self.when = outer
