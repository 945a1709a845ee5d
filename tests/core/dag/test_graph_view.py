"""Graphs as Mermaid and as nodes and edges."""

from msgspec import Raw

from tickwork.core.dag.graph import (
    ApprovalStep,
    Condition,
    Graph,
    Item,
    JsonTemplate,
    Last,
    Map,
    Param,
    Placeholder,
    Result,
    Step,
    Template,
    Text,
)
from tickwork.core.dag.graph_view import condition_text, expression_text, graph_json, mermaid

JOB = Template("work")
WANTS_FETCH = JsonTemplate(Raw(b'{"rows":null}'), (Placeholder(("rows",), Result("fetch", ("rows", 0))),))
GRAPH = Graph(
    name="nightly",
    description="Every night",
    steps=(
        Step(name="fetch", job=JOB),
        Step(name="count", parents=("fetch",), job=JOB, map=Map({"item": Result("fetch")}), group="inner"),
        Step(name="load", parents=("fetch", "count"), job=JOB, args=WANTS_FETCH),
        Step(name="sure", parents=("load",), approval=ApprovalStep("Sure?")),
        Step(
            name="tell",
            parents=("sure", "load"),
            job=JOB,
            run_if="any_failed",
            when=(Condition(Result("load", ("n",)), ">", 10),),
        ),
    ),
)


def test_a_flowchart_shows_steps_arrows_rules_conditions_and_groups() -> None:
    assert mermaid(GRAPH).splitlines() == [
        "flowchart TD",
        '  s0["fetch"]',
        '  s2["load"]',
        '  s3{{"sure"}}',
        '  s4["tell<br/>if any_failed<br/>when ${load.result.n} #gt; 10"]',
        '  subgraph g1["inner"]',
        '  s1[["count"]]',
        "  end",
        "  s0 --> s1",
        "  s0 --> s2",
        "  s1 --> s2",
        "  s2 --> s3",
        "  s3 --> s4",
        "  s2 -.-> s4",
    ]


def test_states_are_colours() -> None:
    drawn = mermaid(GRAPH, {"fetch": "succeeded", "count": "succeeded", "load": "failed", "gone": "failed"})
    assert "  class s0,s1 succeeded" in drawn
    assert "  class s2 failed" in drawn
    assert "classDef failed fill:" in drawn


def test_what_a_name_says_cannot_act_on_the_drawing() -> None:
    odd = Graph(name="odd", steps=(Step(name='a"]; click s0 "x" `#\n', job=JOB),))
    assert mermaid(odd).splitlines()[1] == '  s0["a#quot;]; click s0 #quot;x#quot; #96;#35;"]'


def test_nodes_and_edges() -> None:
    drawn = graph_json(GRAPH)
    assert drawn["name"] == "nightly"
    assert {node["name"]: node["level"] for node in drawn["nodes"]} == {
        "fetch": 0,
        "count": 1,
        "load": 2,
        "sure": 3,
        "tell": 4,
    }
    assert drawn["nodes"][1] == {
        "name": "count",
        "kind": "job",
        "task": "work",
        "mapped": True,
        "run_if": "all_succeeded",
        "may_fail": False,
        "when": [],
        "group": "inner",
        "level": 1,
    }
    assert drawn["nodes"][3]["kind"] == "approval"
    assert {(edge["from"], edge["to"]): edge["kind"] for edge in drawn["edges"]} == {
        ("fetch", "count"): "data",
        ("fetch", "load"): "data",
        ("count", "load"): "order",
        ("load", "sure"): "order",
        ("sure", "tell"): "order",
        ("load", "tell"): "data",
    }


def test_expressions_and_conditions_as_people_write_them() -> None:
    assert expression_text(Param("day", ("a b", 'c"', -1))) == """${params.day["a b"]['c"'][-1]}"""
    assert expression_text(Item("item", ("x",))) == "${item.x}"
    assert expression_text(Item("word", ("x",))) == "${item.word.x}"
    assert expression_text(Last(("a", "a_2"), ("x",))) == "${a.result.x}"
    assert expression_text(Text(("is ${", Result("a"), "!"))) == "is $${${a.result}!"
    assert condition_text(Condition(Result("a"))) == "${a.result}"
    assert condition_text(Condition(Result("a"), "false")) == "not ${a.result}"
    assert condition_text(Condition(Result("a"), "in", ["x", 1])) == '${a.result} in ["x",1]'
