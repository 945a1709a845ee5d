"""The declared form of a dag: its steps, the parents of each, and the arguments of each.

A Graph is plain data. Python functions are traced into a Graph, YAML is read into a Graph, and it is stored as JSON
under a version number. A step is a job; a mapped step has as many jobs as its input has elements, its *instances*.

A value that is not known before the run is an *expression*: it refers to a parameter of the run, to its occurrence,
to the result of a step, or to the element of an instance. Arguments are JSON with *placeholders*, each of which an
expression fills.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from datetime import timedelta
from functools import cached_property
from typing import Any, Literal

import msgspec

from tickwork.core.arguments.encode_by_schema import defaults_of
from tickwork.core.blob_ref import Path
from tickwork.core.job import PRIORITIES, Policy, TaskDefinition

RunIf = Literal["all_succeeded", "all_done", "any_failed", "any_succeeded", "none_failed", "always"]
Comparison = Literal["true", "false", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "succeeded"]


class Param(msgspec.Struct, frozen=True, tag="param", tag_field="is", omit_defaults=True):
    """A parameter of the run."""

    name: str
    path: Path = ()


class RunValue(msgspec.Struct, frozen=True, tag="run", tag_field="is"):
    """A value of the run itself: `scheduled_for`, `schedule`, `is_catchup`, or `interval` with `from` and `to`."""

    path: Path


class Result(msgspec.Struct, frozen=True, tag="result", tag_field="is", omit_defaults=True):
    """The result of a step, or the list of results of a mapped step. It is null if the step did not succeed."""

    step: str
    path: Path = ()


class Item(msgspec.Struct, frozen=True, tag="item", tag_field="is", omit_defaults=True):
    """The element of a mapped parameter that an instance gets."""

    name: str
    path: Path = ()


class Last(msgspec.Struct, frozen=True, tag="last", tag_field="is", omit_defaults=True):
    """The result of the last of these steps that succeeded. It is the value of a loop."""

    steps: tuple[str, ...]
    path: Path = ()


class Text(msgspec.Struct, frozen=True, tag="text", tag_field="is"):
    """A text that contains expressions, like an f-string. Values that are not text are written into it as JSON."""

    parts: tuple[str | Param | RunValue | Result | Item | Last, ...]


Expression = Param | RunValue | Result | Item | Last | Text


class Placeholder(msgspec.Struct, frozen=True, array_like=True):
    """A place in a JSON value and the expression that fills it.

    In arguments, the first part of `where` is the name of a parameter.
    """

    where: Path
    value: Expression


class JsonTemplate(msgspec.Struct, frozen=True, omit_defaults=True):
    """A JSON value with null in the places of its placeholders."""

    json: msgspec.Raw
    holes: tuple[Placeholder, ...] = ()


class Condition(msgspec.Struct, frozen=True, omit_defaults=True):
    """A test of a value: whether it is true in Python's sense, or how it compares with `other`.

    The value of a step that did not succeed is missing, and no condition on it holds. The test "succeeded" is only
    whether there is a value.
    """

    value: Expression
    is_: Comparison = msgspec.field(default="true", name="op")
    other: Any = None


class Map(msgspec.Struct, frozen=True, omit_defaults=True):
    """The parameters of a step that take one element each. Several are combined in parallel (zip), or as a `product`.

    Each parameter is mapped over an expression, or over a list that is already known. At most `max_parallel`
    instances of one run are running at once.
    """

    over: dict[str, Expression | list[Any]]
    product: bool = False
    max_parallel: int | None = None


class ApprovalStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step that a person approves or rejects.

    `who` lists the users that may answer; if it is empty, any user may. After `timeout` the answer is `default`.

    If the text contains expressions, `text` shows their places, and the step's argument `text` is the complete text.
    """

    text: str
    who: tuple[str, ...] = ()
    timeout: timedelta | None = None
    default: Literal["approve", "reject"] = "reject"


