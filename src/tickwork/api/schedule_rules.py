"""The public schedule rules: `cron(...)`, `every(...)` and the others, wrapped with a clock for previews.

The rules of the core never read a clock, but "the next four occurrences" means those after now. So users hold a
`Rule`: a rule of the core, with the system clock as the default instant. Schedules store only its value.
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
from tickwork.core.recurrence.base_rule import NO_CALENDARS, Calendars, RuleValue
from tickwork.core.recurrence.calendar import Calendar, calendar
from tickwork.core.recurrence.combine import ExceptOn, except_on
from tickwork.core.recurrence.zones import EPOCH
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
    """A rule for when something is due. `value` is the part that is stored."""

    value: RuleValue

    def next(self, n: int = 1, *, after: datetime | None = None, calendars: Calendars = NO_CALENDARS) -> list[datetime]:
        """Return the next `n` occurrences after `after` (default: now), in UTC; fewer if the rule ends.

        `calendars` holds the calendars that the rule names, by name. Raises InvalidOption for an instant without a
        zone.
        """
        return self.value.next(n, after=_now() if after is None else after, calendars=calendars)

    def prev(
        self, n: int = 1, *, before: datetime | None = None, calendars: Calendars = NO_CALENDARS
    ) -> list[datetime]:
        """Return the last `n` occurrences before `before` (default: now), latest first."""
        return self.value.prev(n, before=_now() if before is None else before, calendars=calendars)

    def explain(self) -> str:
        """Describe in words when the rule is due: "At 02:30 on weekdays, Europe/Berlin; ..."."""
        return self.value.explain()


def _now() -> datetime:
    """Return the time of the system clock."""
    return EPOCH + timedelta(microseconds=SystemClock().wall_us())


def _held(make: Callable[P, RuleValue]) -> Callable[P, Rule]:
    """Wrap a rule constructor of the core so that it returns a `Rule`, and warns if `dst` has no effect."""

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
    """Return a rule that is due when any of the rules is due. An instant that several rules share occurs once."""
    return Rule(combine.any_of(*(_value("any_of", rule) for rule in rules)))


def all_of(*parts: Rule | ExceptOn) -> Rule:
    """Return a rule that is due when all of the rules are: `all_of(cron("0 9 * * *"), except_on("holidays"))`."""
    values = (part if isinstance(part, ExceptOn) else _value("all_of", part) for part in parts)
    return Rule(combine.all_of(*values))


def read_rule(given: Rule | str) -> RuleValue:
    """Return the value of a rule given as a `Rule`, a cron expression, or an ISO 8601 repeating interval."""
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
