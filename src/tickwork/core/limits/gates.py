"""Gates: orders by an operator to drop, pause, divert or slow down some of the jobs, until an instant or until lifted.

A gate selects jobs by task, queue, tenant, collection and label; if it names several, all of them must match. If
several gates match a job, drop comes before pause, then divert, then slow. A gate ends by itself at `until`; no process
has to lift it. A *hold* is the reason why a waiting job is held: a limit key with its rule, or a gate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

import msgspec

from tickwork.core.ids import JobId
from tickwork.core.limits.breaker import Rule
from tickwork.core.limits.job_limits import LimitKey
from tickwork.core.limits.limits import Rate, rate
from tickwork.core.option_parsing import VersionedJson, nearest, read_span, read_text, shown, to_us
from tickwork.core.recurrence.base_rule import read_instant
from tickwork.core.recurrence.zones import EPOCH
from tickwork.errors import InvalidOption

Kind = Literal["drop", "pause", "divert", "slow"]  # in order of precedence: the first kind with a matching gate decides
SELECTORS = ("task", "queue", "tenant", "collection", "label")
_LONGEST = timedelta(days=3650)


@dataclass(frozen=True, slots=True)
class JobFacts:
    """The facts about a job by which gates select it.

    A job that was diverted is not diverted again, so two gates cannot send it back and forth.
    """

    task: str
    queue: str
    tenant: str | None = None
    collection: str | None = None
    labels: tuple[str, ...] = ()
    diverted: bool = False


class Gate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A gate. `by` and `reason` are shown to users whose job it holds.

    Only "slow" has a `pace`, only "divert" has `to`.
    """

    kind: Kind
    task: str | None = None
    queue: str | None = None
    tenant: str | None = None
    collection: str | None = None
    label: str | None = None
    until_us: int | None = None
    reason: str = ""
    by: str = ""
    pace: Rate | None = None
    to: str | None = None

    def __post_init__(self) -> None:
        if not self.selects:
            raise InvalidOption(f"a gate says what it is for: {', '.join(f'{name}=' for name in SELECTORS)}.")
        if (self.pace is None) == (self.kind == "slow"):
            raise InvalidOption(f"rate= is for slow, which needs it, not for {self.kind}: slow(task=..., rate='5/s').")
        if (self.to is None) == (self.kind == "divert"):
            raise InvalidOption(
                f"to= is for divert, which needs it, not for {self.kind}: divert(task=..., to='spare')."
            )

    @property
    def selects(self) -> dict[str, str]:
        """The selectors of the gate, with their values."""
        return {name: value for name in SELECTORS if (value := getattr(self, name)) is not None}

    @property
    def name(self) -> str:
        """The name of the gate, also as a limit key: "pause task=mail collection=campaign-7"."""
        return " ".join([self.kind, *(f"{name}={value}" for name, value in self.selects.items())])

    @property
    def until(self) -> datetime | None:
        """When the gate ends by itself; None means never."""
        return None if self.until_us is None else EPOCH + timedelta(microseconds=self.until_us)

    def is_live(self, now_us: int) -> bool:
        return self.until_us is None or now_us < self.until_us

    def matches(self, job: JobFacts) -> bool:
        """Return whether the gate applies to this job."""
        if self.kind == "divert" and (job.diverted or job.queue == self.to):
            return False
        return all(
            value in job.labels if name == "label" else value == getattr(job, name)
            for name, value in self.selects.items()
        )


GATES = VersionedJson("gate", msgspec.json.Decoder(Gate))


def read_gate(kind: str, given: Mapping[str, Any], now_us: int) -> Gate:
    """Return the gate for the given options: `read_gate("pause", {"task": mail, "until": "2h", "reason": "..."},
    now)`.

    `until` is an instant, or a duration from now. Raises InvalidOption, which says what to give instead.
    """
    if kind not in get_args(Kind):
        raise InvalidOption(f"there is no gate {kind!r}; {nearest(kind, get_args(Kind))}")
    read: dict[str, Any] = {}
    for name, value in given.items():
        if name not in _READERS:
            raise InvalidOption(f"a gate has no {name!r}; {nearest(name, _READERS)}")
        if value is not None:
            read[_FIELDS.get(name, name)] = _READERS[name](name, value, now_us)
    return Gate(kind=kind, **read)  # type: ignore[arg-type]


