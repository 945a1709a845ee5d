"""References: placeholders for values of a run, used in the function of a dag.

A reference has no value while the dag is traced. Operations that need the value now (`if`, `for`, `len`, arithmetic)
raise InvalidDag with a sentence on what to write instead. Supported operations return another reference: a part of the
value, a text that includes it, a condition.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import count
from typing import Any, NoReturn, Protocol, TypeVar

import msgspec

from tickwork.core.arguments.payload import seal
from tickwork.core.arguments.unstorable import Flaw, brief, suffix
from tickwork.core.dag.graph import Comparison, Condition, Expression, Last, Result, RunValue, Text
from tickwork.errors import InvalidDag

# These noncharacter code points enclose a reference in a text; no meaningful text contains them.
_OPEN, _CLOSE = "\ufdd0", "\ufdd1"
_TOKEN = re.compile(f"{_OPEN}(\\d+):(\\d+){_CLOSE}")
_numbers = count(1)


class TraceOwned(Protocol):
    """An object that belongs to one trace."""

    _origin: TraceOrigin


OwnedT = TypeVar("OwnedT", bound=TraceOwned)


class TraceOrigin:
    """The identity of a trace, and the expressions that its texts refer to."""

    __slots__ = ("dag", "noted", "number")

    def __init__(self, dag: str) -> None:
        self.dag = dag
        self.number = next(_numbers)
        self.noted: list[Expression] = []

    def note(self, value: Expression) -> str:
        """Return a token that represents an expression in a text until `read` replaces it."""
        self.noted.append(value)
        return f"{_OPEN}{self.number}:{len(self.noted) - 1}{_CLOSE}"

    def read(self, text: str) -> str | Text:
        """Return a text unchanged, or a Text expression if it contains references."""
        if _OPEN not in text:
            return text
        pieces = _TOKEN.split(text)
        parts: list[Any] = [pieces[0]]
        for number, index, after in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
            if int(number) != self.number:
                raise self.refusal("a text has a reference of another dag in it. References stay in their function")
            noted = self.noted[int(index)]
            parts += [*(noted.parts if isinstance(noted, Text) else [noted]), after]
        return Text(tuple(part for part in parts if part != ""))

    def refusal(self, said: str) -> InvalidDag:
        """Return the exception for a mistake in this dag."""
        return InvalidDag(f"dag {self.dag!r}: {said}.")


def has_reference(text: str) -> bool:
    """Return whether a text contains a reference."""
    return _OPEN in text


def described(value: Expression) -> str:
    """Describe an expression for error messages."""
    if isinstance(value, Text):
        return "a text with references"
    if isinstance(value, RunValue):
        return f"this_run.{'_'.join(map(str, value.path))}"
    if isinstance(value, Last):
        whole = f"the result of the loop of {value.steps[0]!r}"
    else:
        whole = f"the result of step {value.step!r}" if isinstance(value, Result) else f"the parameter {value.name!r}"
    path = "".join(map(suffix, value.path)).lstrip(".")
    return f"{path} of {whole}" if path else whole


def _refused(said: str) -> Callable[..., NoReturn]:
    """Return a method that raises InvalidDag for an operation that needs a value."""

    def refuse(self: Any, *_: Any, **__: Any) -> NoReturn:
        raise self._origin.refusal(f"{self._told()} is known only when it runs, so it {said}")

    return refuse


_arithmetic = _refused('cannot be reckoned with here: do it in a task, or write a text as f"{ref}/x"')


class Reference:
    """A reference to a value of a run: a parameter, the result of a step, or a part of either.

    `ref["key"]`, `ref[0]` and `ref.field` are parts of the value, f"{ref}/x" is a text that includes it, and `ref >
    10` is a condition for `if_`. A reference can be anywhere in the arguments of a task, also inside of lists and
    dicts.
    """

    __slots__ = ("_origin", "_value")

    def __init__(self, origin: TraceOrigin, value: Expression) -> None:
        self._origin = origin
        self._value = value

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str | int) or isinstance(key, bool):
            raise self._origin.refusal(
                f"{self._told()} has parts by key or by number, [{brief(key)}] is neither. Take it apart in a task"
            )
        if isinstance(key, str) and has_reference(key):
            raise self._origin.refusal(f"a key of {self._told()} is a reference itself. Look it up in a task")
        return self._part(key)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"a reference has no {name!r}; a part of it that is called so is ref[{name!r}]")
        return self._part(name)

    def _part(self, key: str | int) -> Any:
        value = self._value
        if isinstance(value, Text):
            raise self._origin.refusal("a text with references has no parts")
        return Reference(self._origin, msgspec.structs.replace(value, path=(*value.path, key)))

    def __format__(self, spec: str) -> str:
        if spec:
            raise self._origin.refusal(
                f"{self._told()} is known only when it runs, and cannot be written as {spec!r} here. Leave the format "
                f"out, or write the text in a task"
            )
        return self._origin.note(self._value)

    def __str__(self) -> str:
        return format(self)

    def __repr__(self) -> str:
        return f"<{self._told()}>"

    def _told(self) -> str:
        return described(self._value)

    def _compared(self, is_: Comparison, other: Any) -> ComparedReference:
        return ComparedReference(self._origin, Condition(self._value, is_, known_value(self._origin, other)))

    def __eq__(self, other: object) -> Any:
        return self._compared("==", other)

    def __ne__(self, other: object) -> Any:
        return self._compared("!=", other)

    def __lt__(self, other: Any) -> Any:
        return self._compared("<", other)

    def __le__(self, other: Any) -> Any:
        return self._compared("<=", other)

    def __gt__(self, other: Any) -> Any:
        return self._compared(">", other)

    def __ge__(self, other: Any) -> Any:
        return self._compared(">=", other)

    __bool__ = _refused("cannot decide an if, and, or, not here: write `with if_(ref):`")
    __iter__ = _refused("cannot be gone through here: write task.map(ref), a step for each element")
    __len__ = _refused("has no length here: count it in a task")
    __contains__ = _refused("cannot be searched here: do it in a task, and use its result in if_")
    __hash__ = _refused("cannot be a key or an element of a set: use it as a value")
    __call__ = _refused("cannot be called: what you name is a part of it, not a method")
    __int__ = __float__ = __index__ = __abs__ = __neg__ = __round__ = _arithmetic
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _arithmetic
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __and__ = __or__ = _arithmetic
    __rshift__ = __rrshift__ = _refused("has no place in an order of its own: write >> between steps")


class ComparedReference:
    """A comparison of a reference with a value: a condition for `if_` and for the `until` of a loop."""

    __slots__ = ("_origin", "condition")

    def __init__(self, origin: TraceOrigin, condition: Condition) -> None:
        self._origin = origin
        self.condition = condition

    def _told(self) -> str:
        return f"whether {described(self.condition.value)} {self.condition.is_} {brief(self.condition.other)}"

    def __repr__(self) -> str:
        return f"<{self._told()}>"

    __bool__ = __and__ = __or__ = __rand__ = __ror__ = __invert__ = _refused(
        "cannot decide an if, and, or, not, in here: write `with if_(ref > 10):`, one inside of the other for `and`"
    )
    __format__ = __str__ = _refused("cannot be a part of a text: use it in if_, or compare in a task")


_OPPOSITES: dict[Comparison, Comparison] = {
    "true": "false",
    "false": "true",
    "==": "!=",
    "!=": "==",
    "<": ">=",
    ">=": "<",
    ">": "<=",
    "<=": ">",
}


def negated(condition: Condition) -> Condition:
    """Return the opposite condition."""
    return msgspec.structs.replace(condition, is_=_OPPOSITES[condition.is_])


def owned(origin: TraceOrigin, value: OwnedT) -> OwnedT:
    """Return the reference if it belongs to this trace. Raises InvalidDag otherwise."""
    if value._origin is not origin:
        raise origin.refusal(f"{value!r} belongs to another dag. References stay in the function that made them")
    return value


def condition_of(origin: TraceOrigin, value: Any) -> Condition | bool:
    """Return the condition given to `if_`: a comparison, a reference, or a known value as a bool."""
    if isinstance(value, ComparedReference):
        return owned(origin, value).condition
    if isinstance(value, Reference):
        return Condition(owned(origin, value)._value)
    if isinstance(value, str) and isinstance(text := origin.read(value), Text):
        return Condition(text)
    return bool(value)


def known_value(origin: TraceOrigin, value: Any) -> Any:
    """Return a value to compare a reference with. Raises InvalidDag if it is a reference or not JSON."""
    if isinstance(value, Reference | ComparedReference) or (isinstance(value, str) and has_reference(value)):
        raise origin.refusal("a condition compares a reference with a known value. Compare two of them in a task")
    try:
        data = seal(value)
        known = msgspec.json.decode(data)
    except Flaw as flaw:
        raise origin.refusal(f"a condition compares with {brief(value)}: {flaw.reason}") from None
    if known != value:
        raise origin.refusal(
            f"a condition compares with {brief(value)}, and a result is JSON. Write it as it is there: {brief(known)}"
        )
    return known
