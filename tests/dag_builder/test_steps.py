"""A call of a task is a step: what it is called, whom it waits for, what it is given."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

from tests.dag_builder.writing import (
    Made,
    app,
    arguments,
    collect,
    extract,
    load,
    look,
    parents,
    refusal,
    steps,
    tell,
    transform,
)
from tickwork import Tickwork, approve
from tickwork.core.dag.graph import Item, Map, Param, Placeholder, Result, Text


def test_a_call_of_a_task_is_a_step_that_waits_for_what_it_is_given(made: Made) -> None:
    def etl(day: str) -> int:
        raw = extract(day)
        parts = transform.map(raw, factor=10)
        total = load(parts)
        tell.options(run_if="any_failed")("load failed").after(total)
        return total

    dag = made(etl)
    assert parents(dag) == {"extract": [], "transform": ["extract"], "load": ["transform"], "tell": ["load"]}
    found = steps(dag)
    assert arguments(found["extract"]) == ({"day": None}, {("day",): Param("day")})
    assert arguments(found["transform"]) == ({"factor": 10, "part": None}, {("part",): Item("part")})
    assert found["transform"].map == Map({"part": Result("extract")})
    assert arguments(found["load"]) == ({"parts": None}, {("parts",): Result("transform")})
    assert arguments(found["tell"]) == ({"text": "load failed"}, {})
    assert [step.run_if for step in found.values()] == ["all_succeeded"] * 3 + ["any_failed"]
    assert dag.graph.result.holes == (Placeholder((), Result("load")),)


def test_a_step_may_fail(made: Made) -> None:
    def etl() -> None:
        tell.options(may_fail=True)("a")
        approve("sure?", may_fail=True)
        tell("b")

    assert [step.may_fail for step in steps(made(etl)).values()] == [True, True, False]


def test_a_task_called_outside_of_a_dag_is_just_its_function() -> None:
    assert transform(3, factor=4) == 12
    made = app.dag(name="outside")(lambda: tell("a"))
    made.validate()
    assert transform(3) == 6


def test_steps_are_named_after_their_tasks_and_counted(made: Made) -> None:
    def etl() -> None:
        tell("a")
        tell("b")
        tell.options(name="tell_3")("c")
        tell("d")
        tell.options(name="farewell")("e")

    assert list(steps(made(etl))) == ["tell", "tell_2", "tell_3", "tell_4", "farewell"]


def test_two_steps_of_one_name_are_refused(made: Made) -> None:
    def etl() -> None:
        tell("a")
        tell.options(name="tell")("b")

    assert refusal(made(etl)) == "dag 'etl': two steps are named 'tell'. Give one of them another name."


def test_arrows_put_steps_in_order(made: Made) -> None:
    def etl() -> None:
        a, b, c, d, e = (tell.options(name=name)("") for name in "abcde")
        a >> b >> [c, d] >> e
        [a, b] >> e

    assert parents(made(etl)) == {"a": [], "b": ["a"], "c": ["b"], "d": ["b"], "e": ["c", "d", "a", "b"]}


def test_after_takes_steps_and_lists_and_parts_and_gives_the_step(made: Made) -> None:
    def etl() -> Any:
        a, b, c = look(), look(), look()
        return tell("x").after(a, [b, (c["rows"],)])

    dag = made(etl)
    assert parents(dag)["tell"] == ["look", "look_2", "look_3"]
    assert dag.graph.result.holes[0].value == Result("tell")


def test_a_cycle_is_named_from_its_first_step(made: Made) -> None:
    def circular() -> None:
        first = tell("a")
        second = tell("b").after(first)
        third = tell("c").after(second)
        first.after(third)

    assert refusal(made(circular)) == "dag 'etl' cannot run: a cycle: tell -> tell_2 -> tell_3 -> tell."


def test_parts_of_references_are_paths(made: Made) -> None:
    def etl(order: dict[str, Any]) -> Any:
        found = look(order.items[0]["price"], order["after"])  # type: ignore[attr-defined]
        tell(found.where.path)
        tell(found["where"][0])
        return {"rows": found["rows"], "all": [found, 1]}

    dag = made(etl)
    found = steps(dag)
    assert arguments(found["look"])[1] == {
        ("what",): Param("order", ("items", 0, "price")),
        ("more",): Param("order", ("after",)),
    }
    assert arguments(found["tell"])[1] == {("text",): Result("look", ("where", "path"))}
    assert arguments(found["tell_2"])[1] == {("text",): Result("look", ("where", 0))}
    assert json.loads(bytes(dag.graph.result.json)) == {"rows": None, "all": [None, 1]}
    assert dag.graph.result.holes == (
        Placeholder(("rows",), Result("look", ("rows",))),
        Placeholder(("all", 0), Result("look")),
    )


def test_texts_may_have_references_in_them(made: Made) -> None:
    def etl(day: str) -> None:
        found = look()
        inner = f"{day}/{found['path']}"
        tell(f"<{inner}>{found.rows}")
        tell(f"{day}")
        tell(f"{found[0]} of {day!s}")

    found = steps(made(etl))
    path, rows = Result("look", ("path",)), Result("look", ("rows",))
    assert arguments(found["tell"])[1] == {("text",): Text(("<", Param("day"), "/", path, ">", rows))}
    assert arguments(found["tell_2"])[1] == {("text",): Text((Param("day"),))}
    assert arguments(found["tell_3"])[1] == {("text",): Text((Result("look", (0,)), " of ", Param("day")))}
    assert found["tell"].parents == ("look",)


def test_references_may_stand_anywhere_in_lists_and_dicts(made: Made) -> None:
    def etl(day: str) -> None:
        one = look()
        look({"a": [1, (one, {"b": f"x{day}"})], "when": date(2026, 11, 15)}, more=[one["x"]])

    json_, holes = arguments(steps(made(etl))["look_2"])
    assert json_ == {"what": {"a": [1, [None, {"b": None}]], "when": {"$date": "2026-11-15"}}, "more": [None]}
    assert holes == {
        ("what", "a", 1, 0): Result("look"),
        ("what", "a", 1, 1, "b"): Text(("x", Param("day"))),
        ("more", 0): Result("look", ("x",)),
    }


def test_what_is_known_beside_a_reference_is_written_as_the_hint_says(made: Made) -> None:
    other = Tickwork()

    @other.task
    def book(days: dict[str, date], rest: list[Any]) -> None: ...

    def etl(day: date) -> None:
        book({"a": day, "b": date(2026, 1, 2)}, [day, date(2026, 1, 2)])

    json_, _ = arguments(steps(made(etl))["book"])
    assert json_ == {"days": {"a": None, "b": "2026-01-02"}, "rest": [None, {"$date": "2026-01-02"}]}


def test_star_arguments_take_references(made: Made) -> None:
    def etl(day: str) -> None:
        collect(1, day, key=day)

    json_, holes = arguments(steps(made(etl))["collect"])
    assert json_ == {"parts": [1, None], "named": {"key": None}}
    assert holes == {("parts", 1): Param("day"), ("named", "key"): Param("day")}


def test_a_batch_task_takes_one_item_as_a_step(made: Made) -> None:
    from tickwork import batch

    @app.task(name="index_docs", batch=batch(max=10))
    def index_docs(docs: list[str]) -> None: ...

    def etl() -> None:
        index_docs("a text")  # type: ignore[arg-type]

    assert arguments(steps(made(etl))["index_docs"]) == ({"docs": "a text"}, {})
