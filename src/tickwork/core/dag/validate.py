"""Validate a graph before it runs, in time proportional to its size.

Cycles are reported as one short cycle for each strongly connected component. Nothing here is recursive, so a chain of
10,000 steps is accepted like any other graph.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from math import prod
from typing import NamedTuple

from tickwork.core.arguments.payload import PAYLOAD_LIMIT
from tickwork.core.dag.graph import Expression, Graph, Item, Last, Map, Param, Result, Step, Text
from tickwork.core.dag.untrusted_values import misplaced_in
from tickwork.core.text.suggestions import guess
from tickwork.errors import InvalidDag

Parents = Mapping[str, Sequence[str]]  # the parents of each step; every step is a key


def find_cycles(parents: Parents) -> list[list[str]]:
    """Return a short cycle of each component, such as ["a", "b", "a"]: each step waits for the one before it."""
    place = {name: at for at, name in enumerate(parents)}
    found = []
    for knot in _knots(parents):
        first = min(knot, key=place.__getitem__)
        if len(knot) > 1 or first in parents[first]:
            found.append(_cycle(first, parents, knot))
    return sorted(found, key=lambda cycle: place[cycle[0]])


def _knots(parents: Parents) -> Iterator[list[str]]:
    """Yield the strongly connected components, by Kosaraju's algorithm."""
    children: dict[str, list[str]] = {name: [] for name in parents}
    for name, waits_for in parents.items():
        for one in waits_for:
            children[one].append(name)
    taken: set[str] = set()
    for name in reversed(_done_last(parents)):
        if name not in taken:
            yield _reached(name, children, taken)


def _done_last(graph: Parents) -> list[str]:
    """Return all steps in the order in which a depth-first search finishes them (postorder)."""
    seen: set[str] = set()
    done: list[str] = []
    for root in graph:
        stack = [] if root in seen else [(root, iter(graph[root]))]
        seen.add(root)
        while stack:
            unseen = next((one for one in stack[-1][1] if one not in seen), None)
            if unseen is None:
                done.append(stack.pop()[0])
            else:
                seen.add(unseen)
                stack.append((unseen, iter(graph[unseen])))
    return done


def _reached(first: str, graph: Parents, taken: set[str]) -> list[str]:
    """Return the steps that can be reached from `first` without passing through `taken`, and add them to `taken`."""
    taken.add(first)
    reached = [first]
    for name in reached:
        for one in graph[name]:
            if one not in taken:
                taken.add(one)
                reached.append(one)
    return reached


def _cycle(first: str, parents: Parents, knot: Collection[str]) -> list[str]:
    """Return the shortest cycle through a step of a component, found by breadth-first search."""
    within = set(knot)
    next_of: dict[str, str] = {}  # for each step, the next step on a shortest way to `first`
    seen = deque([first])
    while first not in next_of:
        name = seen.popleft()
        for one in parents[name]:
            if one in within and one not in next_of:
                next_of[one] = name
                seen.append(one)
    way = [first, next_of[first]]
    while way[-1] != first:
        way.append(next_of[way[-1]])
    return way


STEP_LIMIT = 20_000
EDGE_LIMIT = 1_000_000
INSTANCE_LIMIT = 100_000
NAME_LIMIT = 200
PROBLEM_LIMIT = 20
NEED_A_PARENT = ("any_failed", "any_succeeded")


def checked(graph: Graph) -> Graph:
    """Return the graph if it is valid. Raises InvalidDag, which lists the problems."""
    problems = check(graph)
    if not problems:
        return graph
    if len(problems) == 1:
        raise InvalidDag(f"dag {graph.name!r} cannot run: {problems[0]}.")
    said = "\n".join(f"- {problem}" for problem in problems)
    raise InvalidDag(f"dag {graph.name!r} cannot run:\n{said}")


def check(graph: Graph) -> list[str]:
    """Return the problems of a graph as sentences, at most 20."""
    return list(islice(_problems(graph), PROBLEM_LIMIT))


class _KnownNames(NamedTuple):
    """The names that expressions may refer to. `params` is None if the graph declares no parameters."""

    steps: dict[str, Step]
    params: Collection[str] | None


def _problems(graph: Graph) -> Iterator[str]:
    """Yield the problems of a graph. A graph that is too large is not examined further."""
    if not graph.steps:
        yield "it has no steps"
    edges = sum(len(step.parents) for step in graph.steps)
    if len(graph.steps) > STEP_LIMIT or edges > EDGE_LIMIT:
        yield (
            f"it has {len(graph.steps):,} steps and {edges:,} lines between them; {STEP_LIMIT:,} and {EDGE_LIMIT:,} "
            f"are the most. Map one step over a list instead"
        )
        return
    known = _KnownNames(graph.by_name, graph.params.get("properties", {} if not graph.params else None))
    twice = (name for name, count in Counter(step.name for step in graph.steps).items() if count > 1)
    yield from (f"two steps are named {name!r}" for name in twice)
    if graph.on and (needed := graph.params.get("required")):
        yield f"an asset starts it without parameters, and {needed[0]!r} has no default"
    for step in graph.steps:
        yield from _wrong_in(step, known)
    for hole in graph.result.holes:
        yield from _wrong_value("its result", hole.value, known)
    parents = {step.name: [one for one in step.parents if one in known.steps] for step in graph.steps}
    yield from (f"a cycle: {' -> '.join(cycle)}" for cycle in find_cycles(parents))


