"""Blocks in a dag: conditions, branches, groups, teardowns, approvals by people, and loops.

Loops are bounded, so every round is recorded as steps. `this_run` has references to the schedule occurrence of a run,
for use in the function of a dag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from typing import Any, Literal

import msgspec

from tickwork.core.arguments.unstorable import brief
from tickwork.core.dag.graph import (
    ApprovalStep,
    Condition,
    JsonTemplate,
    Last,
    Placeholder,
    Result,
    RunIf,
    RunValue,
    Text,
)
from tickwork.core.option_parsing import read_text, read_whole
from tickwork.core.text.duration import parse_duration
from tickwork.dag_builder.record_steps import Trace, needed_trace
from tickwork.dag_builder.references import (
    ComparedReference,
    Reference,
    condition_of,
    described,
    known_value,
    negated,
    owned,
)
from tickwork.dag_builder.steps import NO_STEP, GroupRef, StepDraft, StepRef, beginning, drafts_of
from tickwork.errors import InvalidOption

NEVER = Condition(Text(()))  # an empty text is false
TEXT_LIMIT = 4000


class If:
    """A `with` block whose steps run only if a condition holds; otherwise they are skipped."""

    def __init__(self, trace: Trace, holds: tuple[Condition, ...], fails: tuple[Condition, ...]) -> None:
        self._trace = trace
        self._holds = holds
        self._fails = fails
        self._open: list[AbstractContextManager[None]] = []

    @property
    def otherwise(self) -> If:
        """The block for the opposite condition: `with if_(count > 10) as many: ...` and `with many.otherwise: ...`."""
        return If(self._trace, self._fails, self._holds)

    def __enter__(self) -> If:
        block = self._trace.demanding(*self._holds)
        block.__enter__()
        self._open.append(block)
        return self

    def __exit__(self, *error: Any) -> None:
        self._open.pop().__exit__(*error)


def if_(condition: Any) -> If:
    """Run the steps of a `with` block only if a condition holds, which is evaluated when the dag runs.

        with if_(count["rows"] > 1000) as many:
            notify("a large one")
        with many.otherwise:
            notify("as usual")

    A reference alone holds if its value is true in Python's sense. The conditions of nested blocks must all hold. Steps
    that do not run are skipped, and so are the steps that wait for them, unless their `run_if` is "none_failed" or
    another rule that accepts skipped steps.
    """
    trace = needed_trace("if_(...)")
    found = condition_of(trace.origin, condition)
    if isinstance(found, bool):
        return If(trace, () if found else (NEVER,), (NEVER,) if found else ())
    return If(trace, (found,), (negated(found),))


def branch(value: Any, steps: Mapping[Any, Any], *, otherwise: Any = None) -> None:
    """Run one of several steps, chosen by a value that is known when the dag runs.

        branch(region(order), {"eu": ship_eu(order), "us": ship_us(order)}, otherwise=[ask(order), hold(order)])

    Each value selects a step, a list of steps, a group or a nested dag; a step may be listed under several values.
    Steps that wait for steps that were not chosen are skipped too, unless their `run_if` is "none_failed".
    """
    trace = needed_trace("branch(...)")
    if not isinstance(value, Reference):
        raise trace.origin.refusal(f"branch(...) goes by a reference, and {brief(value)} is known already")
    chosen: dict[str, tuple[StepDraft, list[Any]]] = {}
    keys = [known_value(trace.origin, key) for key in steps]
    for key, named in zip(keys, steps.values(), strict=True):
        for draft in drafts_of(trace.origin, named, f"branch(...) under {key!r}"):
            chosen.setdefault(draft.name, (draft, []))[1].append(key)
    expression = owned(trace.origin, value)._value
    for draft, under in chosen.values():
        draft.demand(Condition(expression, "==", under[0]) if len(under) == 1 else Condition(expression, "in", under))
    for draft in [] if otherwise is None else drafts_of(trace.origin, otherwise, "branch(..., otherwise=)"):
        draft.demand(Condition(expression, "not in", keys))


@contextmanager
def group(name: str) -> Iterator[GroupRef]:
    """Show some steps together, and order them as a unit: `with group("load") as loading: ...`, `a >> loading`.

    The names of the steps do not change.
    """
    trace = needed_trace("group(...)")
    with trace.grouped(read_text("the name of a group", name)) as drafts:
        yield GroupRef(trace.origin, name, drafts)


@contextmanager
def teardown(step: Any) -> Iterator[Any]:
    """Run a cleanup step after other steps, however they end, also when the run is cancelled.

        cluster = create_cluster()
        with teardown(delete_cluster(cluster)):
            train(cluster)

    The steps that `step` waits for are its setup: the steps of the block run after them, and the teardown runs only if
    they succeeded. It waits for all steps of the block.
    """
    trace = needed_trace("teardown(...)")
    if not isinstance(step, StepRef) or step._tolerant:
        raise trace.origin.refusal(f"teardown(...) takes one step, not {brief(step)}")
    (last,) = owned(trace.origin, step)._drafts
    if last.tolerant:
        raise trace.origin.refusal(f"step {last.name!r} tears down after a loop or a group. Have one step set up")
    setup = list(last.parents)
    last.run_if = last.run_if or "always"
    with trace.collecting() as drafts:
        yield step
    for draft in beginning(drafts):
        draft.wait_for(setup)
    for name in setup:
        last.demand(Condition(Result(name), "succeeded"))
    last.wait_for(draft.name for draft in drafts)


def approve(
    text: str,
    *,
    who: str | Sequence[str] = (),
    timeout: str | timedelta | None = None,
    default: Literal["approve", "reject"] = "reject",
    name: str | None = None,
    run_if: RunIf | None = None,
    may_fail: bool = False,
) -> Any:
    """Add a step that a person ends: `approve(f"Delete {count} rows?", who=["ada"], timeout="2h") >> delete(rows)`.

    `who` limits the users that may answer; by default any user may. After `timeout` the answer is `default`. The step
    holds no slot while it waits. `name`, `run_if` and `may_fail` are as in the options of other steps.
    """
    trace = needed_trace("approve(...)")
    if default not in {"approve", "reject"}:
        raise InvalidOption(f"default of an approval must be 'approve' or 'reject', not {brief(default)}.")
    said = trace.origin.read(_approval_text(text))
    approval = ApprovalStep(
        text=said if isinstance(said, str) else _shown(said),
        who=tuple(read_text("who", one) for one in ([who] if isinstance(who, str) else who)),
        timeout=None if timeout is None else parse_duration(timeout, what="timeout"),
        default=default,
    )
    args = JsonTemplate(msgspec.Raw(b"{}"))
    if isinstance(said, Text):
        args = JsonTemplate(msgspec.Raw(b'{"text":null}'), (Placeholder(("text",), said),))
    step = NO_STEP.updated({"name": name, "run_if": run_if, "may_fail": may_fail})
    return trace.add("approve", step, args, approval=approval)


def _approval_text(text: Any) -> str:
    """Return the question of an approval as a text. Raises InvalidOption if it is empty or too long."""
    if isinstance(text, Reference | ComparedReference):
        text = f"{text}"
    if not isinstance(text, str) or not text or len(text) > TEXT_LIMIT:
        raise InvalidOption(f"an approval asks a text of 1 to {TEXT_LIMIT:,} characters, not {brief(text)}.")
    return text


def _shown(text: Text) -> str:
    return "".join(part if isinstance(part, str) else f"<{described(part)}>" for part in text.parts)


MOST_ROUNDS = 1000


def loop(body: Callable[[Any], Any], start: Any, *, until: Callable[[Any], Any], max: int = 10) -> Any:
    """Call a task or a dag on its own result, until a condition holds or `max` rounds are done.

        page = loop(fetch_page, {"next": 1}, until=lambda page: page["next"] == None, max=50)

    The first round gets `start`. The loop's result is the result of the last round that ran. Rounds that are not needed
    are skipped; steps that use the result run nevertheless.
    """
    trace = needed_trace("loop(...)")
    rounds = read_whole("max of a loop", max, 1, MOST_ROUNDS)
    results: list[Result] = []
    value = start
    with trace.grouped(trace.name("loop").rpartition(".")[2]) as drafts:
        for _ in range(rounds):
            with trace.demanding(_goes_on(trace, until(value))) if results else nullcontext():
                value = body(value)
            results.append(_result(trace, value))
    if len({result.path for result in results}) > 1:
        raise trace.origin.refusal("the rounds of a loop return different parts of their results")
    last = Last(tuple(result.step for result in results), results[0].path)
    return StepRef(trace.origin, last, drafts, tolerant=True)


def _goes_on(trace: Trace, until: Any) -> Condition:
    """Return the condition for another round: the opposite of `until`."""
    condition = condition_of(trace.origin, until)
    if isinstance(condition, bool):
        raise trace.origin.refusal(f"until of a loop looks at the result of a round; it gave {brief(until)}")
    return negated(condition)


def _result(trace: Trace, value: Any) -> Result:
    """Return the result expression of a round. Raises InvalidDag if the body does not return a step's result."""
    if isinstance(value, Reference) and isinstance(found := owned(trace.origin, value)._value, Result):
        return found
    raise trace.origin.refusal(f"a round of a loop returns the result of a step, not {brief(value)}")


def _value(doc: str, *path: str) -> Any:
    """Return a property whose value refers to a value of the run that is being traced."""

    def refer(self: ThisRun) -> Any:
        return Reference(needed_trace("this_run").origin, RunValue(path))

    refer.__doc__ = doc
    return property(refer)


class ThisRun:
    """References to the occurrence of a run: `load(day=this_run.scheduled_for)` inside of `@app.dag`.

    Instants are texts such as "2026-11-17T02:00:00Z"; a task whose parameter is a `datetime` receives a `datetime`.
    """

    __slots__ = ()

    scheduled_for = _value("The occurrence; of a run that no schedule started, when it was due.", "scheduled_for")
    schedule = _value("The name of the schedule; None without one.", "schedule")
    is_catchup = _value("Whether the occurrence was missed and caught up with, or backfilled.", "is_catchup")
    interval_from = _value("Where its period begins: at the occurrence before it, if any.", "interval", "from")
    interval_to = _value("Where its period ends: at the occurrence, if it has a period.", "interval", "to")


this_run = ThisRun()
