"""When a step may run, given how its parents ended: the whole table."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest

from tickwork.core.dag.advance import StepEnd, judge
from tickwork.core.dag.graph import RunIf

S, F, K = "succeeded", "failed", "skipped"
RUNS = None

TABLE: dict[str, dict[str, StepEnd | None]] = {
    "all_succeeded": {
        "": RUNS,
        S: RUNS,
        F: StepEnd.FAILED,
        K: StepEnd.SKIPPED,
        S + F: StepEnd.FAILED,
        S + K: StepEnd.SKIPPED,
        F + K: StepEnd.FAILED,
        S + F + K: StepEnd.FAILED,
    },
    "none_failed": {
        "": RUNS,
        S: RUNS,
        F: StepEnd.FAILED,
        K: RUNS,
        S + F: StepEnd.FAILED,
        S + K: RUNS,
        F + K: StepEnd.FAILED,
        S + F + K: StepEnd.FAILED,
    },
    "any_succeeded": {
        "": StepEnd.SKIPPED,
        S: RUNS,
        F: StepEnd.FAILED,
        K: StepEnd.SKIPPED,
        S + F: RUNS,
        S + K: RUNS,
        F + K: StepEnd.FAILED,
        S + F + K: RUNS,
    },
    "any_failed": {
        "": StepEnd.SKIPPED,
        S: StepEnd.SKIPPED,
        F: RUNS,
        K: StepEnd.SKIPPED,
        S + F: RUNS,
        S + K: StepEnd.SKIPPED,
        F + K: RUNS,
        S + F + K: RUNS,
    },
    "all_done": dict.fromkeys(("", S, F, K, S + F, S + K, F + K, S + F + K), RUNS),
    "always": dict.fromkeys(("", S, F, K, S + F, S + K, F + K, S + F + K), RUNS),
}


def test_the_table_has_every_rule() -> None:
    assert set(TABLE) == set(get_args(RunIf))


@pytest.mark.parametrize("rule", get_args(RunIf))
@pytest.mark.parametrize(("succeeded", "failed", "skipped"), list(product(range(3), repeat=3)))
def test_a_rule_is_judged_by_the_kinds_of_endings_whatever_their_number(
    rule: RunIf, succeeded: int, failed: int, skipped: int
) -> None:
    kinds = "".join(kind for kind, count in ((S, succeeded), (F, failed), (K, skipped)) if count)
    assert judge(rule, succeeded, failed, skipped) is TABLE[rule][kinds]
