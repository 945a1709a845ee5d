"""What a dag is once it is declared: steps, whom they wait for, and what they are called with.

A Graph is plain data. Python functions are traced into one, YAML is read into one, and it is stored as JSON under a
version. A step is a job; a mapped step is as many jobs as its input has elements, its *instances*.

What is not known before the run is an *expression*: a value that stands for a parameter of the run, its occurrence, the
result of a step, or the element that an instance is for. Arguments are JSON with *holes*, each filled by an expression.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from datetime import timedelta
from functools import cached_property
from typing import Any, Literal

import msgspec

from tickwork.core.arguments.run_params import defaults_of
from tickwork.core.blob_ref import Path
from tickwork.core.job import PRIORITIES, Policy, TaskDefinition

RunIf = Literal["all_succeeded", "all_done", "any_failed", "any_succeeded", "none_failed", "always"]
Comparison = Literal["true", "false", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "succeeded"]


class Param(msgspec.Struct, frozen=True, tag="param", tag_field="is", omit_defaults=True):
    """A parameter of the run."""

    name: str
    path: Path = ()


class RunValue(msgspec.Struct, frozen=True, tag="run", tag_field="is"):
    """What a run knows of itself: `scheduled_for`, `schedule`, `is_catchup`, and `interval` with `from` and `to`."""

    path: Path


class Result(msgspec.Struct, frozen=True, tag="result", tag_field="is", omit_defaults=True):
    """The result of a step, or the list of results of a mapped one. None where it did not succeed."""

    step: str
    path: Path = ()


class Item(msgspec.Struct, frozen=True, tag="item", tag_field="is", omit_defaults=True):
    """The element of a mapped parameter that an instance stands for."""

    name: str
    path: Path = ()


class Last(msgspec.Struct, frozen=True, tag="last", tag_field="is", omit_defaults=True):
    """The result of the last of these steps that succeeded: what a loop came to."""

    steps: tuple[str, ...]
    path: Path = ()


class Text(msgspec.Struct, frozen=True, tag="text", tag_field="is"):
    """A text with expressions in it, as an f-string has them. What is no text in there is written as JSON."""

    parts: tuple[str | Param | RunValue | Result | Item | Last, ...]


Expression = Param | RunValue | Result | Item | Last | Text


class Placeholder(msgspec.Struct, frozen=True, array_like=True):
    """A place in a value, and what goes there. In arguments, the first part of `where` is the name of one."""

    where: Path
    value: Expression


class JsonTemplate(msgspec.Struct, frozen=True, omit_defaults=True):
    """JSON, and the holes in it, where it has null."""

    json: msgspec.Raw
    holes: tuple[Placeholder, ...] = ()


class Condition(msgspec.Struct, frozen=True, omit_defaults=True):
    """What must hold of a value: that it is true in Python's sense, or how it compares with another one.

    Of a step that did not succeed there is no value, and nothing holds of it; "succeeded" asks for no more than that.
    """

    value: Expression
    is_: Comparison = msgspec.field(default="true", name="op")
    other: Any = None


class Map(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which parameters of a step take one element each. Several go side by side, or as a `product`.

    What is mapped over is an expression, or a list that is known already. Of one run's instances at most `max_parallel`
    run at once.
    """

    over: dict[str, Expression | list[Any]]
    product: bool = False
    max_parallel: int | None = None


class ApprovalStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step that a person ends. `who`: only they may; empty: anybody. After `timeout` it is answered by `default`.

    Where the text has expressions in it, `text` shows their places and the step's argument `text` is the whole one.
    """

    text: str
    who: tuple[str, ...] = ()
    timeout: timedelta | None = None
    default: Literal["approve", "reject"] = "reject"


class Template(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the jobs of a step are like, apart from their arguments. What is None they have from their run.

    `flow` is the TaskFlow that stamps them, as it is stored.
    """

    task: str
    queue: str = "default"
    priority: int | None = None
    policy: Policy = Policy()
    labels: tuple[str, ...] = ()
    tenant: str | None = None
    needs: str = ""
    flow: str | None = None


class Step(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One step: either jobs (`job`) or an approval. `parents` are those it waits for, data or not, each once.

    `when`: conditions that must all hold once its rule does; where one does not, the step is skipped. `may_fail`: its
    failure does not fail the run.
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
    """A dag. `run` is what its runs are like, `params` the JSON Schema of its parameters, `result` what one gives.

    `on` are assets, any of which starts a run; those that stand together all have to be there.
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
        """Who waits for each step."""
        waiting: dict[str, list[str]] = {step.name: [] for step in self.steps}
        for step in self.steps:
            for parent in step.parents:
                waiting[parent].append(step.name)
        return waiting

    @cached_property
    def defaults(self) -> dict[str, msgspec.Raw]:
        """What parameters are that a run was not given."""
        return {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in defaults_of(self.params).items()}

    def below(self, names: Iterable[str]) -> set[str]:
        """These steps and all that depend on them."""
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
    """What is stored of a dag so that it can be started by its name, as a task can."""
    run = graph.run
    priority = PRIORITIES["normal"] if run.priority is None else run.priority
    schema = msgspec.json.encode(graph.params)
    return TaskDefinition(graph.name, run.queue, priority, run.policy, schema, run.flow, version)


def encode_graph(graph: Graph) -> bytes:
    """A graph as it is stored."""
    return msgspec.json.encode(graph)


def decode_graph(data: bytes | str) -> Graph:
    """The graph that `encode_graph` was given."""
    return _GRAPHS.decode(data)


def digest(graph: Graph) -> str:
    """What tells two definitions apart: a new one is a new version.

    It is that of the graph as it is read back. An Encoder omits a default by its identity, so that a graph which says
    "reject" or "all_succeeded" with a text of its own would differ from the same graph in the store.
    """
    stored = decode_graph(encode_graph(graph))
    return hashlib.sha256(msgspec.json.encode(stored, order="deterministic")).hexdigest()[:16]


def steps_in(value: Expression | list[Any]) -> Iterator[str]:
    """The steps whose results an expression wants."""
    if isinstance(value, Result):
        yield value.step
    elif isinstance(value, Last):
        yield from value.steps
    elif isinstance(value, Text):
        for part in value.parts:
            if not isinstance(part, str):
                yield from steps_in(part)
