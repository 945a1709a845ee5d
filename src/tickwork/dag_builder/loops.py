"""Loops inside of a dag. They are bounded, so every round is recorded as steps."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from tickwork.core.arguments.unstorable import brief
from tickwork.core.dag.graph import Condition, Last, Result
from tickwork.core.option_parsing import read_whole
from tickwork.dag_builder.references import Reference, condition_of, negated, owned
from tickwork.dag_builder.steps import StepRef
from tickwork.dag_builder.trace import Trace, needed_trace

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
