"""Dags in YAML and JSON: what they become, and how all that is wrong with a file is told."""

import json
from datetime import timedelta
from typing import Any

import pytest

from tests.declare.dag_texts import BAD, EXAMPLE
from tickwork.core.dag.graph import ApprovalStep, Condition, Graph, Item, Map, Param, Placeholder, Result, Step, Text
from tickwork.core.job import Policy, TaskDefinition
from tickwork.core.limits.debounce import debounce
from tickwork.core.limits.task_limits import TaskLimits, encode_task_limits
from tickwork.core.recurrence.cron import cron
from tickwork.core.retry import RetryPolicy
from tickwork.declare.document_nodes import BadFile
from tickwork.declare.read_declarations import DeclaredWork, read_declared


def unknown(task: str) -> TaskDefinition | None:
    return None


def read(text: str, file: str = "f.yaml") -> DeclaredWork:
    return read_declared(text, unknown, file=file)


def graph_of(text: str) -> Graph:
    """The dag `d` with these steps, which stand two spaces in."""
    return read("dags:\n  d:\n    steps:\n" + "\n".join(f"      {line}" for line in text.splitlines())).dags["d"].graph


def step_of(text: str, name: str = "s") -> Step:
    return graph_of(text).by_name[name]


def problems_of(text: str) -> list[str]:
    with pytest.raises(BadFile) as raised:
        read(text)
    return [str(problem) for problem in raised.value.problems]


def test_a_step_may_fail() -> None:
    graph = graph_of("a: {task: t, may_fail: true}\nb: {task: t, needs: a}")
    assert [step.may_fail for step in graph.steps] == [True, False]


def test_a_file_becomes_a_graph() -> None:
    found = read(EXAMPLE)
    graph = found.dags["nightly"].graph
    assert [step.name for step in graph.steps] == ["fetch", "count", "report", "sure", "alarm"]
    assert graph.on == (("orders",), ("prices",))
    assert graph.produce == ("report",)
    assert graph.run.policy.retry.retries == 0
    assert graph.params == {
        "type": "object",
        "properties": {
            "day": {"type": "string", "default": "today"},
            "parts": {"type": "integer", "default": 3, "description": "How many"},
        },
        "required": [],
        "additionalProperties": False,
    }
    assert json.loads(bytes(graph.result.json)) == {"total": None, "day": None}
    assert graph.result.holes == (
        Placeholder(("total",), Result("report", ("stdout",))),
        Placeholder(("day",), Param("day")),
    )
    assert set(found.schedules) == {"heartbeat"}
    assert set(found.calendars) == {"holidays"}


def test_arguments_have_holes_where_expressions_are() -> None:
    args = read(EXAMPLE).dags["nightly"].graph.by_name["fetch"].args
    assert json.loads(bytes(args.json)) == {"day": None, "url": None, "plain": [1, "${x}"]}
    assert args.holes == (
        Placeholder(("day",), Param("day")),
        Placeholder(("url",), Text(("https://example.org/", Param("day"), "?n=", Param("parts")))),
    )


def test_commands_are_given_values_through_their_environment_as_texts() -> None:
    count = read(EXAMPLE).dags["nightly"].graph.by_name["count"]
    assert count.job is not None
    assert count.job.task == "shell"
    assert json.loads(bytes(count.args.json)) == {
        "command": 'printf %s "$WORD" | wc -c',
        "env": {"WORD": None, "N": "3"},
    }
    assert count.args.holes == (Placeholder(("env", "WORD"), Text((Item("item"),))),)
    assert count.map == Map({"item": Result("fetch", ("lines",))}, max_parallel=2)


def test_secrets_stand_apart_as_they_are_written_and_are_told_with_their_place() -> None:
    found = read(EXAMPLE)
    steps = found.dags["nightly"].graph.by_name
    assert json.loads(bytes(steps["report"].args.json)) == {
        "command": 'echo "$COUNTS" "${HOME}"',
        "env": {"COUNTS": None},
        "secrets": {"env.TOKEN": "Bearer ${secret.TOKEN}"},
    }
    assert json.loads(bytes(steps["alarm"].args.json))["secrets"] == {"auth.basic": "${secret.ALARM}"}
    assert found.secrets == {
        "TOKEN": "f.yaml:25: dags.nightly.steps.report.env.TOKEN",
        "ALARM": "f.yaml:41: dags.nightly.steps.alarm.http.auth.basic",
    }


