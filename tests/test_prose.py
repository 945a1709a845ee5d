"""scripts/check_prose.py refuses phrases in prose, names their places, and leaves code alone."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "check_prose.py"


@pytest.fixture(scope="module")
def checker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_prose", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("a.py", '"""Jobs.\n\n    Whoever comes."""\n', [3]),
        ("a.py", "x = 1  # waits for nobody\n", [1]),
        ("a.py", 'x = "nobody waits"\n', []),
        ("src/a.py", 'raise ValueError(f"{x} waits for nobody")\n', [1]),
        ("src/a.py", 'USER = "nobody"\nLINE = "--run-as nobody"\n', []),
        ("a.md", "so many\n```\nso many\n```\n`nobody` and so many that\n", [1]),
        ("a.sql", "SELECT 'anew'; -- read anew\n", [1]),
        ("a.js", 'say("Nobody");\n// lets go\n', [1, 2]),
    ],
)
def test_a_refused_phrase_is_found_in_prose_only(checker: ModuleType, name: str, text: str, lines: list[int]) -> None:
    assert [int(found.split(":")[1]) for found in checker.problems(name, text)] == lines


def test_a_problem_names_its_place_the_reason_and_better_words(checker: ModuleType) -> None:
    (problem,) = checker.problems("docs/a.md", "It was read in vain.")
    assert problem == "docs/a.md:1: 'in vain': an idiom. Write: without effect, finds nothing"


def test_the_exit_code_says_whether_there_are_problems(
    checker: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(checker, "tracked", lambda paths: paths)
    (tmp_path / "a.md").write_text("A worker claims jobs.")
    (tmp_path / "b.md").write_text("Somebody claims jobs.")
    assert checker.main([str(tmp_path / "a.md")]) == 0
    assert checker.main([str(tmp_path / "b.md")]) == 1
    assert "b.md:1: 'Somebody'" in capsys.readouterr().out
