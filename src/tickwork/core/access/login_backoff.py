"""Login backoff: growing delays after failed logins, by user name and by address.

An attempt is counted as failed before its password is checked; a correct password clears the count. So concurrent
guesses cannot exceed the limit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

FREE_OF_NAME = 5
FREE_OF_ADDRESS = 20
CAP_S = 300.0  # bounds for how long failed logins under another user's name can lock out that user
FORGOTTEN_S = 3600.0


class FailedLogins(NamedTuple):
    """The counted failures of a name or an address, and its remaining delay."""

    subject: str
    failures: int
    wait_s: float


class BackoffUpdate(NamedTuple):
    """The failures and the delay to store for a name or an address."""

    subject: str
    failures: int
    pause_s: float


def pause_s(failures: int, free: int) -> float:
    """Return the delay in seconds after `failures` failures: none for the first, then 1, 2, 4, ... up to CAP_S."""
    if failures < free:
        return 0.0
    return float(min(CAP_S, 2.0 ** min(failures - free, 30)))


def admit(known: Sequence[FailedLogins], free: Mapping[str, int]) -> tuple[float, list[BackoffUpdate]]:
    """Return the remaining delay of a login, and the failures to store if the login may proceed.

    `free` maps each name and address to its number of failures without delay.
    """
    wait_s = max((one.wait_s for one in known), default=0.0)
    if wait_s > 0:
        return wait_s, []
    failures = {one.subject: one.failures for one in known}
    counts = {subject: failures.get(subject, 0) + 1 for subject in free}
    return 0.0, [BackoffUpdate(subject, count, pause_s(count, free[subject])) for subject, count in counts.items()]