class Template(msgspec.Struct, frozen=True, omit_defaults=True):
    """The options of the jobs of a step, apart from their arguments. Options that are None come from the run.

    `task_limits` is the stored form of the TaskLimits from which the jobs get their limits.
    """

    task: str
    queue: str = "default"
    priority: int | None = None
    policy: Policy = Policy()
    labels: tuple[str, ...] = ()
    tenant: str | None = None
    needs: str = ""
    task_limits: str | None = None


class Step(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A step: either jobs (`job`) or an approval. `parents` are the steps it waits for, each named once.

    `when`: conditions that must all hold once `run_if` is met; if one does not hold, the step is skipped. `may_fail`: a
    failure of this step does not fail the run.
    """

    name: str
    parents: tuple[str, ...] = ()
    job: Template | None = None
    approval: ApprovalStep | None = None
    args: JsonTemplate = JsonTemplate(msgspec.Raw(b"{}"))
    map: Map | None = None
    run_if: RunIf = "all_succeeded"
    when: tuple[Condition, ...] = ()
    group: str = ""
    produce: tuple[str, ...] = ()
    may_fail: bool = False


class Graph(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, dict=True):
    """A dag. `run` has the options of its runs, `params` the JSON Schema of its parameters, `result` a run's result.

    `on` lists groups of assets: a run starts when all assets of one group are there.
    """

    name: str
    steps: tuple[Step, ...] = ()
    run: Template = Template("")
    params: dict[str, Any] = {}
    result: JsonTemplate = JsonTemplate(msgspec.Raw(b"null"))
    description: str = ""
    on: tuple[tuple[str, ...], ...] = ()
    produce: tuple[str, ...] = ()

    @cached_property
    def by_name(self) -> dict[str, Step]:
        return {step.name: step for step in self.steps}

    @cached_property
    def children(self) -> dict[str, list[str]]:
        """The children of each step."""
        waiting: dict[str, list[str]] = {step.name: [] for step in self.steps}
        for step in self.steps:
            for parent in step.parents:
                waiting[parent].append(step.name)
        return waiting

    @cached_property
    def defaults(self) -> dict[str, msgspec.Raw]:
        """The default values of the parameters."""
        return {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in defaults_of(self.params).items()}

    def below(self, names: Iterable[str]) -> set[str]:
        """Return these steps and all steps that depend on them."""
        found: set[str] = set()
        stack = list(names)
        while stack:
            name = stack.pop()
            if name not in found:
                found.add(name)
                stack.extend(self.children[name])
        return found


_GRAPHS = msgspec.json.Decoder(Graph)


def definition_of(graph: Graph, version: int) -> TaskDefinition:
    """Return the task definition to store for a dag, by which it can be started by name, like a task."""
    run = graph.run
    priority = PRIORITIES["normal"] if run.priority is None else run.priority
    schema = msgspec.json.encode(graph.params)
    return TaskDefinition(graph.name, run.queue, priority, run.policy, schema, run.task_limits, version)


def encode_graph(graph: Graph) -> bytes:
    """Return the stored form of a graph."""
    return msgspec.json.encode(graph)


def decode_graph(data: bytes | str) -> Graph:
    """Return the graph from its stored form."""
    return _GRAPHS.decode(data)


def digest(graph: Graph) -> str:
    """Return a short hash of a graph. A graph with a new hash becomes a new version.

    The hash covers the graph as it is read back from the store. An Encoder compares with defaults by identity, so a
    graph with its own string object "reject" or "all_succeeded" would otherwise differ from the same graph in the
    store.
    """
    stored = decode_graph(encode_graph(graph))
    return hashlib.sha256(msgspec.json.encode(stored, order="deterministic")).hexdigest()[:16]


def steps_in(value: Expression | list[Any]) -> Iterator[str]:
    """Yield the steps whose results an expression needs."""
    if isinstance(value, Result):
        yield value.step
    elif isinstance(value, Last):
        yield from value.steps
    elif isinstance(value, Text):
        for part in value.parts:
            if not isinstance(part, str):
                yield from steps_in(part)
