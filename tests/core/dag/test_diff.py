"""What changed between two versions of a dag."""

from datetime import timedelta

import msgspec

from tickwork.core.dag.diff import DagChange, changes, step_facts
from tickwork.core.dag.graph import ApprovalStep, Graph, JsonTemplate, Map, Param, Placeholder, Result, Step, Template
from tickwork.core.job import Policy
from tickwork.core.retry import RetryPolicy

FIRST = Step(
    name="first",
    job=Template("fetch"),
    args=JsonTemplate(msgspec.Raw(b'{"day":null}'), (Placeholder(("day",), Param("day")),)),
)
SECOND = Step(name="second", parents=("first",), job=Template("load", policy=Policy(timeout=timedelta(minutes=5))))
GRAPH = Graph(name="d", steps=(FIRST, SECOND), run=Template("d"))


def with_steps(*steps: Step) -> Graph:
    return msgspec.structs.replace(GRAPH, steps=steps)


def test_the_same_is_no_change() -> None:
    assert changes(GRAPH, msgspec.json.decode(msgspec.json.encode(GRAPH), type=Graph)) == []


def test_steps_come_and_go() -> None:
    third = Step(name="third", parents=("first",), job=Template("tell"))
    assert changes(GRAPH, with_steps(FIRST, third)) == [DagChange("added", "third"), DagChange("removed", "second")]


def test_every_field_that_differs_is_named_with_what_it_was() -> None:
    policy = Policy(retry=RetryPolicy(retries=0), timeout=timedelta(minutes=6))
    other = msgspec.structs.replace(SECOND, job=Template("load", "slow", policy=policy), run_if="always")
    found = {one.field: (one.old, one.new) for one in changes(GRAPH, with_steps(FIRST, other))}
    assert found == {
        "queue": ("default", "slow"),
        "retries": (3, 0),
        "timeout": ("5m", "6m"),
        "run_if": (None, "always"),
    }


def test_arguments_are_shown_with_what_fills_them() -> None:
    assert step_facts(FIRST)["args"] == {"day": "${params.day}"}
    hole = Placeholder(("rows", 1, "path"), Result("first", ("file",)))
    nested = msgspec.structs.replace(SECOND, args=JsonTemplate(msgspec.Raw(b'{"rows":[1,{"path":null}]}'), (hole,)))
    assert step_facts(nested)["args"] == {"rows": [1, {"path": "${first.result.file}"}]}


def test_maps_and_approvals_are_told() -> None:
    mapped = msgspec.structs.replace(SECOND, map=Map({"x": Param("xs"), "y": [1, 2]}, product=True, max_parallel=3))
    facts = step_facts(mapped)
    assert (facts["product"], facts["max_parallel"]) == ({"x": "${params.xs}", "y": [1, 2]}, 3)
    asked = step_facts(Step(name="ok", approval=ApprovalStep("Go on?", ("ada",), timedelta(hours=1))))
    assert asked == {"text": "Go on?", "who": ["ada"], "timeout": "1h", "default": "reject"}


def test_what_is_said_of_the_dag_itself_is_compared_too() -> None:
    other = msgspec.structs.replace(GRAPH, description="new", params={"properties": {"day": {"type": "string"}}})
    assert [(one.step, one.field) for one in changes(GRAPH, other)] == [(None, "description"), (None, "params")]
