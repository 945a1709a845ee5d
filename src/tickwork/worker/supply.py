"""How jobs of some tasks can be had: by a plain claim or by a search, and how soon again.

A claim walks over whatever stands before the jobs that it may take. Where others' jobs stand there by the ten thousand
that takes long, and the worker does nothing else meanwhile. So after a claim that took longer than what it brought can
explain, the worker searches (see store/search.py), and not in vain all the time.
"""

from __future__ import annotations

LONG_S = 0.005  # a claim that brings nothing takes less
EACH_S = 0.0002  # and so much more for each job that it brings, or end that it stores
SHARE = 30  # what was not found is looked for in at most this part of the time


class Supply:
    """What one worker knows of the tasks that it claims together. `scarce`: they may well be few among others."""

    def __init__(self, *, scarce: bool = False) -> None:
        self._scarce = scarce
        self.searches = False
        self.again_at = 0.0  # not before that

    def claimed(self, began: float, ended: float, found: int, moved: int, *, is_near: bool) -> None:
        """A claim found so many jobs; `moved` are these and the ends that were stored with it."""
        took_s = ended - began
        if self.searches:
            self.searches = not is_near
        else:
            self.searches = took_s > LONG_S + moved * EACH_S
        self.again_at = ended + took_s * SHARE if not found and (self._scarce or self.searches) else 0.0
