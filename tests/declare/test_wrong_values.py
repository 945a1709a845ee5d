"""Whatever stands in a field of a file, it is read or named as a problem with its line and field; nothing crashes.

What is read can be stored, and gives the same thing when it is read back; commands and requests can be run.
"""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from tickwork.config import Settings
from tickwork.core.dag.graph import decode_graph, digest, encode_graph
from tickwork.core.hooks import decode_hook, encode_hook
from tickwork.core.schedule.spec import decode_spec, encode_spec, template
from tickwork.core.text.yaml_loader import write_yaml
from tickwork.declare.document_nodes import BadFile, FileProblem
from tickwork.declare.read_declarations import DeclaredWork, read_declared
from tickwork.registry import AppRegistry
from tickwork.worker.tasks.http import add_http
from tickwork.worker.tasks.shell import add_shell

REQUEST = {
    "url": "https://x.example/${secret.A}",
    "method": "POST",
    "headers": {"X-A": "1"},
    "body": "text",
    "auth": {"hmac": {"secret": "${secret.B}", "header": "X-Sign"}},
    "expect": [200, "2xx"],
    "timeout": "30s",
    "connect_timeout": "5s",
}
POLICIES = {
    "catchup": "all",
    "catchup_limit": 3,
    "catchup_age": "1d",
    "overlap": "queue",
    "jitter": "5s",
    "start": "2026-12-24T18:00:00+01:00",
    "end": "2027-12-24T18:00:00+01:00",
    "max_runs": 9,
    "deadline": "1h",
    "calendars": ["holidays", {"weekdays": ["sat"]}],
    "paused": True,
    "description": "text",
    "priority": "high",
    "expires": "1h",
    "collection": "c",
    "labels": ["l"],
    "tenant": "t",
}
JOBS = {
    "queue": "q",
    "retries": 2,
    "backoff": "2s",
    "timeout": "1m",
    "on_lost": "fail",
}
COMMAND = {"env": {"A": "1"}, "cwd": "/", "stdin": "x", "interpreter": "/bin/sh"}
CALENDAR = {"dates": ["2026-12-31"], "yearly": ["12-25"], "weekdays": ["sun"], "tz": "Europe/Berlin"}
CRON = {"cron": "H 8 * * *", "tz": "Europe/Berlin", "dst": "once", "dialect": "standard", "spread_by": "x"}
REPORT = {"task": "report", "args": {"to": "ada"}, "retry_on": ["ValueError"], "give_up_on": ["KeyError"]}
SCHEDULES: dict[str, dict[str, Any]] = {
    "cron": {**REPORT, **CRON},
    "policies": {"task": "report", "cron": "0 8 * * *", **POLICIES, **JOBS, "needs": {"gpu": True}},
    "every": {"shell": ["date", "-u"], "every": "1m", "window": "10s", **COMMAND},
    "at": {"http": REQUEST, "at": ["2027-01-01T00:00:00Z"]},
    "rrule": {"dag": "nightly", "rrule": "FREQ=DAILY", "tz": "UTC", "args": {"day": "x"}},
    "any_of": {"shell": "date", "any_of": [{"cron": "0 8 * * *", "tz": "UTC"}, {"every": "1h"}]},
    "all_of": {"shell": "date", "all_of": [{"cron": "0 8 * * *"}, {"except_on": ["holidays"]}]},
    "after": {"shell": "date", "after": "1h"},
}
MAPPED = {
    "task": "load",
    "map": {"row": "${params.rows}", "n": [1, 2]},
    "args": {"row": "${item.row}", "n": "${item.n}"},
    "product": True,
    "max_parallel": 2,
}
TUNED = {
    "task": "t",
    "group": "g",
    "produce": ["loaded"],
    **JOBS,
    "priority": 3,
    "expires": "1h",
    "labels": ["l"],
    "tenant": "t",
    "resources": {"mem": "8GB"},
}
APPROVAL = {"text": "go?", "who": ["ada"], "timeout": "1h", "default": "reject"}
STEPS: dict[str, dict[str, Any]] = {
    "mapped": {"mapped": MAPPED},
    "tuned": {"tuned": TUNED},
    "ordered": {"a": {"task": "t"}, "b": {"task": "t", "needs": ["a"], "when": ["${a.result} > 1"]}},
    "rule": {"a": {"task": "t"}, "b": {"task": "t", "needs": "a", "run_if": "all_succeeded"}},
    "command": {"run": {"shell": "date", **COMMAND}},
    "words": {"run": {"shell": ["date", "-u"]}},
    "call": {"call": {"http": REQUEST}},
    "approval": {"ask": {"approve": APPROVAL}, "short": {"approve": "go on?"}},
}
DAG = {
    "description": "text",
    "params": {"day": {"type": "string", "default": "x", "enum": ["x"], "description": "d"}},
    "result": "${fetch.result}",
    "schedule": {"cron": "0 2 * * *", "args": {"day": "x"}, **POLICIES},
    "on": ["asset"],
    "produce": ["made"],
    "steps": {"fetch": {"task": "fetch", "args": {"day": "${params.day}"}}},
}
HOOK = {
    "style": "github",
    "secret": "${secret.GITHUB}",
    "task": "build",
    "args": {"commit": "${body.after}"},
    "key": "${body.id}",
    "events": ["push"],
    "window": "1h",
    "description": "d",
}
ROWS = {"rows": {"type": "array", "default": []}}
FILES: dict[str, dict[str, Any]] = {
    "calendar": {"calendars": {"holidays": CALENDAR}},
    **{f"schedule-{name}": {"schedules": {"s": fields}} for name, fields in SCHEDULES.items()},
    **{f"steps-{name}": {"dags": {"d": {"params": ROWS, "steps": steps}}} for name, steps in STEPS.items()},
    "dag": {"dags": {"d": DAG, "other": {"on": {"all": ["a", "b"]}, "steps": {"a": {"task": "t"}}}}},
    "hook": {"hooks": {"h": HOOK}},
}
WRONG: list[Any] = [True, -1, 10**40, 1.5, "", "x", "${", [], {}, [True], {"x": {"x": []}}, [None], None]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


