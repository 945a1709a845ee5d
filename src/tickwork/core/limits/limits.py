"""Concurrency and rate limits: how many jobs may run at once or start within a period, for each key.

A limit is a value that is declared with a task or a queue and stored, so that it can be changed while jobs wait. At
enqueue, a job gets its *limit uses*: the limits that apply to it, its key under each, and its weight there.
Usage is derived from live leases and never kept in a counter that could drift.

A limit without a name belongs to its owner, as `task:sync_account#1`; limits with the same name are one limit, which
tasks share. `sequence="key"` means `sequence(...)`: one job at a time for each key, by (run_at, id) whatever the
priority. A job of a sequence that has started keeps its place until it has ended for good.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, get_args

import msgspec

from tickwork.core.limits.job_limits import LimitUse
from tickwork.core.limits.limit_keys import bound_key, key_text, parameter_of, read_key, weight_of
from tickwork.core.option_parsing import LARGEST, read_text, read_whole, shown, to_us
from tickwork.core.text.duration import format_duration, parse_duration
from tickwork.errors import InvalidArguments, InvalidInput, InvalidOption

_SHORTEST_INTERVAL_US = 100
_LONGEST_PERIOD = timedelta(days=31)
_CREDIT_US = 100_000

OnRetry = Literal["wait", "pass"]


def concurrency(n: int, *, key: str | None = None, name: str | None = None, weight: int | str = 1) -> Concurrency:
    """Return a concurrency limit: at most `n` jobs run at once for each key: `concurrency(2, key="tenant")`.

    With `weight=3`, a job counts as three. `key` and a `weight` given as text are read from the arguments
    (`"order.customer.id"`). Raises InvalidOption.
    """
    return Concurrency(capacity=n, key=key, name=name, weight=weight)


def rate(
    pace: str, *, key: str | None = None, burst: int | None = None, name: str | None = None, weight: int | str = 1
) -> Rate:
    """Return a rate limit on starts for each key: `rate("10/s")`, `rate("100/15m", key="tenant", burst=20)`.

    Starts are spread evenly, but after a pause up to `burst` jobs start early: in any 15 minutes there are at most
    100 + burst starts. The default of `burst` is the number of starts in 100 ms, so that workers that claim slightly
    late lose no capacity. Raises InvalidOption.
    """
    count, period = _read_pace(pace)
    return Rate(
        count=count, period=period, burst=_burst(burst, count, period, weight), key=key, name=name, weight=weight
    )


def sequence(key: str, *, on_retry: OnRetry = "wait") -> Concurrency:
    """Return a limit that runs one job at a time for each key, in order: `sequence("account")`.

    The order is (run_at, id) whatever the priority. A job that has started keeps its place until it has ended for
    good: later jobs also wait while it waits for a retry. With `on_retry="pass"`, later jobs may start until the
    retry is due. Raises InvalidOption.
    """
    return Concurrency(capacity=1, key=key, in_order=True, on_retry=on_retry)


class LimitValue(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", forbid_unknown_fields=True):
    """The fields that all limits have: their name, the key, and the weight of a job."""

    name: str | None = None
    key: str | None = None
    weight: int | str = 1

    def __post_init__(self) -> None:
        if self.name is not None:
            read_text("the name of a limit", self.name)
        if self.key is not None:
            read_key("the key of a limit", self.key)
        if not isinstance(self.weight, str):
            read_whole("the weight under a limit", self.weight, 1, LARGEST)
        elif parameter_of(read_key("the weight under a limit", self.weight)) is None:
            raise InvalidOption(f"the weight {self.weight!r} is not found in arguments; name a parameter, or a number.")

    @property
    def heaviest(self) -> int:
        """The largest weight that a job may have under this limit."""
        return LARGEST


class Concurrency(LimitValue, frozen=True, tag="concurrency", kw_only=True):
    """At most `capacity` weight at any instant.

    `in_order` makes it a sequence: with `on_retry` "wait", later jobs wait for a retry; with "pass", they may pass it.
    """

    capacity: int
    in_order: bool = False
    on_retry: OnRetry = "wait"

    def __post_init__(self) -> None:
        super().__post_init__()
        read_whole("concurrency", self.capacity, 1, LARGEST)
        if self.in_order and (self.capacity, self.weight) != (1, 1):
            raise InvalidOption("a sequence runs one at a time: its capacity and weight are 1.")
        if self.on_retry not in get_args(OnRetry):
            raise InvalidOption(f"on_retry of a sequence is 'wait' or 'pass', not {shown(self.on_retry)}.")
        _refuse_heavy(self)

    @property
    def heaviest(self) -> int:
        return self.capacity

    @property
    def said(self) -> str:
        """The limit as a short text."""
        return "one at a time, in order" if self.in_order else f"{self.capacity:,} at once"


class Rate(LimitValue, frozen=True, tag="rate", kw_only=True):
    """At most `count + burst` starts in any `period`."""

    count: int
    period: timedelta
    burst: int

    def __post_init__(self) -> None:
        super().__post_init__()
        read_whole("the number of a rate", self.count, 1, LARGEST)
        read_whole("burst", self.burst, 0, LARGEST)
        if not timedelta(0) < self.period <= _LONGEST_PERIOD:
            raise InvalidOption(f"rate: a period is more than 0 and at most {_LONGEST_PERIOD.days} days.")
        if self.count * _SHORTEST_INTERVAL_US > to_us(self.period):
            raise InvalidOption("rate: 10,000 a second is the most that a limit can count; leave it out for more.")
        _refuse_heavy(self)

    @property
    def interval_us(self) -> int:
        """The time between even starts, rounded up so that the rate is never above the declared one."""
        return -(-to_us(self.period) // self.count)

    @property
    def heaviest(self) -> int:
        return self.burst + 1

    @property
    def said(self) -> str:
        """The limit as a short text."""
        period = format_duration(self.period)
        unit = period[1:] if period[0] == "1" and period[1:].isalpha() else period
        return f"{self.count:,}/{unit}{f', burst {self.burst:,}' if self.burst else ''}"


class Shared(LimitValue, frozen=True, tag="shared", kw_only=True):
    """A reference by name to a limit that is declared elsewhere."""


Bound = Concurrency | Rate
AnyLimit = Concurrency | Rate | Shared


def read_limits(owner: str, given: Any, parameters: Collection[str] | None = None) -> tuple[AnyLimit, ...]:
    """Return the limits given for a task or queue as they are stored, checked and with a name each.

    `owner` is "task:NAME" or "queue:NAME". A text among the limits is the name of a limit that is declared elsewhere.
    `parameters` are the parameters of the task: a key must be one of them, and `"tenant"` is a parameter if there is
    one of that name, otherwise the job's tenant. Raises InvalidOption.
    """
    if isinstance(given, str | LimitValue | Mapping) or not isinstance(given, Iterable):
        raise InvalidOption(f"limits of {owner} must be a list such as [concurrency(2, key='tenant')].")
    limits = tuple(_owned(owner, number, limit, parameters) for number, limit in enumerate(given, 1))
    names = [limit.name for limit in limits]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InvalidOption(f"limits of {owner} name {twice!r} twice; a job passes a limit once.")
    return limits


def limit_uses(
    limits: Iterable[AnyLimit], arguments: Mapping[str, Any], tenant: str | None = None, labels: Sequence[str] = ()
) -> tuple[LimitUse, ...]:
    """Return the limit uses of a job under limits that `read_limits` has named.

    `arguments` is the JSON of its arguments by parameter name, defaults included. Raises InvalidArguments for an
    invalid key or weight, and for a job that is too heavy ever to start.
    """
    return tuple(_limit_use(limit, arguments, tenant, labels) for limit in limits)


def _limit_use(limit: AnyLimit, arguments: Mapping[str, Any], tenant: str | None, labels: Sequence[str]) -> LimitUse:
    weight = weight_of(limit.weight, arguments)
    if weight > limit.heaviest:
        raise InvalidArguments(f"{_too_heavy(limit, weight)} The job could never start, and was not stored.")
    return LimitUse(limit.name or "", key_text(limit.key, arguments, tenant, labels), weight)


def _owned(owner: str, number: int, given: Any, parameters: Collection[str] | None) -> AnyLimit:
    """Return a limit as it is stored: with its key checked against the parameters, and with a name."""
    limit: AnyLimit = Shared(name=given) if isinstance(given, str) else given
    if not isinstance(limit, Concurrency | Rate | Shared):
        raise InvalidOption(
            f"limits of {owner}: {shown(limit)} is no limit. Use concurrency(...), rate(...) or a name."
        )
    if parameters is not None:
        limit = _bound_to(owner, limit, parameters)
    if limit.name is not None:
        return limit
    own = "sequence" if isinstance(limit, Concurrency) and limit.in_order else number
    return msgspec.structs.replace(limit, name=f"{owner}#{own}")


def _bound_to(owner: str, limit: AnyLimit, parameters: Collection[str]) -> AnyLimit:
    if isinstance(limit.weight, str):
        bound_key(f"limits of {owner}", limit.weight, parameters)
    if limit.key is None:
        return limit
    return msgspec.structs.replace(limit, key=bound_key(f"limits of {owner}", limit.key, parameters))


def _read_pace(pace: Any) -> tuple[int, timedelta]:
    """Return the count and period of a rate such as "100/15m". Raises InvalidOption."""
    number, slash, period = str(pace).strip().partition("/")
    try:
        if not slash or not number.isdecimal() or not number.isascii():
            raise InvalidInput
        return int(number), parse_duration(f"1{period}" if period.isalpha() else period, what="rate")
    except InvalidInput:
        raise InvalidOption(
            f"rate: {shown(pace)} is not a rate. Say how many in what time, such as '10/s', '1000/h' or '100/15m'."
        ) from None


def _burst(burst: int | None, count: int, period: timedelta, weight: int | str) -> int:
    if burst is not None:
        return burst
    if isinstance(weight, str):
        raise InvalidOption(f"rate: with weight={weight!r} say burst=, at least the heaviest weight less one.")
    return max(_CREDIT_US * count // to_us(period) if period else 0, weight - 1)


def _refuse_heavy(limit: Bound) -> None:
    if isinstance(limit.weight, int) and limit.weight > limit.heaviest:
        raise InvalidOption(f"{_too_heavy(limit, limit.weight)} No job could ever start.")


def _too_heavy(limit: AnyLimit, weight: int) -> str:
    cure = "raise its burst" if isinstance(limit, Rate) else "raise the limit"
    named = "the limit" if limit.name is None else f"the limit {limit.name!r}"
    return f"a weight of {weight:,} is above what {named} lets through at once, {limit.heaviest:,}; {cure}."
