"""An even pace with some slack, kept in one number (the generic cell rate algorithm).

The *arrival* is when the next start would be due if all came evenly. One may come `burst` intervals ahead of it, and
each start moves it on by an interval for each unit of weight. So of starts at s1 <= s2 <= ..., the k-th lies no earlier
than `s1 + (k - 1 - burst) * interval`: in any stretch of n intervals there are at most n + burst, whatever was done
before.
"""

from __future__ import annotations


def settled(arrival_us: int, interval_us: int, burst: int, now_us: int) -> int:
    """Return the arrival, but no further ahead than it is right after a whole burst.

    It is further only after the pace was raised or the clock was set back, and nobody shall wait for the old one then.
    """
    return min(arrival_us, now_us + (burst + 1) * interval_us)


def opens_at_us(arrival_us: int, weight: int, interval_us: int, burst: int) -> int:
    """Return the first instant at which `weight` units may start, if weight is at most burst + 1."""
    return arrival_us + (weight - 1 - burst) * interval_us


def arrival_after(arrival_us: int, weight: int, interval_us: int, now_us: int) -> int:
    """Return the arrival after `weight` units have started. Time in which nothing started is not saved up."""
    return max(arrival_us, now_us) + weight * interval_us


def room(arrival_us: int, interval_us: int, burst: int, now_us: int) -> int:
    """Return how many units may start now."""
    ahead_us = max(arrival_us, now_us) - now_us
    return max(0, (burst * interval_us - ahead_us) // interval_us + 1)
