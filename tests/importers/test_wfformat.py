"""Traces in WfFormat become dags of steps that sleep, in all versions and whatever they leave out."""

import json
from typing import Any

import pytest

from tests.importers.traces import VERSIONS, montage, montage_trace, trace
from tickwork.core.dag.graph import Graph
from tickwork.core.text.yaml_loader import write_yaml
from tickwork.declare.read_declarations import read_declared
from tickwork.errors import InvalidInput
from tickwork.importers.wfformat import WorkflowTrace, read_wfformat

PARENTS = {"split": [], "work_a": ["split"], "work_b": ["split"], "join": ["work_a", "work_b"]}
RUNTIMES = {"split": 1.5, "work_a": 20.0, "work_b": 0.25, "join": 3}


def read(said: Any, **how: Any) -> WorkflowTrace:
    return read_wfformat(json.dumps(said).encode(), file="t.json", **how)


def parents_of(found: WorkflowTrace) -> dict[str, set[str]]:
    return {one.name: set(one.parents) for one in found.sleepers}


def tasks_in(said: dict[str, Any]) -> list[dict[str, Any]]:
    workflow = said["workflow"]
    tasks: list[dict[str, Any]] = (
        workflow["specification"]["tasks"] if "specification" in workflow else workflow["tasks"]
    )
    return tasks


