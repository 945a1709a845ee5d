"""A text with many problems is refused in a time that grows with its length, not with its square."""

import difflib
from pathlib import Path

import pytest

from tickwork.core.job import Policy, TaskDefinition
from tickwork.declare.document_nodes import PROBLEM_LIMIT, TEXT_LIMIT, BadFile
from tickwork.declare.read_declarations import read_all_declared, read_declared

SRC = Path(__file__).parents[2] / "src/tickwork"
SCHEMA = b'{"type": "object", "properties": {"parameter": {}}, "required": [], "additionalProperties": false}'
FORMS = {
    "needs": ("dags:\n  d:\n    steps:\n", "      fetch{0}: {{task: t, needs: fecth{0}x}}\n", ""),
    "results": ("dags:\n  d:\n    steps:\n", '      fetch{0}: {{task: t, args: {{a: "${{fecth{0}.result}}"}}}}\n', ""),
    "fields": ("dags:\n  d:\n    steps:\n", "      fetch{0}: {{tsk{0}: t}}\n", ""),
    "names": ("dags:\n  d:\n    steps:\n      a:\n        task: t\n", "        field{0}: 1\n", ""),
    "params": (
        "dags:\n  d:\n    params: {{",
        "day{0}: string, ",
        "}}\n    steps:\n      a: {{task: t, args: {{a: [REFERENCES]}}}}\n",
    ),
    "zones": ("schedules:\n", "  s{0}: {{task: t, every: 1h, tz: Erope/Berln{0}}}\n", ""),
    "arguments": ("schedules:\n", "  s{0}: {{task: known, every: 1h, args: {{paramter{0}: 1}}}}\n", ""),
}


def known(task: str) -> TaskDefinition | None:
    return TaskDefinition("known", "default", 0, Policy(), SCHEMA) if task == "known" else None


def text_of(form: str, count: int) -> str:
    head, line, foot = FORMS[form]
    references = ", ".join(f'"${{params.dya{at}}}"' for at in range(count))
    lines = "".join(line.format(at) for at in range(count))
    return head.format() + lines + foot.format().replace("REFERENCES", references)


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names that were compared with a misspelled one."""
    seen: list[str] = []
    original = difflib.SequenceMatcher.set_seq1

    def counted(self: difflib.SequenceMatcher[str], name: str) -> None:
        seen.append(name)
        original(self, name)

    monkeypatch.setattr(difflib.SequenceMatcher, "set_seq1", counted)
    return seen


@pytest.mark.parametrize("form", FORMS)
def test_more_problems_are_not_compared_with_more_names(form: str, compared: list[str]) -> None:
    counts = []
    for count in (300, 600):
        compared.clear()
        with pytest.raises(BadFile):
            read_declared(text_of(form, count), known, file="f.yaml")
        counts.append(len(compared))
    assert counts[1] <= counts[0] <= 6 * (PROBLEM_LIMIT + 1), counts


def test_reading_stops_after_a_hundred_problems() -> None:
    with pytest.raises(BadFile) as refused:
        read_declared(text_of("needs", 300), known, file="f.yaml")
    *problems, last = refused.value.problems
    assert len(problems) == PROBLEM_LIMIT
    assert "there is no step 'fecth0x' (did you mean 'fetch0'?)" in problems[0].text
    assert str(last) == f"f.yaml:{last.line}: the file: reading stopped here, after 100 problems."


def test_all_problems_are_listed_up_to_the_limit() -> None:
    with pytest.raises(BadFile) as refused:
        read_declared(text_of("needs", PROBLEM_LIMIT), known, file="f.yaml")
    assert len(refused.value.problems) == PROBLEM_LIMIT
    assert "reading stopped" not in str(refused.value)


def test_problems_of_earlier_files_are_listed_if_a_later_one_has_too_many() -> None:
    with pytest.raises(BadFile) as refused:
        read_all_declared({"a.yaml": text_of("needs", 2), "b.yaml": text_of("fields", 300)}, known)
    assert {one.file for one in refused.value.problems} == {"a.yaml", "b.yaml"}


def test_a_long_name_is_not_repeated_for_each_problem_below_it() -> None:
    name = "a" * (TEXT_LIMIT // 4)
    text = f"dags:\n  d:\n    steps:\n      ? {name}\n      : {{{', '.join(f'x{at}: 1' for at in range(50))}}}\n"
    with pytest.raises(BadFile) as refused:
        read_declared(text, known, file="f.yaml")
    assert len(str(refused.value)) < 3 * TEXT_LIMIT
    assert "reading stopped here" in str(refused.value)


def test_suggestions_are_made_in_one_place() -> None:
    """Elsewhere their cost would not be bounded."""
    found = [path.relative_to(SRC).as_posix() for path in SRC.rglob("*.py") if "difflib" in path.read_text()]
    assert found == ["core/text/suggestions.py"]
