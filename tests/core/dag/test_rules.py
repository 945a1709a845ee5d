"""When a step may run, given how its parents ended: the whole table."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest

from tickwork.core.dag.graph import RunIf
from tickwork.core.dag.join import Ending, judge

S, F, K = "succeeded", "failed", "skipped"
RUNS = None

TABLE: dict[str, dict[str, Ending | None]] = {
    "all_succeeded": {
        "": RUNS,
        S: RUNS,
        F: Ending.FAILED,
        K: Ending.SKIPPED,
        S + F: Ending.FAILED,
        S + K: Ending.SKIPPED,
        F + K: Ending.FAILED,
        S + F + K: Ending.FAILED,
    },
    "none_failed": {
        "": RUNS,
        S: RUNS,
        F: Ending.FAILED,
        K: RUNS,
        S + F: Ending.FAILED,
        S + K: RUNS,
        F + K: Ending.FAILED,
        S + F + K: Ending.FAILED,
    },
    "any_succeeded": {
        "": Ending.SKIPPED,
        S: RUNS,
        F: Ending.FAILED,
        K: Ending.SKIPPED,
        S + F: RUNS,
        S + K: RUNS,
        F + K: Ending.FAILED,
        S + F + K: RUNS,
    },
    "any_failed": {
        "": Ending.SKIPPED,
        S: Ending.SKIPPED,
        F: RUNS,
        K: Ending.SKIPPED,
        S + F: RUNS,
        S + K: Ending.SKIPPED,
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