def _wrong_in(step: Step, known: _KnownNames) -> Iterator[str]:
    """Yield the problems of one step."""
    what = f"step {step.name!r}"
    if not step.name or len(step.name) > NAME_LIMIT or not step.name.isprintable() or {"[", "]"} & set(step.name):
        yield f"{what}: a name is a printable text of 1 to {NAME_LIMIT} characters without brackets"
    if (step.job is None) == (step.approval is None):
        yield f"{what} is either a task or an approval"
    for parent, count in Counter(step.parents).items():
        if parent not in known.steps:
            yield f"{what} waits for {parent!r}, and there is no such step{guess(parent, known.steps)}"
        elif count > 1:
            yield f"{what} waits for {parent!r} more than once"
    if step.run_if in NEED_A_PARENT and not step.parents:
        yield f"{what} has run_if={step.run_if!r} and waits for no other step, so it would never run"
    if (size := len(step.args.json)) > PAYLOAD_LIMIT:
        yield f"the arguments of {what} are {size:,} bytes; the cap is {PAYLOAD_LIMIT:,}"
    if (flaw := misplaced_in(step)) is not None:
        yield f"{what}: {flaw.removesuffix('.')}"
    if step.map is not None:
        yield from _wrong_map(what, step.map, is_approval=step.approval is not None)
    if step.args.holes or step.when or step.map:
        yield from _wrong_values(step, known)


def _wrong_map(what: str, map: Map, *, is_approval: bool) -> Iterator[str]:
    if is_approval:
        yield f"{what} is an approval, which cannot be mapped"
    if not map.over:
        yield f"{what} maps over nothing"
    if map.max_parallel is not None and map.max_parallel < 1:
        yield f"{what}: max_parallel is {map.max_parallel}, which lets nothing run; 1 is the least"
    lengths = {name: len(over) for name, over in map.over.items() if isinstance(over, list)}
    if not map.product and len(set(lengths.values())) > 1:
        said = ", ".join(f"{name!r} has {length:,}" for name, length in lengths.items())
        yield f"{what} maps over lists side by side, which must be as long as each other: {said}"
    count = prod(lengths.values()) if map.product else max(lengths.values(), default=0)
    if count > INSTANCE_LIMIT:
        yield f"{what} would have {count:,} instances; {INSTANCE_LIMIT:,} is the most"


def _wrong_values(step: Step, known: _KnownNames) -> Iterator[str]:
    """Yield the problems of the expressions in a step's arguments, map and conditions."""
    parents, mapped = set(step.parents), step.map.over if step.map is not None else {}
    for hole in step.args.holes:
        what = f"argument {hole.where[0]!r} of step {step.name!r}"
        yield from _wrong_value(what, hole.value, known, mapped, parents)
    for name, over in mapped.items():
        if not isinstance(over, list):
            yield from _wrong_value(f"what step {step.name!r} maps {name!r} over", over, known, parents=parents)
    for condition in step.when:
        yield from _wrong_value(f"a condition of step {step.name!r}", condition.value, known, parents=parents)


def _wrong_value(
    what: str,
    value: Expression,
    known: _KnownNames,
    mapped: Collection[str] = (),
    parents: Collection[str] | None = None,
) -> Iterator[str]:
    """Yield the problems of an expression. `parents` are the steps whose results it may use; None means all steps."""
    for part in _parts(value):
        match part:
            case Param(name) if known.params is not None and name not in known.params:
                yield f"{what} is the parameter {name!r}, and there is no such one{guess(name, known.params)}"
            case Item(name) if name not in mapped:
                yield f"{what} is an element of {name!r}, which is not mapped"
            case Result(name, path):
                yield from _wrong_result(what, name, known, parents)
                step = known.steps.get(name)
                if path and isinstance(path[0], str) and step is not None and step.map is not None:
                    yield (
                        f"{what} is {path[0]!r} of the results of {name!r}, which is mapped: they are a list. Pass it "
                        f"whole, or one of it by its number"
                    )
            case Last(names):
                for name in names:
                    yield from _wrong_result(what, name, known, parents)


def _wrong_result(what: str, name: str, known: _KnownNames, parents: Collection[str] | None) -> Iterator[str]:
    if name not in known.steps:
        yield f"{what} is the result of {name!r}, and there is no such step{guess(name, known.steps)}"
    elif parents is not None and name not in parents:
        yield f"{what} is the result of {name!r}, for which it does not wait"


def _parts(value: Expression) -> Iterator[Expression]:
    if isinstance(value, Text):
        yield from (part for part in value.parts if not isinstance(part, str))
    else:
        yield value
