"""Columns of a row have names: code of the stores does not read them by number."""

import ast
from pathlib import Path

import pytest

import tickwork.store

STORE = Path(tickwork.store.__file__).parent
RETURN_ROWS = {"run", "first", "find", "rows", "run_sql", "run_together"}


def is_row(node: ast.expr) -> bool:
    """Whether an expression is a row: by its name, or as an element of rows."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name == "row"
        case ast.Subscript(value=value):
            return is_rows(value)
        case _:
            return False


def is_rows(node: ast.expr) -> bool:
    """Whether an expression is a list of rows: by its name, or by the method that returns it."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name == "rows"
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in RETURN_ROWS
        case _:
            return False


def is_number(node: ast.expr | None) -> bool:
    if isinstance(node, ast.UnaryOp):
        node = node.operand
    return isinstance(node, ast.Constant) and isinstance(node.value, int)


def is_positional(node: ast.Subscript) -> bool:
    """Whether a column, or a row of a list, is read by its number. A part of a list of rows is none of these."""
    if is_row(node.value):
        return is_number(node.slice) or isinstance(node.slice, ast.Slice)
    return is_rows(node.value) and is_number(node.slice)


def positions(source: str) -> list[int]:
    """The lines of a module that read a column, or a row of a list, by its number."""
    return [
        node.lineno for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Subscript) and is_positional(node)
    ]


def test_no_module_of_the_store_reads_columns_by_number() -> None:
    modules = list(STORE.rglob("*.py"))
    found = [f"{path.relative_to(STORE)}:{line}" for path in modules for line in positions(path.read_text())]
    assert len(modules) > 40
    assert found == []


@pytest.mark.parametrize(
    "code",
    ["row[3]", "row[-5]", "row[14:19]", "rows[0][0]", "one.row[1]", "tx.run('x')[0][0]", "row[:3]"],
)
def test_a_number_is_found(code: str) -> None:
    assert positions(code) != []


@pytest.mark.parametrize("code", ["row['id']", "row.job_id", "values[0]", "rows[len(first) :]"])
def test_a_name_is_not_found(code: str) -> None:
    assert positions(code) == []
