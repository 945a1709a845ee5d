"""Steps with large results, for workers that these tests start."""

from typing import Any

from tickwork import Tickwork

app = Tickwork()
MB = 1_000_000


@app.task
def make(n: int, size: int) -> str:
    return chr(97 + n % 26) * size


@app.task
def count(texts: list[str]) -> list[int]:
    return [len(texts), sum(map(len, texts))]


@app.task
def listed(n: int) -> list[dict[str, str]]:
    return [{"id": str(i), "text": "x" * 1000} for i in range(n)]


@app.task
def number(row: dict[str, str], size: int) -> int:
    return int(row["id"]) + size


@app.task
async def length(text: str) -> int:
    return len(text)


@app.dag
def small_parts() -> Any:
    """64 MB of arguments, none of it in a blob."""
    return count(make.map(list(range(64)), size=MB))


@app.dag
def large_parts() -> Any:
    """64 MB of arguments, all of it in blobs."""
    return count(make.map(list(range(16)), size=4 * MB))


@app.dag
def mixed() -> Any:
    rows = listed(3000)
    numbers = number.map(rows, size=length(rows[7]["text"]))
    return {"numbers": numbers, "whole": make(5, 2 * MB), "length": length(f"{rows[12]['id']} and {rows[13]['id']}")}
