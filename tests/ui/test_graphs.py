"""Graphs: no step covers another, lines lead onwards, equal graphs give equal drawings; large ones are quick."""

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.ui.serving import Served

DRAWN_S = 1.0
LAYOUT_S = 0.3
LAYOUT = """async ({nodes, edges}) => {
  const app = [...document.scripts].map((one) => one.src).find((src) => src.endsWith("/app.js"));
  const { layout } = await import(new URL("lib/graph-layout.js", app));
  const times = [];
  let drawn;
  for (let turn = 0; turn < 10; turn += 1) {
    const began = performance.now();
    drawn = layout(nodes, edges);
    times.push(performance.now() - began);
  }
  const again = layout(nodes, edges);
  const said = (one) => JSON.stringify([[...one.places], one.groups, one.lines]);
  return { places: Object.fromEntries(drawn.places), groups: drawn.groups, lines: drawn.lines,
           isSame: said(drawn) === said(again), took_s: Math.min(...times) / 1000 };
}"""


def ladder(stages: int, wide: int, group: bool = False) -> dict[str, Any]:
    """Stages of steps, each of which waits for two of the stage before; perhaps grouped by rows."""
    names = [[f"s{stage}_{at}" for at in range(wide)] for stage in range(stages)]
    size = {"width": 196, "height": 46}
    nodes = [
        {"id": name, "group": f"row.{at % 3}" if group and at % 2 else "", **size}
        for row in names
        for at, name in enumerate(row)
    ]
    edges = [
        {"from": names[stage - 1][other], "to": name}
        for stage in range(1, stages)
        for at, name in enumerate(names[stage])
        for other in {at, at * 7 % wide}
    ]
    return {"nodes": nodes, "edges": edges}


def overlaps(one: dict[str, float], other: dict[str, float]) -> bool:
    beside = one["x"] + one["width"] <= other["x"] or other["x"] + other["width"] <= one["x"]
    above = one["y"] + one["height"] <= other["y"] or other["y"] + other["height"] <= one["y"]
    return not (beside or above)


@pytest.mark.parametrize("group", [False, True])
def test_no_step_covers_another_and_every_line_leads_from_one_step_on_to_the_next(page: Page, group: bool) -> None:
    given = ladder(8, 9, group)
    drawn = page.evaluate(LAYOUT, given)
    places = drawn["places"]
    found = list(places.values())
    assert len(found) == 72
    assert not [(a, b) for at, a in enumerate(found) for b in found[at + 1 :] if overlaps(a, b)]
    assert drawn["isSame"]
    for line in drawn["lines"]:
        start, end = places[line["from"]], places[line["to"]]
        points = line["points"]
        assert points[0] == [start["x"] + start["width"], start["y"] + start["height"] / 2]
        assert points[-1] == [end["x"], end["y"] + end["height"] / 2]
        assert [x for x, _ in points] == sorted(x for x, _ in points)
    homes = {node["id"]: node["group"] for node in given["nodes"]}
    for box in drawn["groups"]:
        inside = {name for name, place in places.items() if overlaps(place, box)}
        assert inside == {name for name, home in homes.items() if home == box["id"] or home.startswith(f"{box['id']}.")}


def test_groups_that_wait_for_each_other_are_taken_apart_instead_of_drawn_over_each_other(page: Page) -> None:
    size = {"width": 100, "height": 40}
    nodes = [{"id": name, "group": group, **size} for name, group in (("a", "one"), ("b", "two"), ("c", "one"))]
    drawn = page.evaluate(LAYOUT, {"nodes": nodes, "edges": [{"from": "a", "to": "b"}, {"from": "b", "to": "c"}]})
    assert drawn["groups"] == []
    assert drawn["places"]["a"]["x"] < drawn["places"]["b"]["x"] < drawn["places"]["c"]["x"]


def test_a_thousand_steps_are_laid_out_in_a_part_of_a_second(page: Page) -> None:
    assert page.evaluate(LAYOUT, ladder(40, 25))["took_s"] < LAYOUT_S


def test_a_run_of_a_thousand_steps_is_drawn_within_a_second_and_only_what_is_seen_of_it(
    page: Page, served: Served
) -> None:
    graph = ladder(40, 25)
    needs: dict[str, list[str]] = {node["id"]: [] for node in graph["nodes"]}
    for edge in graph["edges"]:
        needs[edge["to"]].append(edge["from"])
    steps = "\n".join(f"      {name}: {{task: report, needs: {json.dumps(others)}}}" for name, others in needs.items())
    served.post("/dags", {"text": f"dags:\n  thousand:\n    steps:\n{steps}\n"})
    run = served.post("/dags/thousand/runs", {"delay": "2h"})["id"]
    assert min(_seconds_until_drawn(page, served, run) for _ in range(4)) < DRAWN_S
    assert page.locator(".graph *").count() < 4000
    expect(page.locator(".minimap")).to_be_visible()
    page.locator(".graph").focus()
    page.keyboard.press("0")
    expect(page.locator(".paper")).to_have_attribute("data-simple", "true")
    assert page.locator(".graph *").count() < 100
    page.get_by_label("Find a step").fill("s39_24")
    page.keyboard.press("Enter")
    expect(page.locator('.graph [data-box="s39_24"]')).to_be_in_viewport()
    expect(page.locator('.graph [data-box="s39_24"]')).to_have_accessible_name(re.compile("s39_24, step, "))
    served.post(f"/runs/{run}/cancel")


def _seconds_until_drawn(page: Page, served: Served, run: str) -> float:
    page.goto(f"{served.address}/#/dags/etl")
    expect(page.locator('.graph [data-box="load"]')).to_be_visible()
    took_s: float = page.evaluate(
        """(run) => new Promise((done) => {
          const began = performance.now();
          location.hash = `#/runs/${run}`;
          const isDrawn = () => document.querySelectorAll('.graph [data-box^="s"]').length > 20;
          const look = () => requestAnimationFrame(() => isDrawn() ? done((performance.now() - began) / 1000) : look());
          look();
        })""",
        run,
    )
    return took_s
