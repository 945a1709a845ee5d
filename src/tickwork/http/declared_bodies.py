"""Read declarations in request bodies with the readers of declaration files; errors have JSON pointers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tickwork.core.text.yaml_loader import YamlDocument
from tickwork.declare.document_nodes import BadFile, Known, Node, Problems, ReadContext, UnusableNode
from tickwork.declare.step_work import request_of
from tickwork.http.framework.problems import Problem, ProblemDetail, pointer_to

Made = TypeVar("Made")


def read_body(fields: dict[str, Any], read: Callable[[Node], Made]) -> Made:
    """Return the result of `read` on the fields of a body. Raises Problem for errors in them."""
    try:
        return read(Node(YamlDocument(fields, {(): 1}, []), (), fields))
    except UnusableNode as misfit:
        pointer = pointer_to(misfit.field.path)
        raise Problem(
            422,
            "invalid",
            f"{pointer or 'the body'}: {misfit} Nothing was stored.",
            faults=[ProblemDetail(str(misfit), pointer=pointer)],
        ) from None
    except BadFile as error:
        raise refused_text(error, lines=False) from None
    except RecursionError:
        raise Problem(422, "invalid", "the body: values are nested too deeply. Nothing was stored.") from None


def request_reader(known: Known) -> Callable[[Node], dict[str, Any]]:
    """Return a function that reads the HTTP request which a schedule sends. The function raises BadFile."""

    def read(place: Node) -> dict[str, Any]:
        problems = Problems("")
        found = request_of(place, ReadContext("", known, problems, {}))
        problems.raise_if_any()
        return found

    return read


def refused_text(error: BadFile, *, lines: bool = True) -> Problem:
    """Return the problem for a text or a body with unreadable parts. With `lines`, each error has its line."""
    faults = [
        ProblemDetail(one.text, pointer=pointer_to(one.path), line=one.line if lines else None)
        for one in error.problems
    ]
    first = faults[0]
    more = f" There {'is 1 more problem' if len(faults) == 2 else f'are {len(faults) - 1} more problems'}."
    place = f"line {first.line}, {first.pointer}" if lines else first.pointer
    said = f"{place or 'the body'}: {first.detail}{more if len(faults) > 1 else ''} Nothing was stored."
    return Problem(422, "invalid", said, faults=faults)