def as_sets(parents: Any) -> dict[str, set[str]]:
    return {name: set(waits_for) for name, waits_for in parents.items()}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_gives_the_same_dag(version: str) -> None:
    found = read(trace(version, PARENTS, RUNTIMES), scale=0.1)
    assert (found.name, found.description, found.notes) == ("made-up", "Made up", [])
    assert parents_of(found) == as_sets(PARENTS)
    assert {one.name: one.seconds for one in found.sleepers} == {
        "split": 0.15,
        "work_a": 2.0,
        "work_b": 0.025,
        "join": 0.3,
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_a_trace_of_a_thousand_tasks_is_the_same_graph_by_itself_and_as_a_file(version: str) -> None:
    found = read_wfformat(montage_trace(1000, version), file="t.json", scale=0.001)
    assert parents_of(found) == as_sets(montage(1000))
    graph = found.graph()
    assert isinstance(graph, Graph)
    assert len(graph.steps) == 1000
    assert _applied(json.dumps(found.declared()), "t.json") == graph
    if version == "1.5":
        assert _applied(write_yaml(found.declared()), "t.yaml") == graph


def _applied(text: str, file: str) -> Graph:
    (dag,) = read_declared(text, lambda task: None, file=file).dags.values()
    return dag.graph


@pytest.mark.parametrize("version", ["1.3", "1.4", "1.5"])
@pytest.mark.parametrize("left_out", ["parents", "children"])
def test_either_of_parents_and_children_is_enough(version: str, left_out: str) -> None:
    said = trace(version, PARENTS, RUNTIMES)
    for task in tasks_in(said):
        del task[left_out]
    found = read(said)
    assert parents_of(found) == as_sets(PARENTS)
    assert found.notes == []


@pytest.mark.parametrize("version", ["1.3", "1.4"])
def test_older_files_may_refer_by_id(version: str) -> None:
    said = trace(version, PARENTS, RUNTIMES)
    ids = {task["name"]: task["id"] for task in tasks_in(said)}
    for task in tasks_in(said):
        task["parents"] = [ids[name] for name in task["parents"]]
        del task["children"]
    assert parents_of(read(said)) == as_sets(PARENTS)


def test_tasks_of_one_name_are_called_by_their_ids_as_far_as_steps_can_be() -> None:
    tasks = [
        {"name": "MAP", "id": "MAP (1)", "parents": [], "children": ["MAP (2)"]},
        {"name": "MAP", "id": "MAP (2)", "parents": ["MAP (1)"], "children": []},
        {"name": "MAP", "id": "MAP_(2)", "parents": ["MAP (2)"], "children": []},
        {"name": "item", "id": "item", "parents": [], "children": []},
        {"name": "x.result", "id": "x.result", "parents": [], "children": []},
    ]
    found = read({"name": "n", "workflow": {"specification": {"tasks": tasks}}})
    assert parents_of(found) == {
        "MAP__1_": set(),
        "MAP__2_": {"MAP__1_"},
        "MAP__2__2": {"MAP__2_"},
        "item_2": set(),
        "x_result": set(),
    }
    assert _applied(json.dumps(found.declared()), "t.json") == found.graph()


def test_what_has_no_run_time_does_not_sleep_and_that_is_said() -> None:
    said = trace("1.5", PARENTS, RUNTIMES)
    executed = said["workflow"]["execution"]["tasks"]
    executed[0]["runtimeInSeconds"] = None
    executed[1]["runtimeInSeconds"] = -1
    del executed[2]
    found = read(said)
    assert {one.name: one.seconds for one in found.sleepers} == {"split": 0, "work_a": 0, "work_b": 0, "join": 3}
    assert [str(note) for note in found.notes] == ["t.json: 3 of 4 have no run time; their steps do not sleep."]
    del said["workflow"]["execution"]
    assert sum(one.seconds for one in read(said).sleepers) == 0


def test_parents_that_are_nowhere_are_left_out_and_that_is_said() -> None:
    said = trace("1.4", PARENTS, RUNTIMES)
    tasks_in(said)[0]["parents"] = ["stage_in"]
    tasks_in(said)[3]["children"] = ["stage_out", None]
    found = read(said)
    assert parents_of(found) == as_sets(PARENTS)
    assert "2 parents or children are no tasks of it" in str(found.notes[0])


@pytest.mark.parametrize("version", ["1.4", "1.5"])
def test_without_dependencies_files_are_followed(version: str) -> None:
    said = trace(version, PARENTS, RUNTIMES)
    for task in tasks_in(said):
        inputs = [f"{name}.out" for name in PARENTS[task["name"]]]
        task.update(parents=[], children=[], inputFiles=inputs)
        if version == "1.4":
            task["files"] += [{"link": "Input", "name": name} for name in task.pop("inputFiles")]
    found = read(said)
    assert parents_of(found) == as_sets(PARENTS)
    assert "the files that they write and read were followed" in str(found.notes[0])


def test_files_that_are_passed_to_and_fro_make_no_cycle() -> None:
    tasks = [
        {"name": "a", "inputFiles": ["x", "y"], "outputFiles": ["x"]},
        {"name": "b", "inputFiles": ["x"], "outputFiles": ["y"]},
    ]
    found = read({"workflow": {"specification": {"tasks": tasks}}})
    assert parents_of(found) == {"a": set(), "b": {"a"}}
    assert len(found.notes) == 3


def test_a_cycle_is_refused_and_spelt_out() -> None:
    said = trace("1.3", PARENTS | {"split": ["join"]}, RUNTIMES)
    with pytest.raises(InvalidInput, match="a cycle: split -> work_a -> join -> split"):
        read(said)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"{\n\n", "t.json:3: this is not JSON: "),
        (b"\xff\xfe{", "t.json is not JSON: "),
        (b"[" * 100_000, "t.json is not JSON: "),
        (b"[]", "t.json is not WfFormat: it has no workflow."),
        (b'{"workflow": 3}', "it has no workflow."),
        (b'{"workflow": {"tasks": []}}', "its workflow has no tasks."),
        (b'{"workflow": {"specification": {"tasks": "many"}, "tasks": [3, null]}}', "its workflow has no tasks."),
    ],
)
def test_what_is_not_wfformat_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        read_wfformat(data, file="t.json")
    assert words in str(raised.value)


def test_the_scale_cannot_be_below_zero() -> None:
    for scale in (-1, float("nan"), float("inf")):
        with pytest.raises(InvalidInput, match="scale must be 0 or more"):
            read(trace("1.5", PARENTS, RUNTIMES), scale=scale)


@pytest.mark.parametrize("odd", [None, 3, "x", [], {}, [None], [3], {"a": 1}])
@pytest.mark.parametrize("field", ["parents", "children", "inputFiles", "files", "name", "id"])
def test_odd_values_are_read_as_well_as_can_be(field: str, odd: Any) -> None:
    for version in ("1.4", "1.5"):
        said = trace(version, PARENTS, RUNTIMES)
        tasks_in(said)[1][field] = odd
        assert len(read(said).sleepers) == len(PARENTS)
