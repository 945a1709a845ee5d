"""The parameters that a schedule or a hook gives a dag, checked against those that the dag declares."""

import msgspec
import pytest

from tickwork.core.dag.graph import definition_of
from tickwork.core.job import TaskDefinition
from tickwork.declare.document_nodes import BadFile
from tickwork.declare.read_declarations import DeclaredWork, read_all_declared, read_declared
from tickwork.declare.schedules import Known

DAG = """\
dags:
  nightly:
    params:
      day: string
      parts: {type: integer, default: 3}
      region: {type: string, enum: [eu, us], default: eu}
    steps:
      fetch: {task: fetch, args: {day: "${params.day}"}}
"""
SCHEDULES = """\
schedules:
  good: {dag: nightly, every: 1h, args: {day: today, parts: 5, region: us}}
  typo: {dag: nightly, every: 1h, args: {day: today, prats: 5}}
  kind:
    dag: nightly
    every: 1h
    args:
      day: today
      parts: many
  choice: {dag: nightly, every: 1h, args: {day: today, region: asia}}
  missing: {dag: nightly, every: 1h}
"""
WRONG = [
    "3: schedules.typo.args.prats: there is no parameter 'prats' (did you mean 'parts'?).",
    "9: schedules.kind.args.parts: it must be of the type integer, not 'many'.",
    "10: schedules.choice.args.region: it must be one of 'eu' or 'us', not 'asia'.",
    "11: schedules.missing: the parameter 'day' has no default, and args does not say what it is.",
]


def unknown(name: str) -> TaskDefinition | None:
    """Nothing is stored."""
    return None


def problems_of(texts: dict[str, str], known: Known = unknown) -> list[str]:
    with pytest.raises(BadFile) as refused:
        read_all_declared(texts, known)
    return [str(one) for one in refused.value.problems]


def stored(text: str) -> Known:
    """A store that has the dags of a file."""
    found = read_declared(text, unknown, file="stored.yaml")
    return {name: definition_of(dag.graph, 1) for name, dag in found.dags.items()}.get


def test_they_are_checked_against_a_dag_of_the_same_file_wherever_it_stands() -> None:
    assert problems_of({"f.yaml": f"{SCHEDULES}{DAG}"}) == [f"f.yaml:{one}" for one in WRONG]
    assert problems_of({"f.yaml": f"{SCHEDULES}---\n{DAG}"}) == [f"f.yaml:{one}" for one in WRONG]


def test_they_are_checked_against_a_dag_of_a_file_beside_it() -> None:
    assert problems_of({"a.yaml": SCHEDULES, "b.yaml": DAG}) == [f"a.yaml:{one}" for one in WRONG]


def test_they_are_checked_against_a_dag_that_is_stored() -> None:
    assert problems_of({"f.yaml": SCHEDULES}, stored(DAG)) == [f"f.yaml:{one}" for one in WRONG]


def test_the_dag_of_the_file_counts_where_another_version_is_stored() -> None:
    text = f"{DAG}schedules: {{s: {{dag: nightly, every: 1h, args: {{day: today, parts: 5}}}}}}"
    older = "dags: {nightly: {steps: {a: {task: t}}}}"
    assert read_declared(text, stored(older), file="f.yaml").schedules["s"].args == '{"day":"today","parts":5}'
    assert problems_of(
        {"f.yaml": text.replace("parts: 5", "n: 5")},
        stored("dags: {nightly: {params: {n: integer}, steps: {a: {task: t}}}}"),
    ) == ["f.yaml:9: schedules.s.args.n: there is no parameter 'n'."]


def test_the_schedule_of_a_dag_is_checked_by_type_too() -> None:
    text = "dags: {d: {params: {n: integer}, schedule: {every: 1h, args: {n: many}}, steps: {a: {task: t}}}}"
    assert problems_of({"f.yaml": text}) == [
        "f.yaml:1: dags.d.schedule.args.n: it must be of the type integer, not 'many'."
    ]


def test_of_a_dag_that_cannot_be_read_only_its_own_problems_are_told() -> None:
    broken = "schedules: {s: {dag: d, every: 1h, args: {n: 1}}}\ndags: {d: {steps: {a: {tsk: t}}}}"
    older = stored("dags: {d: {params: {m: integer}, steps: {a: {task: t}}}}")
    assert all(": dags.d.steps.a" in one for one in problems_of({"f.yaml": broken}, older))


def test_a_dag_that_is_not_known_is_taken() -> None:
    text = "schedules: {s: {dag: d, every: 1h, args: {n: 1}}}"
    task = TaskDefinition("d", "default", 5, stored(DAG)("nightly").policy, msgspec.json.encode({}))  # type: ignore[union-attr]
    for known in (unknown, {"d": task}.get):
        found: DeclaredWork = read_declared(text, known, file="f.yaml")
        assert found.schedules["s"].args == '{"n":1}'


HOOKS = """\
hooks:
  good: {style: github, secret: S, dag: nightly, args: {day: "${body.day}", parts: 5, region: "${event}"}}
  typo: {style: github, secret: S, dag: nightly, args: {day: "${body.day}", prats: "${body.parts}"}}
  kind: {style: github, secret: S, dag: nightly, args: {day: 7, parts: "${body.parts}"}}
  choice: {style: github, secret: S, dag: nightly, args: {day: "${body.day}", region: asia}}
  missing: {style: github, secret: S, dag: nightly}
"""
WRONG_HOOKS = [
    "3: hooks.typo.args.prats: there is no parameter 'prats' (did you mean 'parts'?).",
    "4: hooks.kind.args.day: it must be of the type string, not 7.",
    "5: hooks.choice.args.region: it must be one of 'eu' or 'us', not 'asia'.",
    "6: hooks.missing: the parameter 'day' has no default, and args does not say what it is.",
]


def test_those_of_a_hook_are_checked_as_far_as_no_message_says_them() -> None:
    assert problems_of({"f.yaml": f"{HOOKS}{DAG}"}) == [f"f.yaml:{one}" for one in WRONG_HOOKS]
    assert problems_of({"a.yaml": HOOKS, "b.yaml": DAG}) == [f"a.yaml:{one}" for one in WRONG_HOOKS]
    assert problems_of({"f.yaml": HOOKS}, stored(DAG)) == [f"f.yaml:{one}" for one in WRONG_HOOKS]
    assert set(read_declared(HOOKS, unknown, file="f.yaml").hooks) == {"good", "typo", "kind", "choice", "missing"}


def test_a_value_of_a_hook_with_an_expression_inside_is_not_checked() -> None:
    text = "{style: github, secret: S, dag: d, args: {names: ['${body.a}'], note: '$${plain}'}}"
    dag = "dags: {d: {params: {names: array, note: integer}, steps: {a: {task: t}}}}"
    assert problems_of({"f.yaml": f"hooks: {{h: {text}}}\n{dag}"}) == [
        "f.yaml:1: hooks.h.args.note: it must be of the type integer, not '$${plain}'."
    ]


def test_the_dag_of_a_hook_that_a_file_does_not_have_is_known_to_be_elsewhere() -> None:
    assert read_declared(HOOKS, unknown, file="f.yaml").other_dags == {"nightly"}
