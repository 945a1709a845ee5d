"""The tests follow the tree of packages, and share helpers through modules that have no tests."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
MODULES = sorted(TESTS.rglob("*.py"))


def imported_modules(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_no_module_imports_a_test_module() -> None:
    """A helper that two test modules need is in a module of its own or in a conftest.py."""
    found = [
        f"{file.relative_to(TESTS)}: {name}"
        for file in MODULES
        for name in imported_modules(file)
        if name.startswith("tests.") and any(part.startswith("test_") for part in name.split(".")[:-1])
    ]
    assert found == []


def test_each_helper_module_says_what_it_is_for() -> None:
    helpers = [file for file in MODULES if not file.name.startswith(("test_", "__init__"))]
    silent = [file for file in helpers if not ast.get_docstring(ast.parse(file.read_text()))]
    assert [str(file.relative_to(TESTS)) for file in silent] == []


def test_names_of_tests_name_who_acts() -> None:
    """A name states a promise: which worker, job or caller does what. scripts/check_prose.py reads no names."""
    vague = re.compile(r"_(?:somebody|nobody|nobodys|anybody|whoever|so_many|in_vain|let_go|anew)(?:_|$)")
    found = [
        f"{file.relative_to(TESTS)}:{node.lineno}: {node.name}"
        for file in MODULES
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and node.name.startswith("test_")
        and vague.search(node.name)
    ]
    assert found == []
