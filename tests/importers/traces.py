"""Traces in WfFormat, made up: a workflow as each version says it, and one of the shape of Montage in any size."""

import json
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

Parents = Mapping[str, Sequence[str]]
VERSIONS = ("1.2", "1.3", "1.4", "1.5")


def trace(version: str, parents: Parents, runtimes: Mapping[str, float], name: str = "made-up") -> dict[str, Any]:
    """A workflow in which each task, by name, waits for its parents."""
    children: dict[str, list[str]] = {task: [] for task in parents}
    for task, waits_for in parents.items():
        for one in waits_for:
            children[one].append(task)
    make = _since_1_5 if version >= "1.5" else _until_1_4
    workflow = make(version, parents, children, runtimes)
    return {"name": name, "description": "Made up", "schemaVersion": version, "workflow": workflow}


def _until_1_4(version: str, parents: Parents, children: Parents, runtimes: Mapping[str, float]) -> dict[str, Any]:
    runtime = "runtimeInSeconds" if version == "1.4" else "runtime"
    tasks = [
        {
            "name": task,
            "id": f"ID{at:07}",
            "category": task.partition("_")[0],
            "type": "compute",
            runtime: runtimes[task],
            "parents": list(waits_for),
            "children": list(children[task]),
            "files": [{"link": "output", "name": f"{task}.out", "size": 5}],
            "command": {"program": "work", "arguments": []},
            "machine": "node-1",
        }
        for at, (task, waits_for) in enumerate(parents.items(), start=1)
    ]
    machines = [{"nodeName": "node-1", "cpu": {"count": 2}}]
    makespan = "makespanInSeconds" if version == "1.4" else "makespan"
    listed = "jobs" if version == "1.2" else "tasks"
    return {makespan: 1.0, "executedAt": "20261115T020000Z", "machines": machines, listed: tasks}


def _since_1_5(version: str, parents: Parents, children: Parents, runtimes: Mapping[str, float]) -> dict[str, Any]:
    ids = {task: f"{task}_{at}" for at, task in enumerate(parents)}
    specified = [
        {
            "name": task,
            "id": ids[task],
            "parents": [ids[one] for one in waits_for],
            "children": [ids[one] for one in children[task]],
            "inputFiles": [],
            "outputFiles": [f"{task}.out"],
        }
        for task, waits_for in parents.items()
    ]
    executed = [{"id": ids[task], "runtimeInSeconds": runtimes[task], "machines": ["node-1"]} for task in parents]
    files = [{"id": f"{task}.out", "sizeInBytes": 5} for task in parents]
    return {
        "specification": {"tasks": specified, "files": files},
        "execution": {
            "makespanInSeconds": 1.0,
            "executedAt": "2026-11-15T02:00:00Z",
            "tasks": executed,
            "machines": [{"nodeName": "node-1"}],
        },
    }


def montage(size: int, seed: int = 1) -> Parents:
    """The dependencies of the Montage workflow: projections, differences, a fit, corrections, and one picture.

    `size` is the number of tasks, at least 12.
    """
    rng = Random(seed)
    images = (size - 5) // 4 + 1
    projects = [f"mProject_{n}" for n in range(images)]
    corrections = [f"mBackground_{n}" for n in range(images)]
    diffs = [f"mDiffFit_{n}" for n in range(size - 5 - 2 * images)]
    parents: dict[str, list[str]] = {task: [] for task in projects}
    parents |= {task: rng.sample(projects, 2) for task in diffs}
    parents |= {"mConcatFit": diffs, "mBgModel": ["mConcatFit"]}
    parents |= {task: ["mBgModel", project] for task, project in zip(corrections, projects, strict=True)}
    parents |= {"mImgtbl": corrections, "mAdd": ["mImgtbl"], "mViewer": ["mAdd"]}
    return parents


def montage_trace(size: int, version: str = "1.5", seed: int = 1) -> bytes:
    """A trace of `size` tasks, most of them short."""
    parents, rng = montage(size, seed), Random(seed)
    runtimes = {task: round(rng.lognormvariate(0, 1), 3) for task in parents}
    return json.dumps(trace(version, parents, runtimes, name=f"montage-{size}")).encode()
