"""Decide whether a step may run, from how its parents ended. Called once, when all parents have ended.

An end counts as succeeded, failed or skipped. Failed covers every reason why a step did not do its work: failed,
expired, cancelled, dropped, and skipped because a step upstream failed. A step that a branch or its own rule skipped
counts as skipped.
"""

from __future__ import annotations

from enum import StrEnum

from tickwork.core.dag.graph import RunIf


class StepEnd(StrEnum):
    """How the end of a step counts for its children."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"


def judge(run_if: RunIf, succeeded: int, failed: int, skipped: int) -> StepEnd | None:
    """Return None if a step may run, else how its skip counts for its children.

    `succeeded`, `failed` and `skipped` are the numbers of its parents that ended in that way.
    """
    match run_if:
        case "all_done" | "always":
            return None
        case "any_failed":
            return None if failed else StepEnd.SKIPPED
        case "any_succeeded":
            may_run = succeeded > 0
        case "none_failed":
            may_run = failed == 0
        case "all_succeeded":
            may_run = failed == 0 and skipped == 0
    if may_run:
        return None
    return StepEnd.FAILED if failed else StepEnd.SKIPPED
