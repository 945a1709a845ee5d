"""Finds every regular expression of the package, and measures how the time of matching grows with the text.

`python -m tests.core.patterns` reads cases from its standard input, one JSON object on a line, and answers each with a
line of its own. It is a process of its own, because a match cannot be interrupted: the caller kills it.
"""

from __future__ import annotations

import ast
import importlib
import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import tickwork

PACKAGE = Path(tickwork.__file__).parent
CALLS = frozenset({"compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"})
WALKS = CALLS - {"compile", "match", "fullmatch"}  # these look at each place of a text; one walk stands for them
LENGTHS = (64, 512, 4096)  # how often a pump is repeated: three times twice as often from each to the next
GROWTH = 2.0**1.5  # for twice the text, on average: 2 is linear, 4 is quadratic
LONG_S = 0.001  # a time that can be compared with another one


@dataclass
class Found:
    """A regular expression of the package. `names` are all that it is known by: a constant, or where it stands."""

    name: str
    text: str | bytes
    flags: int
    uses: set[str] = field(default_factory=set)


@cache
def all_patterns() -> list[Found]:
    """Every pattern that is compiled, or given to a function of `re`, or to msgspec.Meta, anywhere in the package."""
    modules = [_Module(path) for path in sorted(PACKAGE.rglob("*.py"))]
    constants = {(one.name, constant): found for one in modules for constant, found in one.constants.items()}
    for module in modules:
        for constant, use in module.uses:
            home = module.imported.get(constant, (module.name, constant))
            if home in constants:
                constants[home].uses.add(use)
    return [*constants.values(), *(found for one in modules for found in one.inline)]


class _Module:
    """The patterns of one module, and its uses of those that are constants."""

    def __init__(self, path: Path) -> None:
        self.name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
        self.constants: dict[str, Found] = {}
        self.inline: list[Found] = []
        self.uses: list[tuple[str, str]] = []
        self.imported: dict[str, tuple[str, str]] = {}
        self._named_calls: set[ast.Call] = set()
        self._read(ast.parse(path.read_text()))

    def _read(self, tree: ast.Module) -> None:
        scopes = _scopes(tree)
        for node in ast.walk(tree):  # from the outside in: a constant is met before the call that is its value
            match node:
                case ast.ImportFrom(module="re"):
                    raise AssertionError(f"{self.name}: write `import re`; other spellings are not found here")
                case ast.Import(names=names) if any(one.name == "re" and one.asname for one in names):
                    raise AssertionError(f"{self.name}: write `import re`; other spellings are not found here")
                case ast.ImportFrom(module=str(source), names=names):
                    self.imported.update({one.asname or one.name: (source, one.name) for one in names})
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call) if _called(call) == "compile":
                    self.constants[name] = self._found(name, call)
                    self._named_calls.add(call)
                case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=use)) if name != "re" and use in CALLS:
                    self.uses.append((name, use))
                case ast.Call() as call if call not in self._named_calls:
                    self._note(call, scopes.get(call, "module"))

    def _note(self, call: ast.Call, scope: str) -> None:
        """Note a pattern that has no name of its own."""
        name = _called(call)
        if name == "compile":
            raise AssertionError(f"{self.name}: give the pattern in {scope} a name at the top of the module")
        if name is not None:
            found = self._found(scope, call)
            found.uses.add(name)
            self.inline.append(found)
        for keyword in call.keywords:
            if keyword.arg == "pattern":
                self.inline.append(Found(self._called(scope), self._value(keyword.value), 0, {"search"}))

    def _called(self, name: str) -> str:
        return f"{self.name.removeprefix('tickwork.')}:{name}"

    def _found(self, name: str, call: ast.Call) -> Found:
        place = {"compile": 1, "sub": 4, "subn": 4, "split": 3}.get(str(_called(call)), 2)
        given = [*call.args[place:], *(one.value for one in call.keywords if one.arg == "flags")]
        return Found(self._called(name), self._value(call.args[0]), int(self._value(given[0])) if given else 0)

    def _value(self, expression: ast.expr) -> Any:
        """Evaluate an expression of constants of the module."""
        try:
            known = vars(importlib.import_module(self.name))
            return eval(compile(ast.Expression(expression), self.name, "eval"), known)  # noqa: S307
        except NameError as error:
            raise AssertionError(f"{self.name}: a pattern is made of what is no constant: {error}") from None


def _called(call: ast.Call) -> str | None:
    """The function of `re` that is called, if it is one."""
    match call.func:
        case ast.Attribute(value=ast.Name(id="re"), attr=name) if name in CALLS:
            return name
    return None


def _scopes(tree: ast.Module) -> dict[ast.AST, str]:
    """The function or the constant that each node stands in, outermost first."""
    found: dict[ast.AST, str] = {}

    def visit(node: ast.AST, scope: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = scope
            match child:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    inner = f"{scope}.{name}" if scope else name
                case ast.Assign(targets=[ast.Name(id=name)]) if not scope:
                    inner = name
            found[child] = inner or "module"
            visit(child, inner)

    visit(tree, "")
    return found


# ---- measuring ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pump:
    """A text that a pattern may be slow with: `pump` any number of times between a beginning and an end."""

    pump: str
    before: str = ""
    after: str = "\n!"

    def text(self, times: int) -> str:
        return f"{self.before}{self.pump * times}{self.after}"


def cases_of(found: Found, pump: Pump) -> Iterator[dict[str, Any]]:
    """The uses of a pattern to measure."""
    is_bytes = isinstance(found.text, bytes)
    text = found.text.decode("latin-1") if isinstance(found.text, bytes) else found.text
    for use in sorted({"walk" if one in WALKS else one for one in found.uses}):
        yield {
            "name": found.name,
            "use": use,
            "text": text,
            "flags": found.flags,
            "bytes": is_bytes,
            "pump": [pump.pump, pump.before, pump.after],
        }


def grows_linearly(match: Callable[[str], object], pump: Pump) -> bool:
    """Whether twice the text takes about twice the time, measured over three doublings at once.

    It is the time of the processor, and the best of several tries: what else the machine does hardly shows.
    """
    return all(_is_linear(match, pump.text(times), pump.text(more)) for times, more in pairwise(LENGTHS))


def _is_linear(match: Callable[[str], object], short: str, long: str) -> bool:
    for _ in range(5):
        once = _best(match, short)  # in any case: a pattern may refuse the longer text for its length alone
        more = _best(match, long)
        if more < LONG_S or more < GROWTH**3 * once:
            return True
    return False


def _best(match: Callable[[str], object], text: str) -> float:
    took = []
    for _ in range(3):
        began = time.thread_time()
        match(text)
        took.append(time.thread_time() - began)
    return min(took)


def _matcher(case: dict[str, Any]) -> Callable[[str], object]:
    text = case["text"].encode("latin-1") if case["bytes"] else case["text"]
    pattern = re.compile(text, case["flags"])
    use = partial(_walked, pattern) if case["use"] == "walk" else getattr(pattern, case["use"])
    return (lambda given: use(given.encode())) if case["bytes"] else use


def _walked(pattern: re.Pattern[Any], text: Any) -> int:
    return sum(1 for _ in pattern.finditer(text))


def main() -> None:
    for line in sys.stdin:
        case = json.loads(line)
        print(json.dumps(grows_linearly(_matcher(case), Pump(*case["pump"]))), flush=True)


if __name__ == "__main__":
    main()
