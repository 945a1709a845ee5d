"""Draw the behaviour of a simulated handler in one attempt from the nature of its job, reproducibly."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal

End = Literal["ok", "fail", "fatal", "retry", "snooze", "cancel", "die", "hang", "transaction", "ruin"]
Step = Literal["log", "progress", "save", "load", "spawn"]

# The ends of handlers of each nature, with weights. Every job ends: this module limits snoozes, the product crashes.
NATURES: dict[str, dict[End, int]] = {
    "calm": {"ok": 20, "fail": 1},
    "flaky": {"ok": 2, "fail": 2, "retry": 1},
    "doomed": {"fail": 8, "fatal": 1},
    "sleepy": {"ok": 2, "snooze": 3},
    "quitter": {"cancel": 1, "ok": 1},
    "deadly": {"die": 3, "ok": 2},
    "hanging": {"hang": 3, "ok": 2},
    "accountant": {"transaction": 5, "fail": 1},
    "ruinous": {"ruin": 1},  # it kills its whole worker, each time
}
_MOST_SNOOZES = 8
_STEPS: tuple[Step, ...] = ("log", "log", "progress", "save", "load", "spawn")


@dataclass(frozen=True, slots=True)
class Script:
    """The behaviour of a handler: evenly spaced steps, then its end. A stubborn handler cannot be interrupted."""

    takes_s: float
    steps: tuple[Step, ...]
    end: End
    after_s: float
    stubborn: bool
    listens: bool  # it checks whether it was cancelled


def draw_script(rng: Random, nature: str, attempt: int, timeout_s: float | None, longest_s: float) -> Script:
    """Draw the behaviour of a handler in one attempt."""
    weights = NATURES[nature]
    end = rng.choices(list(weights), list(weights.values()))[0]
    if (end == "snooze" and attempt > _MOST_SNOOZES) or (end == "hang" and timeout_s is None):
        end = "ok"
    shortest_s = 0.001
    takes_s = shortest_s * (longest_s / shortest_s) ** rng.random()
    steps = tuple(rng.choice(_STEPS) for _ in range(rng.choice((0, 0, 1, 1, 3))))
    return Script(takes_s, steps, end, rng.choice((0.0, 0.5, 3.0)), rng.random() < 0.1, rng.random() < 0.5)