def read_selectors(given: Mapping[str, Any]) -> dict[str, str]:
    """Return the selectors given to `resume(...)`, which removes the gates that have exactly these.

    Raises InvalidOption.
    """
    if wrong := next((name for name in given if name not in SELECTORS), None):
        raise InvalidOption(f"resume has no {wrong!r}; {nearest(wrong, SELECTORS)}")
    found = {name: _named(name, value, 0) for name, value in given.items() if value is not None}
    if not found:
        raise InvalidOption(f"resume says what it is for: {', '.join(f'{name}=' for name in SELECTORS)}.")
    return found


def read_until(text: str | None) -> str | datetime | None:
    """Return the end of a gate that a user typed: a datetime for an instant, or the text of a duration unchanged.

    Raises InvalidOption for a text that looks like an instant but is not a valid one.
    """
    if text is None or not text[:4].isdecimal() or "-" not in text:
        return text
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise InvalidOption(
            f"{text!r} is not an instant; write one like 2026-11-01T12:00+01:00, or a duration like 2h."
        ) from None


def gate_for(job: JobFacts, gates: Iterable[Gate], now_us: int) -> Gate | None:
    """Return the gate that applies to a job now; None if no gate does.

    Among several gates of that kind, the one that lasts longest decides for drop and pause, the one with the most
    selectors for divert, and the slowest for slow. The order of `gates` does not matter.
    """
    matching = [gate for gate in gates if gate.is_live(now_us) and gate.matches(job)]
    return min(matching, key=_rank, default=None)


def _rank(gate: Gate) -> tuple[int, float, int, str]:
    """Return a sort key by precedence; the first gate decides."""
    lasts_us = float("inf") if gate.until_us is None else float(gate.until_us)
    slowest = 0 if gate.pace is None else gate.pace.interval_us
    first = slowest if gate.kind == "slow" else len(gate.selects) if gate.kind == "divert" else lasts_us
    return get_args(Kind).index(gate.kind), -first, -len(gate.selects), gate.name


def _named(name: str, value: Any, now_us: int) -> str:
    return read_text(name, getattr(value, "name", value))


def _text(name: str, value: Any, now_us: int) -> str:
    return read_text(name, value)


def _until(name: str, value: Any, now_us: int) -> int:
    if isinstance(value, datetime):
        until_us = to_us(read_instant(name, value) - EPOCH)
    else:
        until_us = now_us + to_us(read_span(name, value, timedelta(0), _LONGEST))
    if until_us <= now_us:
        raise InvalidOption(f"until is {shown(value)}, which has passed: such a gate would hold nothing.")
    return until_us


def _pace(name: str, value: Any, now_us: int) -> Rate:
    return value if isinstance(value, Rate) else rate(value)


_FIELDS = {"until": "until_us", "rate": "pace"}
_READERS: dict[str, Callable[[str, Any, int], Any]] = {
    **dict.fromkeys(SELECTORS, _named),
    "until": _until,
    "reason": _text,
    "by": _text,
    "rate": _pace,
    "to": _text,
}


@dataclass(frozen=True, slots=True)
class Hold:
    """A hold on a waiting job: the limit key, its rule, when it opens by itself, and its current holders.

    `live` is the weight of the live leases, and `holders` are some of their jobs. `ahead` is the number of jobs that
    wait before this one. `head` is the job of a sequence that goes before it, has started, and waits for its next
    attempt, due at `head_due`.
    """

    held_by: LimitKey
    rule: Rule | None
    gate: Gate | None
    opens_at: datetime | None
    live: int
    holders: tuple[JobId, ...]
    ahead: int
    head: JobId | None = None
    head_due: datetime | None = None