def changed(file: dict[str, Any], path: tuple[Any, ...], value: Any) -> Any:
    """The file with another value in a place."""
    if not path:
        return value
    whole = copy.deepcopy(file)
    inner: Any = whole
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return whole


def read(value: Any) -> DeclaredWork:
    return read_declared(write_yaml(value), lambda name: None, file="f.yaml")


def check_usable(found: DeclaredWork) -> None:
    """Check that accepted work can be stored, and that the built-in tasks take its commands and requests."""
    for dag in found.dags.values():
        assert digest(decode_graph(encode_graph(dag.graph))) == digest(dag.graph), "apply would find a change"
        for step in dag.graph.steps:
            if step.job is not None and step.job.task in BUILT_IN and not step.args.holes:
                BUILT_IN[step.job.task].decode(bytes(step.args.json))
    for spec in found.all_specs:
        assert decode_spec(encode_spec(spec)) == spec
        job = template(spec, None)
        if job.task in BUILT_IN:
            BUILT_IN[job.task].decode(job.args)
    for hook in found.hooks.values():
        assert decode_hook(encode_hook(hook)) == hook


def built_in() -> AppRegistry:
    registry = AppRegistry()
    registry.settings = Settings()
    add_http(registry)
    add_shell(registry)
    return registry


BUILT_IN = {name: task.signature for name, task in built_in().tasks.items()}


@pytest.mark.parametrize("name", FILES)
def test_the_file_itself_is_right(name: str) -> None:
    check_usable(read(FILES[name]))


@pytest.mark.parametrize("name", FILES)
def test_a_wrong_value_is_a_problem_with_its_place(name: str) -> None:
    for path in places(FILES[name]):
        for value in WRONG:
            try:
                problems = problems_of(changed(FILES[name], path, value))
            except Exception as error:
                error.add_note(f"{value!r} at {'.'.join(map(str, path))}")
                raise
            assert all(one.line >= 1 and one.text.strip() for one in problems), (path, value)


def problems_of(value: Any) -> list[FileProblem]:
    """Return the problems of a file; check that accepted work can be used."""
    try:
        found = read(value)
    except BadFile as bad:
        return bad.problems
    check_usable(found)
    return []
