"""Rules as users write them: `cron(...)`, `every(...)` and the others. What they mean is the core's.

The core never asks what time it is, and a user who asks for the next four occurrences means: from now on. So what users
hold is a Rule, which is a value of the core and a clock for previews. Schedules store and follow the value alone.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import wraps
from typing import ParamSpec

from tickwork.clock import SystemClock
from tickwork.core.recurrence import combine, interval
from tickwork.core.recurrence import cron as core_cron
from tickwork.core.recurrence import rrule as core_rrule
from tickwork.core.recurrence.calendars.calendar import Calendar, calendar
from tickwork.core.recurrence.combine import ExceptOn, except_on
from tickwork.core.recurrence.rule import NO_CALENDARS, Calendars, RuleValue
from tickwork.core.recurrence.zones.zone import EPOCH
from tickwork.errors import InvalidOption

__all__ = [
    "Calendar",
    "ExceptOn",
    "Rule",
    "after",
    "all_of",
    "any_of",
    "at",
    "calendar",
    "cron",
    "every",
    "except_on",
    "read_rule",
    "rrule",
]

P = ParamSpec("P")
_REPEATING = re.compile(r"R[0-9]*/")


@dataclass(frozen=True, slots=True)
class Rule:
    """Says when something is due. `value` is what is stored."""

    value: RuleValue

    def next(self, n: int = 1, *, after: datetime | None = None, calendars: Calendars = NO_CALENDARS) -> list[datetime]:
        """Return the next `n` occurrences, in UTC, after an instant or else after now; fewer if the rule ends.

        `calendars` are those that the rule names, by their names. Raises InvalidOption for an instant without a zone.
        """
        return self.value.next(n, after=_now() if after is None else after, calendars=calendars)

    def prev(
        self, n: int = 1, *, before: datetime | None = None, calendars: Calendars = NO_CALENDARS
    ) -> list[datetime]:
        """Return the last `n` occurrences before an instant or else before now, the latest first."""
        return self.value.prev(n, before=_now() if before is None else before, calendars=calendars)

    def explain(self) -> str:
        """Say in words when it is due: "At 02:30 on weekdays, Europe/Berlin; ..."."""
        return self.value.explain()


def _now() -> datetime:
    return EPOCH + timedelta(microseconds=SystemClock().wall_us())


def _held(make: Callable[P, RuleValue]) -> Callable[P, Rule]:
    """Return the maker of a value as the maker of a Rule."""

    @wraps(make)
    def made(*args: P.args, **kwargs: P.kwargs) -> Rule:
        value = make(*args, **kwargs)
        if value.idle_dst is not None:
            warnings.warn(f"{value.idle_dst}.", UserWarning, stacklevel=2)
        return Rule(value)

    return made


cron = _held(core_cron.cron)
every = _held(interval.every)
after = _held(interval.after)
at = _held(interval.at)
rrule = _held(core_rrule.rrule)


def any_of(*rules: Rule) -> Rule:
    """Due when any of the rules is; at an instant that several share, once."""
    return Rule(combine.any_of(*(_value("any_of", rule) for rule in rules)))


def all_of(*parts: Rule | ExceptOn) -> Rule:
    """Due when all of the rules are: `all_of(cron("0 9 * * *"), except_on("holidays"))`."""
    values = (part if isinstance(part, ExceptOn) else _value("all_of", part) for part in parts)
    return Rule(combine.all_of(*values))


def read_rule(given: Rule | str) -> RuleValue:
    """The rule that a schedule is given: as such, as a cron expression, or as an ISO 8601 repeating interval."""
    if isinstance(given, str):
        return (every(given) if _REPEATING.match(given) else cron(given)).value
    if isinstance(given, Rule):
        return given.value
    raise InvalidOption(
        f"a schedule takes a rule such as cron(...) or every(...), a cron expression, or an ISO 8601 repeating "
        f"interval, not {given!r}."
    )


def _value(what: str, rule: object) -> RuleValue:
    if not isinstance(rule, Rule):
        raise InvalidOption(f"{what} takes rules such as cron(...), not {rule!r}.")
    return rule.value
