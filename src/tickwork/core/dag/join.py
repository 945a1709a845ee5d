"""When a step may run, given how its parents ended: judged once, when all of them have.

An end is one of three: succeeded, failed, or skipped. Failed counts for whatever kept a step from its work: failed,
expired, cancelled, dropped, and skipped because something upstream failed. A step that a branch or a rule skipped
counts as skipped.
"""

from __future__ import annotations

from enum import StrEnum

from tickwork.core.dag.graph import RunIf


class StepEnd(StrEnum):
    """What an end counts for, for those who wait for it."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"


def judge(run_if: RunIf, succeeded: int, failed: int, skipped: int) -> StepEnd | None:
    """None: the step may run. Otherwise it is skipped, and counts for this; with so many parents that ended so."""
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
