"""Placement: what a job needs of a worker, what a worker offers, and sticky keys.

`needs={"gpu": True, "mem": "8GB", "cpu": 2}` asks for a label or for an amount. A worker has labels and resources
(`--label gpu --resource mem=16GB,cpu=4`). A need that is True is met by a label, which any number of jobs may share, or
else by one unit of a resource of that name. Equal needs have the same text, which is stored with the job. A claim asks
only for the few texts that the worker can take now, so jobs that it cannot take do not delay it. Amounts are counted in
thousandths, so that half a CPU is exact.

Sticky placement runs jobs with the same key on the same worker, and in the same process of it, if possible. A key maps
to a spot, of which there are SPOTS. Each spot has a home among the processes of a worker; each of the GROUPS of spots
has a home among the workers that could run its jobs. No list of homes is stored: the home is the candidate with the
highest score (rendezvous hashing), which all workers compute alike. When a worker joins or leaves, only the spots that
it gains or had move.

Jobs are left to their home for GRACE_US after they are due. Then any free worker takes them: a warm cache is worth a
short delay, not an idle job. Among jobs of equal urgency, a worker takes jobs of other homes last for PATIENCE_US, so
that homes also matter while more jobs are due than can run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

from tickwork.core.option_parsing import shown
from tickwork.errors import InvalidOption

_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,60}")
_SIZE = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,3}))?\s*(?:([kKMGTP])(i?))?B?")
_POWERS = {unit: power for power, units in enumerate(("", "kK", "M", "G", "T", "P")) for unit in units}
_THOUSANDTHS = 1000
_NEEDS_LIMIT = 16
_AMOUNT_LIMIT = 10**18
_OWN = "worker:"


@dataclass(frozen=True, slots=True)
class Needs:
    """The needs of a job: labels (`things`), and amounts of resources."""

    things: tuple[str, ...] = ()
    amounts: tuple[tuple[str, int], ...] = ()

    @property
    def text(self) -> str:
        """The canonical text of the needs, such as "cpu=2 gpu mem=8000000000"; empty without needs."""
        parts = [*self.things, *(f"{name}={_number(amount)}" for name, amount in self.amounts)]
        return " ".join(sorted(parts))


@dataclass(frozen=True, slots=True)
class Offer:
    """The labels and resources of a worker, or the part of them that is free."""

    labels: frozenset[str] = frozenset()
    resources: Mapping[str, int] = field(default_factory=dict)

    @property
    def shown(self) -> list[str]:
        """The labels and resources as a user writes them, without the label that identifies the worker."""
        amounts = [f"{name}={_number(amount)}" for name, amount in sorted(self.resources.items())]
        return [*sorted(label for label in self.labels if not label.startswith(_OWN)), *amounts]

    def of_worker(self, worker: str) -> Offer:
        """Return this offer with the label by which a job asks for this worker."""
        return Offer(self.labels | {own_label(worker)}, self.resources)

    def without(self, taken: Mapping[str, int]) -> Offer:
        left = {name: amount - taken.get(name, 0) for name, amount in self.resources.items()}
        return Offer(self.labels, left)


NOTHING = Offer()


def own_label(worker: str) -> str:
    """Return the label that only this worker has."""
    return f"{_OWN}{worker}"


def read_needs(given: Any) -> Needs:
    """Return the needs that a caller gives. Raises InvalidOption, which names what is wrong."""
    if not isinstance(given, Mapping):
        raise InvalidOption(f'needs must be a dict such as {{"gpu": True, "mem": "8GB"}}, not {shown(given)}.')
    if len(given) > _NEEDS_LIMIT:
        raise InvalidOption(f"a job may need {_NEEDS_LIMIT} things, not {len(given)}.")
    things = sorted(_name("needs", name) for name, value in given.items() if value is True)
    amounts = sorted((_name("needs", name), amount_of(name, v)) for name, v in given.items() if v is not True)
    return Needs(tuple(things), tuple(amounts))


@lru_cache(maxsize=1024)
def needs_of(text: str) -> Needs:
    """Return the needs that have this text."""
    pairs = [part.partition("=") for part in text.split()]
    things = sorted(name for name, equals, _ in pairs if not equals)
    return Needs(
        tuple(things), tuple(sorted((name, amount_of(name, value)) for name, equals, value in pairs if equals))
    )


def read_offer(labels: Iterable[str] = (), resources: str | Mapping[str, Any] = "") -> Offer:
    """Return the offer of a worker: `read_offer(["gpu"], "mem=16GB,cpu=4")`. Raises InvalidOption."""
    labels = [_name("a label", label) for label in labels]
    if own := next((label for label in labels if label.startswith(_OWN)), None):
        raise InvalidOption(f"a label: {own!r} would name one worker; only a worker itself has such a label.")
    if isinstance(resources, str):
        pairs = [part.partition("=") for part in resources.split(",") if part.strip()]
        resources = {name.strip(): value.strip() for name, _, value in pairs}
    amounts = {_name("a resource", name): amount_of(name, value) for name, value in resources.items()}
    return Offer(frozenset(labels), amounts)


def amount_of(name: str, value: Any) -> int:
    """Return an amount in thousandths: 2, 0.5, "8GB" (10^9 bytes each) or "8GiB" (2^30). Raises InvalidOption."""
    text = str(value).strip() if isinstance(value, int | float | str) and not isinstance(value, bool) else ""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise InvalidOption(
            f"{name}: {shown(value)} is not an amount; say a number such as 2 or 0.5, or '8GB', '512MiB'."
        )
    whole, part, unit, binary = found.groups()
    scale: int = (1024 if binary else 1000) ** _POWERS.get(unit or "", 0)
    amount = (int(whole) * _THOUSANDTHS + int((part or "").ljust(3, "0"))) * scale
    if not 0 < amount <= _AMOUNT_LIMIT:
        raise InvalidOption(f"{name}: {shown(value)} is not from 0.001 to {_AMOUNT_LIMIT // _THOUSANDTHS:,}.")
    return amount


def taken_of(offer: Offer, needs: Needs) -> dict[str, int] | None:
    """Return the amounts that a job would take of an offer; None if the offer does not satisfy its needs."""
    taken = dict(needs.amounts)
    for thing in needs.things:
        if thing not in offer.labels:
            taken[thing] = _THOUSANDTHS
    fits = all(amount <= offer.resources.get(name, 0) for name, amount in taken.items())
    return taken if fits else None


def free(offer: Offer, running: Iterable[Needs]) -> Offer:
    """Return what running jobs leave of an offer. Amounts are negative if a worker restarted with fewer resources."""
    for needs in running:
        things = {thing: _THOUSANDTHS for thing in needs.things if thing not in offer.labels}
        offer = offer.without({**dict(needs.amounts), **things})
    return offer


def servable(left: Offer, texts: Iterable[str]) -> list[str]:
    """Return the texts of the needs that fit, best fit first.

    The best fit leaves the least unused: a worker with a GPU takes jobs that need it before jobs that any worker could
    run.
    """
    found = [(waste, text) for text in set(texts) if (waste := _waste(left, needs_of(text))) is not None]
    return [text for _, text in sorted(found)]


def take_in_order(left: Offer, wanted: Iterable[str]) -> list[bool]:
    """Return for each job, given the text of its needs, whether it fits together with the jobs accepted before it."""
    answers = []
    for text in wanted:
        taken = taken_of(left, needs_of(text))
        answers.append(taken is not None)
        left = left if taken is None else left.without(taken)
    return answers


def _waste(offer: Offer, needs: Needs) -> tuple[int, Fraction] | None:
    """Return how many labels and resources a job leaves unused, and what share of the resources that it uses."""
    taken = taken_of(offer, needs)
    if taken is None:
        return None
    unused = len(offer.labels - set(needs.things)) + len(offer.resources.keys() - taken.keys())
    over = sum((1 - Fraction(amount, offer.resources[name]) for name, amount in taken.items()), Fraction(0))
    return unused, over


def _name(what: str, value: Any) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise InvalidOption(f"{what}: {shown(value)} is no name; use letters, digits and _ . : - (up to 60).")
    return value


def _number(amount: int) -> str:
    whole, part = divmod(amount, _THOUSANDTHS)
    return f"{whole}.{part:03d}".rstrip("0") if part else str(whole)


SPOTS = 1024
GROUPS = 32  # lanes of a queue for each need and tenant, and the most workers that can be homes
GRACE_US = 250_000
PATIENCE_US = 5_000_000


def spot_of(key: str) -> int:
    """Return the spot of a key."""
    return _hash(key) % SPOTS


def group_of(spot: int) -> int:
    """Return the group of a spot; jobs of a group share a lane."""
    return spot % GROUPS


@lru_cache(maxsize=1 << 13)
def score(place: int, name: str) -> int:
    """Return the score of a candidate for a spot or a group; the highest score wins."""
    return _hash(f"{place} {name}")


def home_of(place: int, names: Iterable[str]) -> str | None:
    """Return the home of a spot or a group among these names; None if there are none."""
    return max(names, key=lambda name: (score(place, name), name), default=None)


class ClaimingWorker(NamedTuple):
    """A worker that claims jobs: its queues, and its labels and resources."""

    worker: str
    queues: tuple[str, ...]
    offer: Offer


class ClaimingWorkers:
    """The workers that claim jobs at present, and the home of each group among them."""

    def __init__(self, neighbours: Sequence[ClaimingWorker]) -> None:
        self._neighbours = neighbours
        self._workers = {one.worker for one in neighbours}
        self._able: dict[tuple[str, str], list[str]] = {}
        self._homes: dict[tuple[int, str, str], str | None] = {}

    def is_anothers(self, worker: str, group: int, queue: str, needs: str) -> bool:
        """Return whether a worker leaves these jobs to another worker, their home, for a while.

        A worker that is not in the list, such as a server that claims for others, is never a home and leaves no jobs.
        """
        return worker in self._workers and self.home(group, queue, needs) not in (None, worker)

    def home(self, group: int, queue: str, needs: str) -> str | None:
        """Return the home of a group for jobs of a queue with these needs; None if no worker can run them."""
        place = (group, queue, needs)
        if place not in self._homes:
            self._homes[place] = home_of(group, self._able_to(queue, needs))
        return self._homes[place]

    def _able_to(self, queue: str, needs: str) -> list[str]:
        if (queue, needs) not in self._able:
            wanted, serving = needs_of(needs), [one for one in self._neighbours if queue in one.queues]
            self._able[queue, needs] = [one.worker for one in serving if taken_of(one.offer, wanted) is not None]
        return self._able[queue, needs]


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())
