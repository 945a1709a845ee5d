"""Random graphs: chains, diamonds, fans of plain and mapped steps and approvals, with every rule and kind of value."""

from __future__ import annotations

import json
from datetime import timedelta
from random import Random
from typing import Any

from msgspec import Raw

from tests.store.builders import with_retries
from tickwork.core.dag.graph import (
    ApprovalStep,
    Condition,
    Expression,
    Graph,
    Item,
    JsonTemplate,
    Last,
    Map,
    Param,
    Placeholder,
    Result,
    RunIf,
    Step,
    Template,
    Text,
)
from tickwork.core.job import Policy

ENDINGS = ("succeeded", "failed", "cancelled", "expired", "dropped")
RULES: tuple[RunIf, ...] = ("all_succeeded", "all_done", "any_failed", "any_succeeded", "none_failed", "always")
COMPARISONS = ("true", "false", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "succeeded")
LISTS: tuple[Any, ...] = ([], [1, 2], [1, 2, 3], ["x", {"k": [3]}], ["a", None], [0])
VALUES: tuple[Any, ...] = (1, 0, "a", None, True, {"k": [1, 2]}, {"k": None}, *LISTS)
Path = tuple[str | int, ...]
PATHS: tuple[Path, ...] = (*[()] * 12, (0,), ("k",), ("k", 0), (-1,))
EXPIRES = timedelta(minutes=1)
DECIDES_AFTER = timedelta(seconds=30)
TASKS = ("t", "gated")


def some_params(rng: Random) -> dict[str, Any]:
    return {"p": rng.choice(VALUES), "xs": rng.choice((*LISTS, None, "no list"))}


def a_graph(rng: Random, most: int) -> Graph:
    """A graph of up to `most` steps. Each waits for some of those before it, mostly for late ones."""
    names = [f"s{n}" for n in range(rng.randint(1, most))]
    steps = [_step(rng, name, _parents(rng, names[:n])) for n, name in enumerate(names)]
    result = JsonTemplate(Raw(b'[null,{"k":null}]'), tuple(_result_holes(rng, names)))
    return Graph(name="dag", steps=tuple(steps), result=result)


def a_graph_of_all_endings(rng: Random) -> Graph:
    """Steps that are to end in each way, by their names, and many that wait for some of them, with every rule.

    Rules decide which steps are skipped; the driver decides the rest.
    """
    ends = [f"{ending}{n}" for ending in ENDINGS for n in range(2)]
    first = [Step(name=name, job=_template_to_end(name)) for name in ends]
    by_rule = [_plain(f"by rule{n}", (f"succeeded{n}",), "any_failed") for n in range(2)]
    upstream = [_plain(f"upstream{n}", (f"failed{n}",), "all_succeeded") for n in range(2)]
    before = [step.name for step in (*first, *by_rule, *upstream)]
    last = [_plain(f"s{n}", tuple(rng.sample(before, rng.randint(1, 6))), RULES[n % len(RULES)]) for n in range(24)]
    return Graph(name="dag", steps=(*first, *by_rule, *upstream, *last))


def _plain(name: str, parents: tuple[str, ...], rule: RunIf) -> Step:
    return Step(name=name, parents=parents, run_if=rule, job=Template(task="t", policy=with_retries(0)))


def _template_to_end(name: str) -> Template:
    expires = EXPIRES if name.startswith("expired") else None
    task = "gated" if name.startswith("dropped") else "t"
    return Template(task=task, policy=Policy(retry=with_retries(0).retry, expires=expires))


def _parents(rng: Random, before: list[str]) -> tuple[str, ...]:
    near = before[-8:]
    return tuple(sorted(set(rng.sample(near, min(len(near), rng.choice((0, 1, 1, 2, 2, 3)))))))


def _result_holes(rng: Random, names: list[str]) -> list[Placeholder]:
    if rng.random() < 0.3:
        return []
    return [Placeholder((0,), _value(rng, names, {})), Placeholder((1, "k"), _value(rng, names, {}, paths=PATHS[:2]))]


def _step(rng: Random, name: str, parents: tuple[str, ...]) -> Step:
    rules = RULES if parents else ("all_succeeded", "all_done", "none_failed", "always")
    when = (_condition(rng, parents),) if rng.random() < 0.12 else ()
    shared: dict[str, Any] = {"name": name, "parents": parents, "run_if": rng.choice(rules), "when": when}
    shared["may_fail"] = rng.random() < 0.25
    if rng.random() < 0.1:
        return Step(approval=_approval(rng), **shared)
    mapped = _map(rng, parents) if rng.random() < 0.3 else None
    args = JsonTemplate(
        Raw(b'{"x":null,"y":[0,{"k":null}]}'), tuple(_holes(rng, parents, mapped.over if mapped else {}))
    )
    return Step(job=_template(rng), map=mapped, args=args, **shared)


def _template(rng: Random) -> Template:
    expires = EXPIRES if rng.random() < 0.5 else None
    policy = Policy(retry=with_retries(rng.choice((0, 2))).retry, expires=expires)
    return Template(task=rng.choice(TASKS), policy=policy)


def _approval(rng: Random) -> ApprovalStep:
    after = DECIDES_AFTER if rng.random() < 0.5 else None
    return ApprovalStep("Go on?", timeout=after, default=rng.choice(("approve", "reject")))


def _map(rng: Random, parents: tuple[str, ...]) -> Map:
    count = rng.choice((1, 1, 2))
    lists: dict[str, Expression | list[Any]] = {name: _list(rng, parents) for name in ("e", "f")[:count]}
    return Map(lists, product=rng.random() < 0.5)


def _list(rng: Random, parents: tuple[str, ...]) -> Expression | list[Any]:
    if rng.random() < 0.25:
        return rng.choice(([], [1], [1, "b", {"k": [0]}]))
    if parents and rng.random() < 0.8:
        return Result(rng.choice(parents), rng.choice(PATHS))
    return Param("xs")


def _holes(rng: Random, parents: tuple[str, ...], over: dict[str, Any]) -> list[Placeholder]:
    places: list[Path] = [("x",), ("y", 0), ("y", 1, "k")]
    return [Placeholder(place, _value(rng, list(parents), over)) for place in places if rng.random() < 0.6]


def _value(rng: Random, parents: list[str], over: dict[str, Any], paths: tuple[Path, ...] = PATHS) -> Expression:
    if rng.random() < 0.25:
        parts = [_reference(rng, parents, over, paths) for _ in range(rng.choice((1, 2, 3)))]
        return Text(("on ", *parts, "!"))
    return _reference(rng, parents, over, paths)


def _reference(
    rng: Random, parents: list[str], over: dict[str, Any], paths: tuple[Path, ...]
) -> Param | Result | Item | Last:
    path = rng.choice(paths)
    kinds = ["param"] + (["result", "result", "last"] if parents else []) + (["item", "item"] if over else [])
    match rng.choice(kinds):
        case "result":
            return Result(rng.choice(parents), path)
        case "last":
            return Last(tuple(rng.sample(parents, min(len(parents), 2))), path)
        case "item":
            return Item(rng.choice(sorted(over)), path)
        case _:
            return Param("p", path)


def _condition(rng: Random, parents: tuple[str, ...]) -> Condition:
    value = _value(rng, list(parents), {})
    return Condition(value, rng.choice(COMPARISONS), rng.choice((*VALUES, "on a!")))


def drawn(graph: Graph) -> str:
    """A graph as a failed test shows it."""
    return "\n".join(f"{step}" for step in graph.steps) + f"\n{graph.result}"


def encoded(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
