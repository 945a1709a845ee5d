"""Retention: how long ended jobs are kept, as rules by state, queue and task in a setting.

    7d, failed=30d, queue:mail=1d, queue:mail/failed=3d, task:audit=forever

The narrowest rule applies to a job: the rule of its task, else of its queue, else of its state, else the general one.
Among rules for a task or a queue, a rule with the job's state goes before a rule without a state.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from tickwork.core.text.duration import parse_duration
from tickwork.errors import InvalidInput

FOREVER = timedelta(days=365_000)
STATES = ("succeeded", "failed", "cancelled", "dropped", "expired")
_RULE = re.compile(
    r"""(?:(?P<state>[a-z]+)|(?P<kind>task|queue):(?P<name>[^/=,"\\]+)(?:/(?P<of>[a-z]+))?)=(?P<age>.+)"""
)


@dataclass(frozen=True, slots=True)
class Retention:
    """How long ended jobs are kept.

    `rules`, by "task/NAME/STATE", "queue/NAME" or "STATE", override the two defaults.
    """

    ended: timedelta = timedelta(days=7)
    failed: timedelta = timedelta(days=30)
    rules: Mapping[str, timedelta] = field(default_factory=dict)

    def ages(self) -> dict[str, timedelta]:
        """Return the ages of all rules; "all" is the general rule."""
        return {"all": self.ended, "failed": self.failed, **self.rules}

    def shortest(self) -> timedelta:
        """Return the shortest age of any rule; no younger job is deleted."""
        return min(self.ages().values())

    def age(self, task: str, queue: str, state: str) -> timedelta:
        """Return how long a job is kept. The stores apply the same rule in SQL."""
        ages = self.ages()
        places = [f"task/{task}/{state}", f"task/{task}", f"queue/{queue}/{state}", f"queue/{queue}", state, "all"]
        return next(ages[place] for place in places if place in ages)


def read_retention(text: str) -> Retention:
    """Return the rules of a setting. Raises InvalidInput for a part that is not a rule."""
    ended, rules = Retention().ended, {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        if "=" not in part:
            ended = _age(part, part)
            continue
        place, age = _read_rule(part)
        rules[place] = age
    return Retention(ended, rules.pop("failed", Retention().failed), rules)


def _read_rule(part: str) -> tuple[str, timedelta]:
    """Return a rule as the place it applies to and its age. Raises InvalidInput."""
    found = _RULE.fullmatch(part.replace(" ", ""))
    if found is None:
        raise InvalidInput(
            f"{part!r} is not a rule of retention. Write AGE, STATE=AGE, queue:NAME=AGE, task:NAME=AGE or "
            f"task:NAME/STATE=AGE, like 7d, failed=30d, task:report=365d."
        )
    state = found["state"] or found["of"]
    if state is not None and state not in STATES:
        raise InvalidInput(f"{part!r}: there is no state {state!r} in which jobs end. There are {', '.join(STATES)}.")
    place = state if found["kind"] is None else f"{found['kind']}/{found['name']}{f'/{state}' if state else ''}"
    return str(place), _age(found["age"], part)


def _age(text: str, part: str) -> timedelta:
    return FOREVER if text == "forever" else parse_duration(text, what=f"retention {part!r}")
