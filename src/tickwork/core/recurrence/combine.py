"""`any_of(...)`, `all_of(...)` and `except_on(...)`: combinations of rules.

`all_of` jumps to the latest of the next occurrences of its parts until they agree. The sparsest part determines the
size of the jumps, so few are needed. Parts that do not agree after 1,000 jumps are treated as never due together.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import cast

import msgspec

from tickwork.core.recurrence.base_rule import NO_CALENDARS, Calendars, RuleValue
from tickwork.core.recurrence.calendar import Calendar
from tickwork.core.recurrence.cron import Cron
from tickwork.core.recurrence.interval import After, At, Every
from tickwork.core.recurrence.rrule import Rrule
from tickwork.core.recurrence.zones import EPOCH, TICK
from tickwork.errors import InvalidOption

_PARTS_LIMIT = 50
_LEAPS_LIMIT = 1000


def any_of(*rules: RuleValue) -> AnyOf:
    """Return a rule that is due when any of the rules is due. An instant that several rules share occurs once."""
    return AnyOf(rules=cast("tuple[AnyRule, ...]", rules))


def all_of(*parts: RuleValue | ExceptOn) -> AllOf:
    """Return a rule that is due when all of the rules are: `all_of(cron("0 9 * * *"), except_on("holidays"))`."""
    rules = tuple(part for part in parts if not isinstance(part, ExceptOn))
    calendars = tuple(given for part in parts if isinstance(part, ExceptOn) for given in part.calendars)
    return AllOf(rules=cast("tuple[AnyRule, ...]", rules), calendars=calendars)


def except_on(*calendars: str | Calendar) -> ExceptOn:
    """Return a part of `all_of` that excludes the days of these calendars."""
    return ExceptOn(calendars)


class ExceptOn(msgspec.Struct, frozen=True):
    """Calendars to exclude, each by its name in the store or as a value. It is a part of `all_of`, not a rule."""

    calendars: tuple[str | Calendar, ...]

    def __post_init__(self) -> None:
        for given in self.calendars:
            if not isinstance(given, str | Calendar):
                raise InvalidOption(f"except_on takes names of calendars, or calendar(...), not {given!r}.")


class AnyOf(RuleValue, frozen=True, tag="any_of", kw_only=True):
    """The union of the occurrences of its rules."""

    rules: tuple[AnyRule, ...]

    def __post_init__(self) -> None:
        _check_parts("any_of", self.rules)

    @property
    def zone(self) -> str:
        return self.rules[0].zone

    @property
    def needs_name(self) -> bool:
        return any(rule.needs_name for rule in self.rules)

    @property
    def calendar_names(self) -> frozenset[str]:
        return frozenset[str]().union(*(rule.calendar_names for rule in self.rules))

    @property
    def idle_dst(self) -> str | None:
        return next((said for rule in self.rules if (said := rule.idle_dst) is not None), None)

    def of_schedule(self, name: str, start: datetime | None) -> AnyOf:
        return any_of(*(rule.of_schedule(name, start) for rule in self.rules))

    def first_after(self, instant: datetime, calendars: Calendars = NO_CALENDARS) -> datetime | None:
        dues = (rule.first_after(instant, calendars) for rule in self.rules)
        return min((due for due in dues if due is not None), default=None)

    def last_before(self, instant: datetime, calendars: Calendars = NO_CALENDARS) -> datetime | None:
        dues = (rule.last_before(instant, calendars) for rule in self.rules)
        return max((due for due in dues if due is not None), default=None)

    def explain(self) -> str:
        return "; or ".join(rule.explain() for rule in self.rules)


class AllOf(RuleValue, frozen=True, tag="all_of", kw_only=True):
    """The occurrences that its rules have in common, except on days that its calendars exclude.

    A day is a day in the zone of the calendar, or else of the first rule.
    """

    rules: tuple[AnyRule, ...]
    calendars: tuple[str | Calendar, ...] = ()

    def __post_init__(self) -> None:
        _check_parts("all_of", self.rules)
        shared = dict.fromkeys(self.calendar_names, Calendar())
        if not self.needs_name and self.first_after(EPOCH - TICK, shared) is None:
            raise InvalidOption("all_of: these rules are never due together. Check their times, zones and calendars.")

    @property
    def zone(self) -> str:
        return self.rules[0].zone

    @property
    def needs_name(self) -> bool:
        return any(rule.needs_name for rule in self.rules)

    @property
    def calendar_names(self) -> frozenset[str]:
        return named(self.calendars).union(*(rule.calendar_names for rule in self.rules))

    @property
    def idle_dst(self) -> str | None:
        return next((said for rule in self.rules if (said := rule.idle_dst) is not None), None)

    def of_schedule(self, name: str, start: datetime | None) -> AllOf:
        rules = (rule.of_schedule(name, start) for rule in self.rules)
        return all_of(*rules, except_on(*self.calendars))

    def first_after(self, instant: datetime, calendars: Calendars = NO_CALENDARS) -> datetime | None:
        heeded = _heeded(self.calendars, calendars)
        for _ in range(_LEAPS_LIMIT):
            dues = [rule.first_after(instant, calendars) for rule in self.rules]
            if None in dues:
                return None
            due = max(due for due in dues if due is not None)
            closed = [until for one in heeded if (until := one.closed_until(due, self.zone)) is not None]
            if min(dues) == due and not closed:  # type: ignore[type-var]
                return due
            instant = max([due - TICK, *closed])
        return None

    def last_before(self, instant: datetime, calendars: Calendars = NO_CALENDARS) -> datetime | None:
        heeded = _heeded(self.calendars, calendars)
        for _ in range(_LEAPS_LIMIT):
            dues = [rule.last_before(instant, calendars) for rule in self.rules]
            if None in dues:
                return None
            due = min(due for due in dues if due is not None)
            closed = [since for one in heeded if (since := one.closed_since(due, self.zone)) is not None]
            if max(dues) == due and not closed:  # type: ignore[type-var]
                return due
            instant = min([due + TICK, *closed])
        return None

    def explain(self) -> str:
        said = "; and also ".join(rule.explain() for rule in self.rules)
        days = [given if isinstance(given, str) else given.explain() for given in self.calendars]
        return f"{said}; except on {' and '.join(days)}" if days else said


AnyRule = Cron | Every | After | At | Rrule | AnyOf | AllOf


def _check_parts(what: str, rules: tuple[RuleValue, ...]) -> None:
    """Raise InvalidOption for too many parts, or a part that cannot be combined."""
    if not 1 <= len(rules) <= _PARTS_LIMIT:
        raise InvalidOption(f"{what} takes 1 to {_PARTS_LIMIT} rules, not {len(rules)}.")
    for rule in rules:
        if isinstance(rule, After):
            raise InvalidOption(f"{what} cannot take after(...): it is due when a run ended, at no known instant.")
        if not isinstance(rule, RuleValue):
            raise InvalidOption(f"{what} takes rules such as cron(...), not {rule!r}.")


def named(given: Iterable[str | Calendar]) -> frozenset[str]:
    """Return the names among calendars given by name or as values."""
    return frozenset(one for one in given if isinstance(one, str))


def _heeded(given: Iterable[str | Calendar], calendars: Calendars) -> list[Calendar]:
    """Return the calendars, given by name or as values. Raises InvalidOption for an unknown name."""
    for one in given:
        if isinstance(one, str) and one not in calendars:
            raise InvalidOption(f"there is no calendar {one!r}; a rule heeds it. Store it under that name first.")
    return [calendars[one] if isinstance(one, str) else one for one in given]