def test_options_are_those_of_the_jobs() -> None:
    job = read(EXAMPLE).dags["nightly"].graph.by_name["report"].job
    assert job is not None
    assert (job.queue, job.priority, job.labels, job.tenant) == ("slow", 2, ("nightly",), "acme")
    assert job.needs == "mem=8000000000"
    assert job.policy == Policy(retry=RetryPolicy(retries=3), timeout=timedelta(seconds=30))


def test_what_a_step_does_not_say_it_has_from_its_task() -> None:
    job_limits = encode_task_limits(TaskLimits(tenant="acme", needs="gpu"))
    policy = Policy(retry=RetryPolicy(retries=7), timeout=timedelta(minutes=1))
    definition = TaskDefinition("t", "mail", 2, policy, b'{"properties":{}}', job_limits)
    text = "dags: {d: {steps: {a: {task: t}, b: {task: t, retries: 0, queue: other}}}}"
    steps = read_declared(text, {"t": definition}.get, file="f").dags["d"].graph.by_name
    first, second = steps["a"].job, steps["b"].job
    assert first is not None
    assert second is not None
    assert (first.queue, first.policy, first.tenant, first.needs, first.task_limits) == (
        "mail",
        policy,
        "acme",
        "gpu",
        job_limits,
    )
    assert first.priority is None  # that of the run
    assert (second.queue, second.policy.retry.retries, second.policy.timeout) == ("other", 0, timedelta(minutes=1))


def test_a_task_of_which_several_calls_are_one_job_is_no_step() -> None:
    job_limits = encode_task_limits(TaskLimits(merging=debounce("5s")))
    definition = TaskDefinition("t", "mail", 2, Policy(), b'{"properties":{}}', job_limits)
    with pytest.raises(BadFile, match="'t' is debounced or throttled"):
        read_declared("dags: {d: {steps: {a: {task: t}}}}", {"t": definition}.get, file="f")


def test_a_step_waits_for_those_it_names_and_for_those_whose_results_it_wants() -> None:
    graph = graph_of(
        """\
a: {task: t}
b: {task: t}
c: {task: t}
d.1: {task: t}
s:
  needs: [b]
  task: t
  args: {deep: [{x: "${a.result.k['a b'][0]} and ${b.result}"}]}
  map: ${c.result}
  when: ["${d.1.result.result.ok}", "not ${a.result}"]
"""
    )
    step = graph.by_name["s"]
    assert step.parents == ("b", "a", "d.1", "c")
    assert step.args.holes == (
        Placeholder(("deep", 0, "x"), Text((Result("a", ("k", "a b", 0)), " and ", Result("b")))),
    )
    assert step.when == (Condition(Result("d.1", ("result", "ok"))), Condition(Result("a"), "false"))


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("${a.result} == done", Condition(Result("a"), "==", "done")),
        ("${a.result.n} != '10'", Condition(Result("a", ("n",)), "!=", "10")),
        ("${params.n} >= 1.5", Condition(Param("n"), ">=", 1.5)),
        ("${a.result}<10", Condition(Result("a"), "<", 10)),
        ("${a.result} in [eu, us]", Condition(Result("a"), "in", ["eu", "us"])),
        ("${a.result}  not   in [null, 3]", Condition(Result("a"), "not in", [None, 3])),
        ("not ${a.result}", Condition(Result("a"), "false")),
    ],
)
def test_conditions(text: str, condition: Condition) -> None:
    steps = (
        f"dags: {{d: {{params: {{n: number}}, steps: {{a: {{task: t}}, s: {{task: t, when: {json.dumps(text)}}}}}}}}}"
    )
    assert read(steps).dags["d"].graph.by_name["s"].when == (condition,)


def test_several_lists_are_mapped_by_name_side_by_side_or_each_with_each() -> None:
    step = step_of(
        'a: {task: t}\ns: {task: t, map: {x: "${a.result}", y: [1, 2]}, args: {p: "${item.x.k}", q: "${item.y}"}}'
    )
    assert step.map == Map({"x": Result("a"), "y": [1, 2]})
    assert step.args.holes == (Placeholder(("p",), Item("x", ("k",))), Placeholder(("q",), Item("y")))
    assert step_of("s: {task: t, map: {x: [1], y: [2]}, product: true}").map == Map({"x": [1], "y": [2]}, product=True)


