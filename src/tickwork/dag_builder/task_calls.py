"""Calls of tasks inside of a dag: `task(x)`, `task.map(xs)`, `task.product(xs, ys)`, `task.until(...)(x)`.

Known arguments are checked and encoded as for any job of the task. References become placeholders; the worker checks
the values that are filled in.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any, NamedTuple, Protocol

import msgspec

from tickwork.core.arguments.fitting_types import ANYTHING, JsonTypes
from tickwork.core.arguments.unstorable import DEPTH_LIMIT, brief, field_names
from tickwork.core.blob_ref import Path
from tickwork.core.dag.graph import Expression, Item, JsonTemplate, Map, Placeholder, Template
from tickwork.core.dag.untrusted_values import pinned
from tickwork.core.text.duration import parse_duration
from tickwork.dag_builder.record_steps import Trace, needed_trace
from tickwork.dag_builder.references import ComparedReference, Reference, TraceOrigin, described, has_reference, owned
from tickwork.dag_builder.steps import DagRef, GroupRef, StepOptions, StepRef
from tickwork.errors import InvalidDag, InvalidOption

_NO_PARTS = frozenset({int, float, bool, type(None)})


class MappedElement:
    """Marks an argument as mapped: each job receives one element of it."""

    __slots__ = ("over",)

    def __init__(self, over: Any) -> None:
        self.over = over


class PlaceholderExtractor:
    """Cuts references out of values and records where they were."""

    __slots__ = ("_origin", "holes")

    def __init__(self, origin: TraceOrigin) -> None:
        self._origin = origin
        self.holes: list[Placeholder] = []

    def cut(self, value: Any, where: Path) -> Any:
        """Return the value with None in place of each reference. Raises InvalidDag where a reference is not allowed."""
        kind = type(value)
        if kind in _NO_PARTS or len(where) > DEPTH_LIMIT + 1:  # values nested deeper are refused when they are encoded
            return value
        if kind is str:
            return self._text(value, where)
        if isinstance(value, Reference):
            self.holes.append(Placeholder(where, owned(self._origin, value)._value))
            return None
        if isinstance(value, DagRef):
            return self.cut(owned(self._origin, value)._whole, where)
        if isinstance(value, MappedElement):
            raise self._origin.refusal("what is mapped goes to a parameter of its own, not to *args or into a value")
        if isinstance(value, GroupRef | ComparedReference):
            raise self._origin.refusal(f"{value!r} is no value that a task could be given")
        if isinstance(value, list | tuple):
            return self._list(value, where)
        if isinstance(value, dict):
            return self._dict(value, where)
        self._refuse_inside(value, where)
        return value

    def _text(self, value: str, where: Path) -> str | None:
        """Return a text; if it contains references, record a placeholder and return None."""
        text = self._origin.read(value)
        if isinstance(text, str):
            return text
        self.holes.append(Placeholder(where, text))
        return None

    def _list(self, value: list[Any] | tuple[Any, ...], where: Path) -> Any:
        before = len(self.holes)
        left = [self.cut(item, (*where, place)) for place, item in enumerate(value)]
        return value if len(self.holes) == before else left

    def _dict(self, value: dict[Any, Any], where: Path) -> Any:
        """Return the dict with its references cut out.

        Raises InvalidDag for a reference as a key, and for keys that JSON or Tickwork's `$` notation cannot hold.
        """
        before = len(self.holes)
        left = {}
        for key, item in value.items():
            if isinstance(key, str) and has_reference(key):
                raise self._origin.refusal("a key of a dict is a reference. Build that dict in a task")
            left[key] = self.cut(item, (*where, key))
        if len(self.holes) == before:
            return value
        for key in value:
            if not isinstance(key, str) or (len(value) == 1 and key.startswith("$")):
                raise self._origin.refusal(f"a dict with the key {brief(key)} cannot hold a reference. Use another key")
        return left

    def _refuse_inside(self, value: Any, where: Path) -> None:
        """Raise InvalidDag for references inside of a set, dataclass or model: it has no JSON while a value is
        missing.
        """
        if isinstance(value, set | frozenset):
            parts = list(value)
        else:
            parts = [getattr(value, name, None) for name in field_names(type(value))]
        before = len(self.holes)
        for part in parts:
            self.cut(part, (*where, ""))
        if len(self.holes) > before:
            kind = type(value).__name__
            raise self._origin.refusal(
                f"a reference stands inside of a {kind}. It may in lists and dicts: pass one, and make a {kind} there"
            )


SHORTEST = timedelta(milliseconds=100)


class ArgumentEncoder(Protocol):
    """The parameters of a task: `core.arguments.signature`, or `core.arguments.encode_by_schema`."""

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], task: str) -> bytes: ...

    def encode_named(self, arguments: Mapping[str, Any], task: str) -> bytes: ...

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], task: str) -> dict[str, Any]: ...

    def encode_some(self, bound: dict[str, Any], task: str, unchecked: Collection[str] = ()) -> bytes: ...

    def takes(self, name: str) -> JsonTypes: ...

    @property
    def gives(self) -> JsonTypes: ...


class TaskCallInfo(NamedTuple):
    """The facts of a task that a trace needs to record a call of it."""

    signature: ArgumentEncoder
    template: Template
    said: StepOptions


def each(over: Any) -> Any:
    """Mark a named argument of `task.map` as mapped, one element per job: `task.map(xs, factor=each(ys))`."""
    return over if isinstance(over, MappedElement) else MappedElement(over)


class Traceable:
    """An object that can be called inside of a dag. Each call returns a reference to the result of a step."""

    name: str

    def called(self) -> TaskCallInfo:
        """Return the facts that a trace needs. Raises InvalidOption for options that a step cannot have."""
        raise NotImplementedError

    def map(self, /, *over: Any, **arguments: Any) -> Any:
        """Inside of a dag: add a step with one job for each element of a list, which may be a reference.

        Positional arguments are mapped; named arguments are the same for all jobs unless they are wrapped in `each`.
        Several mapped arguments are paired as by `zip(strict=True)`. The result is the list of all results, in the
        order of the elements.

            parts = transform.options(max_parallel=3).map(extract(day), factor=10)
        """
        return self._mapped(over, arguments, product=False)

    def product(self, /, *over: Any, **arguments: Any) -> Any:
        """Inside of a dag: add a step like `map`, with one job for each combination, as by `itertools.product`."""
        return self._mapped(over, arguments, product=True)

    def _mapped(self, over: tuple[Any, ...], arguments: dict[str, Any], *, product: bool) -> Any:
        """Record the step of `map` or `product`. Raises InvalidDag outside of a dag, or if no argument is mapped."""
        trace = needed_trace(f"{self.name}.map(...)")
        if not over and not any(isinstance(value, MappedElement) for value in arguments.values()):
            raise trace.origin.refusal(
                f"{self.name}.map(...) is given nothing to map over. Positional arguments are mapped, and each(xs)"
            )
        args = tuple(each(one) for one in over)
        return add_call(trace, self.called(), args, arguments, is_map=True, product=product)


def again_every(every: Any, timeout: Any) -> tuple[timedelta, timedelta | None]:
    """Read the arguments of `until`. Raises InvalidOption."""
    wait = parse_duration(every, what="every")
    if wait < SHORTEST:
        raise InvalidOption(f"every is {brief(every)}; it must be at least 100ms.")
    return wait, None if timeout is None else parse_duration(timeout, what="timeout")


def add_call(
    trace: Trace,
    called: TaskCallInfo,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    is_map: bool = False,
    product: bool = False,
) -> StepRef:
    """Record the step of a task call. Raises InvalidArguments, InvalidPayload and InvalidDag."""
    signature, template, said = called
    bound = signature.bind(args, kwargs, template.task)
    over = {name: value.over for name, value in bound.items() if isinstance(value, MappedElement)}
    if not is_map:
        _refuse_of_maps(trace.origin, called, maps=bool(over))
    data, cut = encode_known(trace, signature, {**bound, **dict.fromkeys(over)}, template.task, over)
    if not over:
        known = pinned(template.task, JsonTemplate(msgspec.Raw(data), cut))
        step = trace.add(template.task, said, known, job=template)
    else:
        holes = (*cut, *(Placeholder((name,), Item(name)) for name in over))
        lists = {name: _elements(trace, called, name, value) for name, value in over.items()}
        mapped = Map(lists, product, said.max_parallel)
        step = trace.add(template.task, said, JsonTemplate(msgspec.Raw(data), holes), job=template, map=mapped)
    trace.shapes[step._value] = signature.gives.as_list() if over else signature.gives
    return step


def encode_known(
    trace: Trace, signature: ArgumentEncoder, bound: dict[str, Any], task: str, unchecked: Collection[str] = ()
) -> tuple[bytes, tuple[Placeholder, ...]]:
    """Return arguments as JSON, and the placeholders in it. Raises if a known value does not fit its type hint."""
    cutter = PlaceholderExtractor(trace.origin)
    known = {name: cutter.cut(value, (name,)) for name, value in bound.items()}
    for where, value in ((hole.where, hole.value) for hole in cutter.holes):
        if len(where) == 1:
            _refuse_unfit(trace, value, trace.shape(value), signature, str(where[0]), task)
    return (
        signature.encode_some(known, task, {*unchecked, *(str(hole.where[0]) for hole in cutter.holes)}),
        tuple(cutter.holes),
    )


def _refuse_unfit(
    trace: Trace, value: Expression, given: JsonTypes, signature: ArgumentEncoder, name: str, task: str
) -> None:
    """Raise InvalidDag if the JSON types of a reference do not fit the type hint of a parameter."""
    wanted = signature.takes(name)
    if not given.fits(wanted):
        raise trace.origin.refusal(
            f"argument {name!r} of {task!r} takes {wanted.text}, and is given {given.text}: {described(value)}"
        )


def _refuse_of_maps(origin: TraceOrigin, called: TaskCallInfo, *, maps: bool) -> None:
    """Raise InvalidDag for arguments and options of maps in a plain call."""
    task = called.template.task
    if maps:
        raise origin.refusal(f"each(...) is for {task}.map(...), and this is a plain call")
    if called.said.max_parallel is not None:
        raise origin.refusal(f"max_parallel bounds the instances of {task}.map(...), and {task}(...) is one job")


def _elements(trace: Trace, called: TaskCallInfo, name: str, over: Any) -> Expression | list[Any]:
    """Return the expression that a parameter is mapped over, or the JSON of known elements after checking them."""
    signature, task = called.signature, called.template.task
    if isinstance(over, DagRef):
        over = over._whole
    if isinstance(over, Reference):
        value = owned(trace.origin, over)._value
        whole = trace.shape(value)
        if not whole.fits(ANYTHING.as_list()):
            raise trace.origin.refusal(f"{task}.map(...) goes over a list, and {described(value)} is {whole.text}")
        _refuse_unfit(trace, value, whole.items or ANYTHING, signature, name, task)
        return value
    if not isinstance(over, list | tuple | range):
        raise trace.origin.refusal(f"{task}.map(...) goes over a reference or a list, not {brief(over)}")
    cutter = PlaceholderExtractor(trace.origin)
    cutter.cut(list(over), (name,))
    if cutter.holes:
        raise trace.origin.refusal(
            f"{task}.map(...) goes over a list with references in it. These elements are known one by one: call {task} "
            f"for each of them, in a for loop of Python"
        )
    encoded = (signature.encode_some({name: element}, task) for element in over)
    return [msgspec.json.decode(data)[name] for data in encoded]


def refuse_call(name: str) -> InvalidDag:
    """Return the exception for calling something with `.options(...)` outside of a dag."""
    return InvalidDag(
        f"{name}.options(...) is called, which adds a step inside of a function with @app.dag only. "
        f"To make a job: {name}.options(...).enqueue(...)."
    )
