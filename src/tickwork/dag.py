"""Dags: trace a function into a graph of steps, store the dag, and enqueue its runs.

A dag's function is called once, at first use, with references for its parameters; each task that it calls becomes a
step. A run of the dag is a job, whose arguments are the parameters. This module does not run steps.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from copy import copy
from functools import cached_property, update_wrapper
from typing import Any, Generic, NoReturn, ParamSpec, TypeVar

import msgspec

from tickwork.core.arguments import payload
from tickwork.core.arguments.signature import Signature
from tickwork.core.arguments.type_hints import inspect_signature
from tickwork.core.dag.graph import Graph, JsonTemplate, Param
from tickwork.core.dag.validate import checked
from tickwork.core.job_options import Options
from tickwork.core.limits.task_limits import TaskLimits
from tickwork.dag_builder.record_steps import Trace, current_trace
from tickwork.dag_builder.references import Reference
from tickwork.dag_builder.steps import DagRef, StepOptions, StepRef, run_template, split_step
from tickwork.dag_builder.task_calls import PlaceholderExtractor, encode_known
from tickwork.errors import InvalidDag
from tickwork.store.base import Store
from tickwork.task import Enqueues, TaskRegistry, with_queue_limits

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
_KINDS_WITHOUT_NAMES = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class RunSignature(Signature):
    """The parameters of a dag. Defaults are stored with the arguments of a run, because a run calls no function."""

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], task: str) -> bytes:
        """Encode the arguments of a run, with the defaults of parameters that the call leaves out."""
        return self.encode_some({**self.own_defaults, **self.bind(args, kwargs, task)}, task)

    def params(self) -> dict[str, Any]:
        """Return the JSON Schema of the parameters, with their defaults."""
        schema = self.schema()
        shared = schema.pop("$defs", {})
        own = shared.pop(schema.pop("$ref").rpartition("/")[2])
        own.pop("title", None)
        for name, value in self.defaults(own["properties"]).items():
            own["properties"][name]["default"] = value
        return {**own, "$defs": shared} if shared else own


class Dag(Enqueues[Arguments, Result], Generic[Arguments, Result]):
    """A function that is traced into a graph of steps. Called inside of another dag, it adds its steps to that dag."""

    def __init__(
        self,
        registry: TaskRegistry,
        function: Callable[Arguments, Result],
        name: str,
        options: Options,
        declared: TaskLimits,
        *,
        description: str = "",
        on: tuple[tuple[str, ...], ...] = (),
        produce: tuple[str, ...] = (),
    ) -> None:
        super().__init__(registry, name, lambda: self.signature, options, lambda: self.task_limits, version=self.put)
        update_wrapper(self, function)
        self.function = function
        self.declared = declared
        self.description = description
        self.on = on
        self.produce = produce
        self._whole = self
        self._stored: tuple[Store | None, int] = (None, 0)

    @cached_property
    def signature(self) -> RunSignature:
        """The parameters and the return type of the dag, read at first use."""
        return RunSignature.of(self.function, kind="dag")

    @cached_property
    def task_limits(self) -> TaskLimits:
        """The limits to stamp on the runs of this dag."""
        return with_queue_limits(self.declared, self._registry.queue_limits, self.signature)

    @property
    def graph(self) -> Graph:
        """The validated graph of steps, traced at first use.

        Raises InvalidDag, and any exception of the dag's function.
        """
        return self._whole._checked

    @cached_property
    def _checked(self) -> Graph:
        return checked(self.trace())

    def forget_limits(self) -> None:
        """Discard the traced graph, after queue limits were declared: its steps are stamped with those limits."""
        self.__dict__.pop("task_limits", None)
        self.__dict__.pop("_checked", None)

    def validate(self) -> None:
        """Raise InvalidDag, which is a ValueError, if the dag could not run, for example because of a cycle."""
        _ = self.graph

    def trace(self) -> Graph:
        """Call the dag's function again and return the recorded graph without validating it."""
        names = self._parameters()
        with Trace(self.name).going_on() as trace:
            trace.shapes.update({Param(name): self.signature.takes(name) for name in names})
            refs = {name: Reference(trace.origin, Param(name)) for name in names}
            by_position = [refs.pop(name) for name, kind in names.items() if kind is inspect.Parameter.POSITIONAL_ONLY]
            given: Any = self.function
            result = self._result(trace, given(*by_position, **refs))
        return Graph(
            name=self.name,
            steps=trace.steps(),
            run=run_template(self.name, self.defaults, self.task_limits),
            params=self.signature.params(),
            result=result,
            description=self.description,
            on=self.on,
            produce=self.produce,
        )

    def put(self) -> int:
        """Store the dag's definition if the store does not have it yet, and return its version. Raises InvalidDag."""
        store = self._registry.store
        if self._stored[0] is not store:
            self._stored = (store, store.dags.put_dag(self.graph))
        return self._stored[1]

    def _parameters(self) -> dict[str, Any]:
        """Return the parameters with their kinds. Raises InvalidDag for a function that cannot be traced."""
        if inspect.iscoroutinefunction(self.function) or inspect.isgeneratorfunction(self.function):
            raise InvalidDag(f"dag {self.name!r} is an async function or a generator. It only says what runs: use def.")
        kinds = {name: one.kind for name, one in inspect_signature(self.function).parameters.items()}
        for name, kind in kinds.items():
            if kind in _KINDS_WITHOUT_NAMES:
                raise InvalidDag(f"dag {self.name!r} takes *{name}. Its parameters must have names: write them out.")
        return kinds

    def _result(self, trace: Trace, returned: Any) -> JsonTemplate:
        """Return the template of the run's result. Raises InvalidDag if it does not fit the return type hint."""
        cutter = PlaceholderExtractor(trace.origin)
        left = cutter.cut(returned, ())
        if not cutter.holes:
            return JsonTemplate(msgspec.Raw(self.signature.encode_result(left, self.name, payload.RESULT_LIMIT)))
        what, value = f"the result of dag {self.name!r}", cutter.holes[0].value
        if not cutter.holes[0].where and not trace.shape(value).fits(self.signature.gives):
            raise InvalidDag(
                f"{what} is {self.signature.gives.text} by its hint, and {trace.shape(value).text} in fact."
            )
        data = payload.encode(left, what=what, limit_bytes=payload.RESULT_LIMIT)
        return JsonTemplate(msgspec.Raw(data), tuple(cutter.holes))

    # -- inside of another dag

    def options(self, **options: Any) -> Dag[Arguments, Result]:
        """Return the dag with other options for its runs: `etl.options(priority="high").enqueue(day="2026-11-15")`.

        Inside of another dag, where there is no separate run, only `name` is allowed: the prefix of the step names.
        """
        step, rest = split_step(options)
        return self._with(self.defaults.updated(rest), self.step.updated(step))

    def _with(self, options: Options, step: StepOptions) -> Dag[Arguments, Result]:
        other = copy(self)
        about = (self._registry, self.name, self._signature, options, self._task_limits)
        Enqueues.__init__(other, *about, step=step, version=self._version)
        return other

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Inside of another dag: add the steps of this dag, and return what the function of this dag returns."""
        trace = current_trace()
        if trace is None:
            raise InvalidDag(
                f"dag {self.name!r} is not called but run: {self.name}.enqueue(...). Inside of another dag a call adds "
                f"its steps."
            )
        if self.defaults != self._whole.defaults or self.step != StepOptions(name=self.step.name):
            raise trace.origin.refusal(f"dag {self.name!r} is no run of its own here, so only name= can be said of it")
        self._parameters()
        encode_known(trace, self.signature, self.signature.bind(args, kwargs, self.name), self.name)
        with trace.nested(self.name, self.step.name) as drafts:
            returned: Any = self.function(*args, **kwargs)
        if isinstance(returned, Reference):
            return StepRef(trace.origin, returned._value, drafts, tolerant=True)
        whole = returned._whole if isinstance(returned, DagRef) else returned
        return DagRef(trace.origin, self.name, drafts, whole)

    def map(self, /, *over: Any, **arguments: Any) -> NoReturn:
        """Raise InvalidDag: only a task can be mapped."""
        raise InvalidDag(f"dag {self.name!r} cannot be mapped yet. Map its tasks one after another: b.map(a.map(xs)).")

    product = map

    def until(self, *, every: Any, timeout: Any = None) -> NoReturn:
        """Raise InvalidDag: only a task can be a sensor."""
        raise InvalidDag(f"dag {self.name!r} is no sensor. Use until(...) on a task, or loop({self.name}, ...).")
