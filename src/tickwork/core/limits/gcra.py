"""Generic cell rate algorithm (GCRA): a rate limit with a burst, kept in one number.

The *arrival* is the instant at which the next start would be due if all starts came evenly. A start may come up to
`burst` intervals ahead of it, and moves it on by one interval for each unit of weight. For starts at s1 <= s2 <= ...,
the k-th is therefore no earlier than `s1 + (k - 1 - burst) * interval`: in any stretch of n intervals there are at most
n + burst starts, whatever happened before.
"""

from __future__ import annotations


def settled(arrival_us: int, interval_us: int, burst: int, now_us: int) -> int:
    """Return the arrival, but no further ahead than it is right after a full burst.

    It is further ahead only after the rate was raised or the clock was set back, and jobs must not wait for the old
    rate then.
    """
    return min(arrival_us, now_us + (burst + 1) * interval_us)


def opens_at_us(arrival_us: int, weight: int, interval_us: int, burst: int) -> int:
    """Return the first instant at which `weight` units may start. `weight` is at most burst + 1."""
    return arrival_us + (weight - 1 - burst) * interval_us


def arrival_after(arrival_us: int, weight: int, interval_us: int, now_us: int) -> int:
    """Return the arrival after `weight` units have started. Time in which nothing started is not saved up."""
    return max(arrival_us, now_us) + weight * interval_us


def room(arrival_us: int, interval_us: int, burst: int, now_us: int) -> int:
    """Return how many units may start now."""
    ahead_us = max(arrival_us, now_us) - now_us
    return max(0, (burst * interval_us - ahead_us) // interval_us + 1)