def test_approvals() -> None:
    graph = read(EXAMPLE).dags["nightly"].graph
    assert graph.by_name["sure"].approval == ApprovalStep("Send it?", ("ada",), timedelta(hours=2), "approve")
    assert step_of("s: {approve: Sure?}").approval == ApprovalStep("Sure?")


def test_an_approval_asks_with_values_of_the_run() -> None:
    for said in ('"Delete ${a.result}, $${x}?"', '{text: "Delete ${a.result}, $${x}?"}'):
        step = step_of(f"a: {{task: t}}\ns: {{approve: {said}}}")
        assert step.approval == ApprovalStep("Delete ${a.result}, $${x}?")
        assert json.loads(bytes(step.args.json)) == {"text": None}
        assert step.args.holes == (Placeholder(("text",), Text(("Delete ", Result("a"), ", ${x}?"))),)
        assert step.parents == ("a",)


def test_a_schedule_of_the_dag_has_its_name_and_is_for_it() -> None:
    spec = read(EXAMPLE).dags["nightly"].schedule
    assert spec is not None
    assert (spec.name, spec.kind, spec.target, spec.args) == ("nightly", "dag", "nightly", '{"day":"today"}')
    assert spec.rule == cron("0 2 * * *", tz="Europe/Berlin")
    assert spec.policies.calendars == ("holidays",)


@pytest.mark.parametrize(
    ("text", "on"),
    [("on: a", (("a",),)), ("on: [a, b]", (("a",), ("b",))), ("on: {all: [a, b]}", (("a", "b"),)), ("on:", ())],
)
def test_assets_that_start_it(text: str, on: tuple[Any, ...]) -> None:
    assert read(f"dags:\n  d:\n    {text}\n    steps: {{s: {{task: t}}}}").dags["d"].graph.on == on


def test_http_steps_are_jobs_of_the_task_http() -> None:
    steps = {step.name: step for step in read(EXAMPLE).dags["nightly"].graph.steps}
    job = steps["alarm"].job
    assert job is not None
    assert job.task == "http"


def test_a_schedule_of_a_request_keeps_its_secrets_as_references() -> None:
    http = '{method: POST, url: "https://example.org", json: {a: 1}, auth: {hmac: {secret: "${secret.SIGN}"}}}'
    found = read(f"schedules: {{ping: {{every: 1m, http: {http}}}}}")
    (spec,) = found.specs
    assert spec.target == "http"
    assert json.loads(spec.args) == {
        "method": "POST",
        "url": "https://example.org",
        "json": {"a": 1},
        "auth": {"hmac": {}},
        "secrets": {"auth.hmac.secret": "${secret.SIGN}"},
    }
    assert found.secrets == {"SIGN": "f.yaml:1: schedules.ping.http.auth.hmac.secret"}


def test_json_is_read_as_well_with_tabs_and_characters_in_two_halves() -> None:
    text = json.dumps(
        {"dags": {"d": {"description": "a \U0001f600 \\ud83d", "steps": {"s": {"task": "t"}}}}}, indent="\t"
    )
    assert "\\ud83d\\ude00" in text
    assert read(text, "f.json").dags["d"].graph.description == "a \U0001f600 \\ud83d"


