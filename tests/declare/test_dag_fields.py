"""The JSON Schema for editors accepts what is read, and refuses what is refused for its shape."""

from typing import Any

import pytest

from tests.declare.dag_texts import BAD, EXAMPLE
from tickwork.core.schedule.policy import POLICIES
from tickwork.core.text.yaml_loader import read_documents
from tickwork.declare.dag_fields import CalendarFields, ScheduleFields, TaskScheduleFields, file_schema
from tickwork.declare.schedules import CALENDAR, FIELDS

SCHEMA = file_schema()
TYPES = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict}


def complaints(value: Any, schema: dict[str, Any], path: str = "") -> list[str]:
    """Validate a value against the parts of JSON Schema that occur here; return the fewest problems that explain it."""
    if "$ref" in schema:
        return complaints(value, SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]], path)
    if "anyOf" in schema:
        answers = [complaints(value, one, path) for one in schema["anyOf"]]
        return [] if [] in answers else min(answers, key=len)
    known = {"description", "title", "default", "examples", "$schema", "$defs", "items", "properties", "required"}
    known |= {"type", "enum", "additionalProperties", "minimum"}
    assert not set(schema) - known, f"a keyword that this validator does not know: {set(schema) - known}"
    kind = schema.get("type")
    if kind and (not isinstance(value, TYPES[kind]) or (isinstance(value, bool) and kind != "boolean")):
        return [f"{path}: not {kind}"]
    if "enum" in schema and value not in schema["enum"]:
        return [f"{path}: not one of them"]
    found = [f"{path}: below"] if "minimum" in schema and value < schema["minimum"] else []
    if isinstance(value, list) and "items" in schema:
        found += [one for at, item in enumerate(value) for one in complaints(item, schema["items"], f"{path}[{at}]")]
    if isinstance(value, dict):
        found += [f"{path}.{name}: missing" for name in schema.get("required", ()) if name not in value]
        rest = schema.get("additionalProperties", True)
        for name, item in value.items():
            inner = schema.get("properties", {}).get(name, rest)
            if inner is False:
                found.append(f"{path}.{name}: unknown")
            elif isinstance(inner, dict):
                found += complaints(item, inner, f"{path}.{name}")
    return found


def value_of(text: str) -> Any:
    (document,) = read_documents(text, file="f")
    return document.value


def test_what_is_read_is_accepted() -> None:
    assert complaints(value_of(EXAMPLE), SCHEMA) == []


@pytest.mark.parametrize(
    "path",
    [
        ".dags.bad.descripton: unknown",
        ".dags.bad.params.day: not one of them",
        ".dags.bad.steps.fetch.retries: not integer",
        ".dags.bad.steps.fetch.timeout: not string",
        ".dags.bad.steps.count.max_parallel: below",
        ".dags.bad.steps.when.run_if: not one of them",
        ".dags.bad.steps.ask.approve",
        ".dags.bad.steps.web.http.methd: unknown",
        ".dags.bad.steps.flat.product: not boolean",
        ".schedules.a.evry: unknown",
        ".sched: unknown",
    ],
)
def test_what_is_refused_for_its_shape_is_refused(path: str) -> None:
    assert any(one.startswith(path) for one in complaints(value_of(BAD), SCHEMA))


def test_schedules_have_the_fields_that_are_read() -> None:
    assert set(TaskScheduleFields.__struct_fields__) == FIELDS
    assert set(ScheduleFields.__struct_fields__) > POLICIES
    assert set(CalendarFields.__struct_fields__) == set(CALENDAR)
