"""Scopes that a caller needs to define work that runs commands or uses secrets.

A command can read everything that its worker can, and a request can send a secret anywhere. So defining such work, in
a job, a schedule or the step of a dag, requires the scope `shell` or `use-secrets`. Starting, retrying and cancelling
work that others defined requires only `operate` or `enqueue`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import msgspec

from tickwork.core.access.scopes import Scope, scopes_of_work
from tickwork.core.dag.graph import Graph
from tickwork.core.schedule.spec import ScheduleSpec
from tickwork.http.framework.problems import Problem
from tickwork.http.request import Call

Work = tuple[str, Collection[str]]  # a task, and the names of its arguments
_DOES = {Scope.SHELL: "run commands", Scope.USE_SECRETS: "pass secrets to built-in tasks"}


def check_work(call: Call, defined: Iterable[Work]) -> None:
    """Raise Problem (403) if a caller defines work that requires a scope which the caller does not have."""
    for task, arguments in defined:
        missing = scopes_of_work(task, arguments) - call.who.scopes
        if missing:
            scope = min(missing)
            said = f"{call.who.name} may not {_DOES[scope]}: it takes the scope {scope.value!r}. Nothing was done."
            raise Problem(403, "not-allowed", said)


def work_of_graph(graph: Graph) -> Iterator[Work]:
    """Yield the tasks that the steps of a dag run, with the names of all their arguments."""
    for step in graph.steps:
        if step.job is not None:
            filled = {str(hole.where[0]) for hole in step.args.holes if hole.where}
            mapped = set() if step.map is None else set(step.map.over)
            yield step.job.task, argument_names(step.args.json) | filled | mapped


def work_of_spec(spec: ScheduleSpec) -> Work:
    """Return the task that a schedule runs, and the names of its arguments."""
    return spec.target, argument_names(spec.args.encode()) if spec.kind == "task" else ()


def argument_names(args: bytes | msgspec.Raw) -> set[str]:
    """Return the names of stored arguments. Arguments that are not an object have no names and count as secrets."""
    given = msgspec.json.decode(args)
    return set(given) if isinstance(given, dict) else {"secrets"}
