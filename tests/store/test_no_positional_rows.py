"""Columns of a row have names: code of the stores does not read them by number."""

import ast
from pathlib import Path

import pytest

import tickwork.store

STORE = Path(tickwork.store.__file__).parent
NOT_YET = {"postgres"}  # Subpackages that still read columns by number; the aim is none.
ROWS = {"row", "rows"}
RETURN_ROWS = {"run", "first", "find", "rows", "run_sql", "run_together"}


def is_rows(node: ast.expr) -> bool:
    """Whether an expression is a row or a list of rows, by its name or by the method that returns it."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in ROWS
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in RETURN_ROWS
        case ast.Subscript(value=value):
            return is_rows(value)
        case _:
            return False


def is_position(node: ast.expr) -> bool:
    """Whether an index is a number or a slice."""
    if isinstance(node, ast.UnaryOp):
        node = node.operand
    return isinstance(node, ast.Slice) or (isinstance(node, ast.Constant) and isinstance(node.value, int))


def positions(source: str) -> list[int]:
    """The lines of a module that read a column, or a row of a list, by its number."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Subscript) and is_position(node.slice) and is_rows(node.value)
    ]


def test_no_module_of_the_store_reads_columns_by_number() -> None:
    modules = [path for path in STORE.rglob("*.py") if path.relative_to(STORE).parts[0] not in NOT_YET]
    found = [f"{path.relative_to(STORE)}:{line}" for path in modules for line in positions(path.read_text())]
    assert len(modules) > 40
    assert found == []


@pytest.mark.parametrize(
    "code",
    ["row[3]", "row[-5]", "row[14:19]", "rows[0][0]", "one.row[1]", "tx.run('x')[0][0]", "row[:3]"],
)
def test_a_number_is_found(code: str) -> None:
    assert positions(code) != []


@pytest.mark.parametrize("code", ["row['id']", "row.job_id", "values[0]", "rows.index(1)"])
def test_a_name_is_not_found(code: str) -> None:
    assert positions(code) == []
