"""What was seen to be over, so that claims do not walk over it again: read places of the queue, and holds that ended.

PostgreSQL keeps deleted rows until nobody can see them any more. While some session holds an old snapshot that is a
long time, and a claim that begins at the front of the queue walks over all of them. So a claim begins where the one
before it ended: behind the last due job that it took, in the order of the queue. A round of a guarded claim does not
take all that it looks at. The next one begins with the first job that stood there, or a moment ago.

That passes by a job that becomes visible behind the bound. New jobs are queued as of the database's now, so it can only
be one whose transaction took longer to commit than claims took to get there, one that another claim had locked and gave
back, one that a gate diverted, or one that was queued after the database's clock was set back. They are found by a
claim that begins at the front again: one each second, or less often where the way from there took more than a fiftieth
of the time, twice in a row, and at least every 30 s.

What running jobs take of a turnstile are holds, and those that are over are in the way of whoever counts the live ones.
They are numbered as they are taken, under the lock of the limit. So below the first live one nothing will ever live
again, and a count begins there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from math import inf
from typing import NamedTuple

from tickwork.store.claim.types import Place

AGAIN_S = 1.0
LONGEST_S = 30.0
SHARE = 50
PLACES = 1000  # of so many at most it is remembered how far they were read
GROWS = 1.02  # with each claim, what one takes at least may have become so much more
SETTLED_S = 10.0  # a limit is that old before its holds are numbered under its lock alone
KEPT = 20_000  # of so many turnstiles it is remembered which holds are over


class CursorPosition(NamedTuple):
    """A job's place in the order of its lane and priority; the job itself need not be there any more."""

    run_at_us: int
    job_id: str


FRONT = CursorPosition(0, "00000000-0000-0000-0000-000000000000")  # before everything


class ClaimCursor:
    """The bounds of one worker, for one set of tasks."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._reached: dict[Place, CursorPosition] = {}
        self._front_at = monotonic()  # when to begin at the front again
        self._began = self._front_at  # when the claim did that is under way, and whether at the front
        self._at_front = False
        self._least_s = inf  # what a claim takes at least
        self._way_s = 0.0  # what the last way from the front took beyond that
        self._looks_again = False

    def begin(self) -> Mapping[Place, CursorPosition]:
        """Where a claim begins in the places that are known; those read last come last."""
        self._began = self._monotonic()
        self._at_front = self._began >= self._front_at
        return dict.fromkeys(self._reached, FRONT) if self._at_front else self._reached

    def took(self, read: Iterable[tuple[Place, CursorPosition]], *, claimed: bool) -> None:
        """That claim was carried out, and has read places up to these jobs, those of a place in their order."""
        now = self._monotonic()
        took_s = now - self._began
        places = dict(read)
        if self._at_front:
            least_s = 0.0 if self._least_s == inf else self._least_s
            way_s, self._way_s = self._way_s, max(0.0, took_s - least_s)
            # The shorter of two: one may have waited for a lock or the disk, not for its walk.
            self._front_at = now + min(max(AGAIN_S, min(way_s, self._way_s) * SHARE), LONGEST_S)
            self._reached = places
        else:
            self._least_s = min(took_s, self._least_s * GROWS)
            self._reached = {place: one for place, one in self._reached.items() if place not in places} | places
        if len(self._reached) > PLACES:
            self._reached = dict(list(self._reached.items())[-PLACES:])
        self._looks_again = claimed or (bool(self._reached) and not self._at_front)

    def again_s(self) -> float | None:
        """In how many seconds something could be found that this claim passed by; None when it passed by nothing."""
        return max(0.0, self._front_at - self._monotonic()) if self._looks_again else None


class ReleasedHolds:
    """Up to which number all holds of a turnstile are over, as this process has seen it.

    All are counted every 30 s, should the database have been replaced by a copy that knows less. A limit that is new
    to us may be new to all: until then others took holds without its lock.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._since: dict[str, float] = {}  # when each limit was first locked
        self._known: dict[str, tuple[int, float]] = {}  # of turnstiles, and when all holds were counted

    def after(self, names: Iterable[str]) -> list[int]:
        """Behind which number to begin to count, for each turnstile."""
        oldest = self._monotonic() - LONGEST_S
        found = [self._known.get(name, (0, oldest)) for name in names]
        return [number if at > oldest else 0 for number, at in found]

    def locked(self, limits: Iterable[str], missing: Iterable[str]) -> set[str]:
        """These limits were locked, and others are not there. Return of which it can be learnt what is over."""
        now = self._monotonic()
        forgotten = [self._since.pop(name) for name in missing if name in self._since]
        if forgotten:
            self._known = {}
        return {name for name in limits if now - self._since.setdefault(name, now) >= SETTLED_S}

    def learn(self, found: Mapping[str, int], counted: Set[str]) -> None:
        """What a round has seen that was committed: until then ends in it may be taken back.

        `counted`: of these turnstiles all holds were counted.
        """
        now = self._monotonic()
        if len(self._known.keys() | found.keys()) > KEPT:
            self._known = {}
        if any(number < self._known.get(name, (0, now))[0] for name, number in found.items()):
            self._known = {}  # the database knows less than it did: so does a count that began too late
            found = {name: number for name, number in found.items() if name in counted}
        for name, number in found.items():
            _, at = self._known.get(name, (0, now))
            self._known[name] = (number, now if name in counted else at)
