"""`tickwork check`: what is wrong with declared work, without a store."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.declare.dag_texts import BAD, EXAMPLE

CODE = """
from tickwork import InvalidInput, Tickwork
from tickwork.core.dag.graph import Template

class Dag:
    class graph:
        name, steps, params, run = "good", ("a", "b"), {}, Template("good")

    def __init__(self, wrong: str = "") -> None:
        self.wrong = wrong

    def validate(self) -> None:
        if self.wrong:
            raise InvalidInput(self.wrong)

app = Tickwork("postgresql://nobody@127.0.0.1:1/nowhere")
app.dags = {"good": Dag()}
"""


def test_a_line_for_each_thing_and_warnings_beside_them(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "x")
    monkeypatch.setenv("TICKWORK_SECRET_ENV", "TOKEN")
    Path("work.yaml").write_text(EXAMPLE)
    result = cli("check", "work.yaml")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == ["nightly: 5 steps, ok", "heartbeat: schedule, ok", "holidays: calendar, ok"]
    assert [line.partition(" ")[2] for line in result.stderr.splitlines()] == [
        "work.yaml:41: dags.nightly.steps.alarm.http.auth.basic: the secret ALARM is not set here: "
        "neither in a store, nor as a variable that secret_env allows.",
    ]
    assert not Path("tickwork.db").exists()


def test_all_problems_of_all_files_and_exit_code_2(cli: Cli) -> None:
    Path("bad.yaml").write_text(BAD)
    Path("good.json").write_text('{"dags": {"one": {"steps": {"a": {"task": "t"}}}}}')
    result = cli("check", "good.json", "bad.yaml", "nowhere.yaml")
    assert result.exit_code == 2
    assert result.stdout == "one: 1 step, ok\n"
    lines = result.stderr.splitlines()
    assert lines[0].startswith("bad.yaml:3: dags.bad.descripton: ")
    assert any("a cycle: c1 -> c2 -> c3 -> c1" in line for line in lines)
    assert lines[-1] == "nowhere.yaml cannot be read: No such file or directory."
    assert len(lines) > 40


def test_standard_input_and_json(cli: Cli) -> None:
    result = cli("check", "-", "--json", input="dags: {d: {steps: {a: {task: t, needs: [b]}}}}")
    assert result.exit_code == 2
    assert json.loads(result.stdout) == {
        "files": [
            {
                "file": "<stdin>",
                "items": [],
                "problems": ["<stdin>:1: dags.d.steps.a.needs[0]: there is no step 'b'."],
                "remarks": [],
            }
        ]
    }
    assert cli.ok("check", "-", input="") == "<stdin> declares nothing.\n"


def test_the_dags_of_code_are_validated_without_its_store(cli: Cli) -> None:
    Path("good_code.py").write_text(CODE)
    assert cli.ok("check", "good_code.py") == "good: 2 steps, ok\n"
    Path("bad_code.py").write_text(CODE + 'app.dags["bad"] = Dag("a cycle: a -> b -> a")\n')
    result = cli("check", "bad_code.py")
    assert result.exit_code == 2
    assert result.stdout == "good: 2 steps, ok\n"
    assert result.stderr == "bad_code.py: bad: a cycle: a -> b -> a\n"


def test_the_schema_for_editors(cli: Cli) -> None:
    schema = json.loads(cli.ok("check", "--schema"))
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert set(schema["$defs"]["StepFields"]["properties"]) > {"task", "shell", "http", "approve", "needs", "map"}


def test_something_is_to_be_checked(cli: Cli) -> None:
    assert "give files to check" in cli("check").stderr


def test_a_policy_for_clocks_that_has_no_effect_is_a_warning(cli: Cli) -> None:
    Path("work.yaml").write_text(
        "schedules: {s: {task: t, cron: '*/5 * * * *', tz: Europe/Berlin, dst: skip}, u: {task: t, cron: '0 2 * * *'}}"
    )
    for command in (["check", "work.yaml"], ["apply", "work.yaml", "--dry-run"]):
        result = cli(*command)
        assert result.exit_code == 0
        (warning,) = [line for line in result.stderr.splitlines() if "dst=" in line]
        assert warning.startswith("warning: schedule s: dst='skip' has no effect: a rule with a wildcard for the hour")


TASKS = """
from tickwork import Tickwork

app = Tickwork("postgresql://nobody@127.0.0.1:1/nowhere")

@app.task
def mail(to: str, times: int = 1) -> None: ...

@app.dag
def ship(order: int):
    mail(to="ada")
"""
AGAINST = """schedules:
  hourly: {task: mail, args: {too: ada}, every: 1h}
  daily: {task: mial, every: 1d}
dags:
  d:
    params: {n: integer}
    steps:
      a: {task: mail, args: {to: "${params.n}", times: many}}
hooks:
  h: {style: github, secret: A, task: mail, args: {to: 7, times: "${body.n}"}}
"""


def test_yaml_is_checked_against_the_code_beside_it(cli: Cli) -> None:
    Path("work.yaml").write_text(AGAINST)
    Path("tasks.py").write_text(TASKS)
    assert cli("check", "work.yaml").exit_code == 0, "alone, nothing is known of the task"
    result = cli("check", "work.yaml", "tasks.py")
    assert result.exit_code == 2
    assert [line.partition(". ")[0] for line in result.stderr.splitlines()] == [
        "work.yaml:2: schedules.hourly: task 'mail' has no argument 'too' (did you mean 'to'?)",
        "work.yaml:8: dags.d.steps.a.args: argument 'times' of task 'mail' is of type integer, not 'many'",
        "work.yaml:10: hooks.h.args: argument 'to' of task 'mail' is of type string, not 7",
    ]
    Path("work.yaml").write_text("schedules: {daily: {task: mial, every: 1d}}")
    result = cli("check", "tasks.py", "work.yaml")
    assert result.exit_code == 0
    assert "no task 'mial' (did you mean 'mail'?)" in result.stderr
    Path("work.yaml").write_text("dags: {ship: {steps: {a: {shell: date}}}}")
    assert "dag 'ship' is in the Python files, too" in cli("check", "tasks.py", "work.yaml").stderr


def test_a_command_that_is_no_text_is_a_problem_with_its_place(cli: Cli) -> None:
    Path("work.yaml").write_text("schedules: {s: {shell: true, every: 1h}}\ndags: {d: {steps: {a: {shell: true}}}}")
    result = cli("check", "work.yaml")
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        "work.yaml:1: schedules.s.shell: it must be a text or a list, not True.",
        "work.yaml:2: dags.d.steps.a.shell: it must be a text or a list, not True.",
    ]


def test_the_parameters_of_dags_are_checked_against_code_and_an_unknown_dag_is_a_warning(cli: Cli) -> None:
    Path("tasks.py").write_text(f"{TASKS}\n\n@app.dag\ndef letters(to: str):\n    mail(to)\n")
    Path("work.yaml").write_text("schedules: {s: {dag: letters, every: 1h, args: {to: 7}}}")
    assert cli("check", "work.yaml").exit_code == 0, "alone, nothing is known of the dag"
    result = cli("check", "work.yaml", "tasks.py")
    assert result.exit_code == 2
    assert result.stderr.splitlines() == ["work.yaml:1: schedules.s.args.to: it must be of the type string, not 7."]
    Path("work.yaml").write_text("schedules: {s: {dag: leters, every: 1h, args: {to: 7}}}")
    result = cli("check", "work.yaml", "tasks.py")
    assert result.exit_code == 0
    assert "have a dag 'leters' (did you mean 'letters'?)" in result.stderr
