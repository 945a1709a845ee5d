"""Find cycles in a graph of steps: one short cycle for each strongly connected component.

Nothing here is recursive, so a chain of any length can be checked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence

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
