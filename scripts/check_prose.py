"""Refuse phrases that a technical writer would not write, in comments, docstrings, Markdown, SQL and texts of the UI.

    python scripts/check_prose.py [PATH ...]      all tracked files by default; exits 1 and prints each place

The list is short on purpose: a pattern is here only if it is wrong nearly always. Code in backticks is not read.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Pattern(NamedTuple):
    """A phrase to refuse, the reason, and words to write instead."""

    phrase: str
    reason: str
    instead: str


SENTENCE = r"(?:^|[.:;?!] )"  # where one begins
PATTERNS = (
    Pattern(
        r"(?<!run-as )\b(?:[Ww]hoever|[Ss]omebody|[Nn]obody|[Aa]nybody)\b",
        "the reader does not learn who acts",
        "a caller, another worker, no user, ...",
    ),
    Pattern(
        r"\b[Ss]o (?:many|much)\b(?! (?:that|as)\b)", "the amount has no name", "its name or its unit: `limit` jobs"
    ),
    Pattern(
        SENTENCE + r"(?:(?:One|Those|Such|These) (?:that|which|who)|Those of)\b",
        "a pronoun is the subject",
        "the noun again: Jobs that ...",
    ),
    Pattern(r"\b[Ss]t(?:and|ands|ood) (?:there|where|aside)\b", "things do not stand", "is, follows, is stored in"),
    Pattern(r"\b(?:let|lets|letting) go\b", "an idiom", "release, discard, close"),
    Pattern(r"\bin vain\b", "an idiom", "without effect, finds nothing"),
    Pattern(r"\b(?:put|puts|putting) aside\b", "an idiom", "park, keep"),
    Pattern(r"\bby turns\b", "an idiom", "alternately"),
    Pattern(r"\b(?:is|are) said to\b", "the reader does not learn who says it", "the source: the store reports ..."),
    Pattern(r"\b(?:to be had|had of|comes? by)\b", "an idiom", "available, get, arrive"),
    Pattern(r"\b(?:anew|afresh)\b", "an archaic word", "again"),
    Pattern(r"\b(?:thereof|wherein|whereof|henceforth|lest)\b", "an archaic word", "of it, in which, so that ... not"),
    Pattern(r"\b(?:at|in) one go\b", "an idiom", "in one call, in one transaction, at once"),
)
COMPILED = [(re.compile(pattern.phrase), pattern) for pattern in PATTERNS]
CODE = re.compile(r"``?[^`]*`?`|https?://\S+")
SUFFIXES = (".py", ".md", ".sql", ".js", ".html")
SKIPPED = ("/vendor/", "CHANGELOG")


def python_prose(text: str) -> Iterator[tuple[int, str]]:
    """Yield the comments and the docstrings, with their line numbers."""
    yield from _comments(text)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                yield from _lines(first.value)


def shipped_python_prose(text: str) -> Iterator[tuple[int, str]]:
    """Yield the comments and all strings: messages to users are among them."""
    yield from _comments(text)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield from _lines(node)


def _comments(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")


def _lines(constant: ast.Constant) -> Iterator[tuple[int, str]]:
    yield from enumerate((line.strip() for line in str(constant.value).split("\n")), constant.lineno)


def markdown_prose(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines outside of code blocks."""
    fenced = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, line.strip()


def sql_prose(text: str) -> Iterator[tuple[int, str]]:
    """Yield the comments of lines."""
    for number, line in enumerate(text.split("\n"), 1):
        _, dashes, comment = line.partition("--")
        if dashes:
            yield number, comment.strip()


def ui_prose(text: str) -> Iterator[tuple[int, str]]:
    """Yield all lines: the phrases are no words of JavaScript."""
    yield from enumerate((line.strip(" /*") for line in text.split("\n")), 1)


READERS = {".py": python_prose, ".md": markdown_prose, ".sql": sql_prose, ".js": ui_prose, ".html": ui_prose}


def problems(name: str, text: str) -> Iterator[str]:
    """Yield a line for each refused phrase of a file."""
    reader = shipped_python_prose if name.startswith("src/") and name.endswith(".py") else READERS[Path(name).suffix]
    for number, line in reader(text):
        prose = CODE.sub("`", line)
        for compiled, pattern in COMPILED:
            if found := compiled.search(prose):
                phrase = found[0].strip(" .:;?!")
                yield f"{name}:{number}: {phrase!r}: {pattern.reason}. Write: {pattern.instead}"


def tracked(paths: list[str]) -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z", "--", *paths], capture_output=True, text=True, check=True).stdout
    names = [name for name in listed.split("\0") if name.endswith(SUFFIXES) and Path(name).exists()]
    return [name for name in names if not any(part in name for part in SKIPPED)]


def main(paths: list[str]) -> int:
    found = [line for name in tracked(paths) for line in problems(name, Path(name).read_text(encoding="utf-8"))]
    print("\n".join(found) or "The prose has none of the refused phrases.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