def test_all_problems_of_a_file_are_told_with_line_and_field() -> None:
    assert problems_of(BAD) == [
        "f.yaml:3: dags.bad.descripton: there is no such field here (did you mean 'description'?).",
        "f.yaml:5: dags.bad.params.day: it must be one of string, integer, number, boolean, array, object or fields, "
        "not 'strin'.",
        "f.yaml:6: dags.bad.params.n.default: it must be of the type integer, not 'x'.",
        "f.yaml:7: dags.bad.params.m.default: it must be one of enum, not 3.",
        "f.yaml:8: dags.bad.params.flag.default: it must be of the type integer, not True.",
        "f.yaml:9: dags.bad.result: there is no step 'nothing'.",
        "f.yaml:10: dags.bad.schedule.args.dya: there is no parameter 'dya' (did you mean 'day'?).",
        "f.yaml:10: dags.bad.schedule.cron: cron '99 * * * *': the minute '99' is not one; it takes 0-59.",
        "f.yaml:14: dags.bad.steps.fetch.args.day: there is no parameter 'dy' (did you mean 'day'?).",
        "f.yaml:15: dags.bad.steps.fetch.retries: it must be a whole number, not 'many'.",
        "f.yaml:16: dags.bad.steps.fetch.timeout: it must be a text such as 30s, not 30.",
        "f.yaml:17: dags.bad.steps.fetch.backoff: backoff: 'soon' is not a duration. Use d, h, m, s, ms in this order, "
        "such as '1h30m'.",
        "f.yaml:19: dags.bad.steps.count.needs[0]: there is no step 'fetsh' (did you mean 'fetch'?).",
        "f.yaml:19: dags.bad.steps.count.needs[2]: 'fetch' is named twice.",
        "f.yaml:20: dags.bad.steps.count.map: a ${ is not closed by a }; write $${ for a plain ${.",
        "f.yaml:21: dags.bad.steps.count.shell: ${...} is not filled in here, since its value could be run as a "
        'command: pass it through env, as in env: {WORD: "${item}"}, and say "$WORD". A ${ of the shell itself is '
        "written $${.",
        "f.yaml:22: dags.bad.steps.count.max_parallel: it must be 1 or more, not 0.",
        "f.yaml:23: dags.bad.steps.report: say what it runs: one of task, shell, http, approve, not several.",
        "f.yaml:24: dags.bad.steps.none: say what it runs: one of task, shell, http, approve.",
        "f.yaml:27: dags.bad.steps.when.when[0]: '${fetch.result.n} >' does not say what to compare with.",
        "f.yaml:27: dags.bad.steps.when.when[1]: 'fetch > 3' is not a condition: say ${STEP.result}, not "
        "${STEP.result}, or ${STEP.result} > 10, with an operator: == != < <= > >= in not in.",
        "f.yaml:27: dags.bad.steps.when.when[2]: '${fetch.result.n} in 3': in asks for a list, such as [eu, us].",
        "f.yaml:27: dags.bad.steps.when.when[3]: ${fetch.n}: did you mean ${fetch.result.n}?",
        "f.yaml:27: dags.bad.steps.when.when[4]: '${fetch.result} > ${n}' compares with another expression; "
        "the right operand is a value, such as 10.",
        "f.yaml:28: dags.bad.steps.when.run_if: it must be one of all_succeeded, all_done, any_failed, any_succeeded, "
        "none_failed, always, not 'any_fail'.",
        "f.yaml:29: dags.bad.steps.item: a step cannot be called 'item', since expressions could not name it.",
        "f.yaml:30: dags.bad.steps[a b]: 'a b' is not a name for a step: use letters, digits and _ . - (up to 200).",
        "f.yaml:31: dags.bad.steps.c1.needs[0]: a cycle: c1 -> c2 -> c3 -> c1. Each of them waits for the one before "
        "it.",
        "f.yaml:32: dags.bad.steps.c2.needs: 'needs' is given twice.",
        "f.yaml:34: dags.bad.steps.self.needs[0]: a cycle: self -> self. Each of them waits for the one before it.",
        "f.yaml:35: dags.bad.steps.ask.approve.text: it is missing.",
        "f.yaml:35: dags.bad.steps.ask.retries: it is for jobs, and an approval is none.",
        "f.yaml:36: dags.bad.steps.ask2.env: it goes with shell, and this step has approve.",
        "f.yaml:36: dags.bad.steps.ask2.approve: there is no step 'fetc' (did you mean 'fetch'?).",
        "f.yaml:37: dags.bad.steps.web.http.methd: there is no such field here (did you mean 'method'?).",
        "f.yaml:37: dags.bad.steps.web.http.body: json is the body already: say one of them.",
        "f.yaml:37: dags.bad.steps.web.http.url: it must begin with http:// or https://, not 'ftp://x'.",
        "f.yaml:37: dags.bad.steps.web.http.auth.basic: a text with a secret can have no other expressions, and this "
        "one has ${fetch.result}.",
        "f.yaml:38: dags.bad.steps.lone.run_if: it waits for no step, so any_failed can never hold; say needs.",
        "f.yaml:39: dags.bad.steps.values.args.x: ${secret.A} is allowed in env of shell, and in url, headers and "
        "auth of http.",
        "f.yaml:39: dags.bad.steps.values.args.z[1]: ${item} is an element of what a step is mapped over, and there is "
        "no map here.",
        "f.yaml:39: dags.bad.steps.values.args.y: ${params} does not say which one: ${params.day}.",
        "f.yaml:39: dags.bad.steps.values.args.w: ${fetch.result.a b} cannot be read at ' b'; a path is .key, [0] or "
        '["any key"].',
        "f.yaml:40: dags.bad.steps.flat.product: it must be true or false, not 3.",
        "f.yaml:40: dags.bad.steps.flat.map: it must be one expression, such as ${fetch.result.lines}, or a list, not "
        "'no ${fetch.result}'.",
        "f.yaml:41: dags.bad.steps.parts.args.y: nothing is mapped as 'z'.",
        "f.yaml:42: dags.bad.steps.plain.max_parallel: it goes with map, which this step does not have.",
        "f.yaml:44: schedules.a.evry: there is no such field here (did you mean 'every'?).",
        "f.yaml:45: schedules.b: say when it is due: one of cron, every, after, at, rrule, any_of, all_of.",
        "f.yaml:46: sched: it is not read by this version of Tickwork; did you mean 'schedules'?",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("dags: {d: {}}", "f.yaml:1: dags.d.steps: it is missing."),
        ("dags: {d: {steps: {}}}", "f.yaml:1: dags.d.steps: it has no steps."),
        ("dags: {d: {steps: [a]}}", "f.yaml:1: dags.d.steps: it must be fields, not ['a']."),
        ("dags: {d: 3}", "f.yaml:1: dags.d: it must have fields, not 3."),
        ("dags: [d]", "f.yaml:1: dags: it must have fields, not ['d']."),
        ("[d]", "f.yaml:1: the file: it must have fields, not ['d']."),
        ("dags: {d: {steps: {s: {}}}\n---\nx: 1", "this is not YAML"),
        ("dags: {d: {steps: {s: {task: t}}}}\n---\ndags: {d: {steps: {s: {task: t}}}}", "f.yaml:3: dags.d: an earlier"),
        (
            "dags: {d: {steps: {s: {task: t}}, schedule: {every: 1m}}}\nschedules: {d: {task: t, every: 1m}}",
            "f.yaml:1: dags.d.schedule: it has the dag's name, and schedules has 'd' as well.",
        ),
        (
            "dags: {d: {params: {day: string}, steps: {s: {task: t}}, schedule: {every: 1m}}}",
            "the parameter 'day' has no default, and args does not say what it is.",
        ),
        ("dags: {d: {steps: {s: {task: t, map: [1, '${params.x}']}}}}", "a list that is written out holds values"),
        (
            "dags: {d: {steps: {m: {task: t, map: [1]}, s: {task: t, args: {x: '${m.result.lines}'}}}}}",
            "dags.d.steps.s.args.x: ${m.result.lines}: m is mapped, so its result is a list, which has no 'lines'.",
        ),
        (
            "dags: {d: {result: '${m.result.lines}', steps: {m: {task: t, map: [1]}}}}",
            "dags.d.result: ${m.result.lines}: m is mapped",
        ),
        ("dags: {d: {steps: {s: {task: t, map: {x: [1], y: [1, 2]}}}}}", "steps.s.map: lists that are mapped side by"),
        ("dags: {d: {steps: {s: {task: t, map: {}}}}}", "dags.d.steps.s.map: it names nothing to map over."),
        ("dags: {d: {steps: {s: {shell: [echo, '${x}']}}}}", "dags.d.steps.s.shell[1]: ${...} is not filled in here"),
        (
            "dags: {d: {steps: {a.result: {task: t}}}}",
            "a step cannot be called 'a.result', since expressions could not",
        ),
        ("dags: {d: {steps: {s: {task: ''}}}}", "the name of a task must be a printable text"),
        ("dags: {d: {steps: {s: {http: {url: 'http://x', auth: {}}}}}}", "say one of basic, bearer and hmac."),
    ],
)
def test_other_problems(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=r"^f\.yaml") as raised:
        read(text)
    assert words in str(raised.value)
