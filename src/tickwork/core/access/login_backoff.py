"""How long logins have to wait after failures: longer each time, for a name and for an address.

A try is counted as a failure before the password is looked at, and forgiven when it was right: so no number of
guesses at once goes past the bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

FREE_OF_NAME = 5
FREE_OF_ADDRESS = 20
CAP_S = 300.0  # whoever fails under another's name can keep them out for no longer at a time
FORGOTTEN_S = 3600.0


class FailedLogins(NamedTuple):
    """What is known of a name or an address: failures that are not forgotten, and the wait that is left."""

    subject: str
    failures: int
    wait_s: float


class BackoffUpdate(NamedTuple):
    """What is to be known of it from now on."""

    subject: str
    failures: int
    pause_s: float


def pause_s(failures: int, free: int) -> float:
    """The wait after so many failures: none for the first ones, then 1, 2, 4, ... seconds."""
    if failures < free:
        return 0.0
    return float(min(CAP_S, 2.0 ** min(failures - free, 30)))


def admit(known: Sequence[FailedLogins], free: Mapping[str, int]) -> tuple[float, list[BackoffUpdate]]:
    """How long a login has to wait, and what is counted when it has not to. `free`: the first failures of each."""
    wait_s = max((one.wait_s for one in known), default=0.0)
    if wait_s > 0:
        return wait_s, []
    failures = {one.subject: one.failures for one in known}
    counts = {subject: failures.get(subject, 0) + 1 for subject in free}
    return 0.0, [BackoffUpdate(subject, count, pause_s(count, free[subject])) for subject, count in counts.items()]
