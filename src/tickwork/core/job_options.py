"""Job options: their names, allowed values and stored forms.

A task's decorator sets defaults and `.options(...)` overrides them; both are parsed here, so both refuse the same
values with the same errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, get_args

from tickwork.core.access.scopes import REQUESTS
from tickwork.core.ids import JobId
from tickwork.core.job import LOWEST_PRIORITY, MAX_LOST, PRIORITIES, RUN, IfExists, NewJob, Policy, TaskDefinition
from tickwork.core.job_stamper import JobStamper, stamp_of
from tickwork.core.limits.debounce import Debounce
from tickwork.core.limits.task_limits import CallMerging, TaskLimits, decode_task_limits
from tickwork.core.placement import read_needs
from tickwork.core.retry import RetryPolicy
from tickwork.core.text.duration import parse_duration
from tickwork.core.text.suggestions import closest
from tickwork.errors import InvalidOption

DEFAULT_QUEUE = "default"
_NAME_LIMIT = 200
LONGEST = timedelta(days=365_000)  # beyond this, and outside of these years, databases and datetime disagree
_FIRST_YEAR, _LAST_YEAR = 1970, 8000
_LABELS_LIMIT = 32
REQUEST_TIMEOUT = timedelta(minutes=5)  # for jobs of the built-in tasks that wait for other hosts
NO_BOUND = 0  # the value that means max_lost=None in options, because None means that the option is not set


@dataclass(frozen=True)
class Options:
    """The options of a job besides its arguments. None means that an option is not set."""

    queue: str | None = None
    priority: int | None = None
    delay: timedelta | None = None
    at: datetime | None = None
    key: str | None = None
    key_for: timedelta | None = None
    if_exists: IfExists | None = None
    retries: int | None = None
    backoff: timedelta | None = None
    retry_on: tuple[str, ...] | None = None
    give_up_on: tuple[str, ...] | None = None
    on_lost: str | None = None
    max_lost: int | None = None  # NO_BOUND: unlimited
    timeout: timedelta | None = None
    expires: timedelta | datetime | None = None
    collection: str | None = None
    labels: tuple[str, ...] | None = None
    parent: str | None = None
    trace: str | None = None
    tenant: str | None = None
    needs: str | None = None
    tx: Any = None

    @classmethod
    def of_task(cls, name: str, definition: TaskDefinition | None) -> Options:
        """Return the default options of a task. Without a registered definition: the defaults of a built-in task."""
        if definition is None:
            return cls(timeout=REQUEST_TIMEOUT if name in REQUESTS else None)
        retry, policy, task_limits = (
            definition.policy.retry,
            definition.policy,
            decode_task_limits(definition.task_limits),
        )
        return cls(
            queue=definition.queue,
            priority=definition.priority,
            retries=retry.retries,
            backoff=retry.base,
            retry_on=policy.retry_on or None,
            give_up_on=policy.give_up_on or None,
            on_lost=policy.on_lost,
            max_lost=NO_BOUND if policy.max_lost is None else policy.max_lost,
            timeout=policy.timeout,
            expires=policy.expires,
            key_for=policy.key_for,
            tenant=task_limits.tenant,
            needs=task_limits.needs or None,
        )

    def updated(self, given: Mapping[str, Any]) -> Options:
        """Validate the given options and return these options with the given ones in place of their old values."""
        read = {name: read_option(name, value) for name, value in given.items()}
        if "delay" in read and "at" in read:
            raise InvalidOption("delay and at both say when: give one of them.")
        for said, other in (("delay", "at"), ("at", "delay")):
            if said in given:
                read[other] = None
        return replace(self, **read)

    def stamp(self, task: str, task_limits: TaskLimits) -> JobStamper | None:
        """Return the stamper for jobs of a task with these options; None if they are plain jobs.

        Raises InvalidOption if a debounced or throttled task is given a key or a time.
        """
        self.refuse_beside(task, task_limits.merging)
        return stamp_of(
            task,
            task_limits,
            queue=self.queue or DEFAULT_QUEUE,
            tenant=self.tenant,
            labels=self.labels or (),
            needs=self.needs or "",
        )

    def refuse_beside(self, task: str, merging: CallMerging | None) -> None:
        """Raise InvalidOption for an option that contradicts a debounce or throttle."""
        if merging is None:
            return
        is_debounce = isinstance(merging, Debounce)
        taken = ("key", "key_for", "if_exists", *(("delay", "at") if is_debounce else ()))
        if said := next((name for name in taken if getattr(self, name) is not None), None):
            done = "debounced" if is_debounce else "throttled"
            raise InvalidOption(f"task {task!r} is {done}, which says what {said} is: leave {said}= out.")

    def new_jobs(
        self,
        task: str,
        requests: Iterable[tuple[JobId, bytes]],
        stamp: JobStamper | None = None,
        creator: str | None = None,
    ) -> list[NewJob]:
        """Return jobs of one task with these ids and arguments.

        Raises InvalidOption for options that contradict each other.
        """
        shared = (*self._shared, creator)
        if stamp is None:
            return [NewJob(id, task, args, *shared) for id, args in requests]
        return [stamp.on(NewJob(id, task, args, *shared)) for id, args in requests]

    @cached_property
    def _shared(self) -> tuple[Any, ...]:
        """The values that all jobs with these options share, in the order of NewJob's fields."""
        if self.key is None and (self.if_exists is not None or self.key_for is not None):
            raise InvalidOption("if_exists and key_for are about a key: give key= as well. Nothing was stored.")
        return (
            self.queue or DEFAULT_QUEUE,
            PRIORITIES["normal"] if self.priority is None else self.priority,
            self.delay,
            self.at,
            self.expires if isinstance(self.expires, datetime) else None,
            self.policy(),
            self.key,
            self.if_exists or "return",
            self.collection,
            self.labels or (),
            self.parent,
            self.trace,
        )

    def policy(self) -> Policy:
        """Return the policy to store with a job."""
        standard = RetryPolicy()
        return Policy(
            retry=RetryPolicy(
                retries=standard.retries if self.retries is None else self.retries,
                base=standard.base if self.backoff is None else self.backoff,
            ),
            timeout=self.timeout,
            expires=self.expires if isinstance(self.expires, timedelta) else None,
            key_for=self.key_for,
            retry_on=self.retry_on or (),
            give_up_on=self.give_up_on or (),
            on_lost=self.on_lost or "retry",
            max_lost=MAX_LOST if self.max_lost is None else self.max_lost or None,
        )


def read_option(name: str, value: Any) -> Any:
    """Check an option and return it in its stored form.

    None unsets it, except for max_lost, where it means no bound.
    """
    reader = _READERS.get(name)
    if name in _DECLARED:
        raise InvalidOption(
            f"{name} is set where the task is declared, and applies to all of its jobs: {_DECLARED[name]}."
        )
    if reader is None:
        near = closest(name, _READERS)
        hint = f"did you mean {near!r}?" if near else f"the options are {', '.join(_READERS)}."
        raise InvalidOption(f"there is no option {name!r}; {hint}")
    return None if value is None and name != "max_lost" else reader(name, value)


def task_name(value: Any) -> str:
    """Return a task name after checking it. The name under which runs of dags are queued is refused."""
    if value == RUN:
        raise InvalidOption(f"no task is named {RUN!r}: it is what runs of dags wait as. Start a dag by its own name.")
    return _text("the name of a task", value)


def schedule_name(value: Any) -> str:
    """Return the name of a schedule after checking it."""
    return _text("the name of a schedule", value)


def calendar_name(value: Any) -> str:
    """Return the name of a calendar after checking it."""
    return _text("the name of a calendar", value)


def worker_name(value: Any) -> str:
    """Return the name that a REST worker gives itself, after checking it."""
    return _text("worker", value)


def exception_names(name: str, value: Any) -> tuple[str, ...]:
    """Return the names of exception types, which can be stored with the job."""
    types = value if isinstance(value, Iterable) else (value,)
    names = []
    for one in types:
        if not (isinstance(one, type) and issubclass(one, BaseException)):
            raise InvalidOption(f"{name} takes exception types, like ConnectionError; it was given {one!r}.")
        names.append(type_name(one))
    return tuple(names)


def type_name(one: type) -> str:
    """Return the name under which a type is stored.

    Types defined in a script are stored without their module name, which differs in a worker.
    """
    return one.__qualname__ if one.__module__ == "__main__" else f"{one.__module__}.{one.__qualname__}"


def matches(error: BaseException, names: tuple[str, ...]) -> bool:
    """Return whether an exception has one of the named types.

    `tasks.Refused` and `shop.tasks.Refused` are one type: the caller may have imported a module that the worker loads
    by path.
    """
    kinds = [f".{type_name(one)}" for one in type(error).__mro__]
    return any(kind.endswith(f".{name}") or f".{name}".endswith(kind) for kind in kinds for name in names)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value or len(value) > _NAME_LIMIT or not value.isprintable():
        raise InvalidOption(f"{name} must be a printable text of 1 to {_NAME_LIMIT} characters, not {_shown(value)}.")
    return value


def _priority(name: str, value: Any) -> int:
    if isinstance(value, str) and value in PRIORITIES:
        return PRIORITIES[value]
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LOWEST_PRIORITY:
        return value
    names = ", ".join(repr(known) for known in PRIORITIES)
    raise InvalidOption(f"priority must be one of {names} or a number from 0 (most urgent) to 9, not {_shown(value)}.")


def _duration(name: str, value: Any) -> timedelta:
    duration = parse_duration(value, what=name)
    if duration > LONGEST:
        raise InvalidOption(f"{name}: {_shown(value)} is too long; {LONGEST.days:,} days is the most.")
    return duration


def _timeout(name: str, value: Any) -> timedelta:
    timeout = _duration(name, value)
    if not timeout:
        raise InvalidOption("timeout is 0, which no handler can keep. Leave it out for no limit.")
    return timeout


def _queue(name: str, value: Any) -> str:
    queue = _text(name, value)
    if ":" in queue:
        raise InvalidOption(
            f"queue {queue!r} has a colon, which stands before a weight in -q NAME:WEIGHT. Use another sign."
        )
    return queue


def _instant(name: str, value: Any) -> datetime:
    if not isinstance(value, datetime):
        raise InvalidOption(f"{name} must be a datetime with a zone, not {_shown(value)}.")
    if value.tzinfo is None or value.utcoffset() is None:
        raise InvalidOption(
            f"{name} is {value.isoformat()} without a zone. Say which: datetime(..., tzinfo=timezone.utc)."
        )
    if not _FIRST_YEAR <= value.year <= _LAST_YEAR:
        raise InvalidOption(f"{name} is {value.isoformat()}; it must be in the years {_FIRST_YEAR} to {_LAST_YEAR}.")
    return value


def _count(name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 1_000_000:
        raise InvalidOption(f"{name} must be a whole number from 0 to 1,000,000, not {_shown(value)}.")
    return value


def _if_exists(name: str, value: Any) -> str:
    if value not in get_args(IfExists):
        raise InvalidOption(f"if_exists must be 'return', 'replace' or 'error', not {_shown(value)}.")
    return str(value)


def _expires(name: str, value: Any) -> timedelta | datetime:
    return _instant(name, value) if isinstance(value, datetime) else _duration(name, value)


def _labels(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
        raise InvalidOption(f"labels must be a list of texts, not {_shown(value)}.")
    labels = tuple(_text(name, label) for label in value)
    if len(labels) > _LABELS_LIMIT:
        raise InvalidOption(f"a job may have {_LABELS_LIMIT} labels, not {len(labels)}.")
    return labels


def _parent(name: str, value: Any) -> str:
    return _text(name, getattr(value, "id", value))


def _needs(name: str, value: Any) -> str:
    return read_needs(value).text


def _on_lost(name: str, value: Any) -> str:
    if value not in {"retry", "fail"}:
        raise InvalidOption(f"on_lost must be 'retry' or 'fail', not {_shown(value)}.")
    return str(value)


def _max_lost(name: str, value: Any) -> int:
    if value is None or (value == NO_BOUND and not isinstance(value, bool)):
        return NO_BOUND
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 1_000_000:
        raise InvalidOption(f"max_lost must be a whole number from 1 to 1,000,000, or None, not {_shown(value)}.")
    return value


def _as_given(name: str, value: Any) -> Any:
    return value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


_READERS = {
    "queue": _queue,
    "priority": _priority,
    "delay": _duration,
    "at": _instant,
    "key": _text,
    "key_for": _duration,
    "if_exists": _if_exists,
    "retries": _count,
    "backoff": _duration,
    "retry_on": exception_names,
    "give_up_on": exception_names,
    "on_lost": _on_lost,
    "max_lost": _max_lost,
    "timeout": _timeout,
    "expires": _expires,
    "collection": _text,
    "labels": _labels,
    "parent": _parent,
    "trace": _text,
    "tenant": _text,
    "needs": _needs,
    "tx": _as_given,
}
_DECLARED = {
    "limits": "@app.task(limits=[concurrency(2)])",
    "limit": '@app.task(limit="stripe")',
    "sequence": '@app.task(sequence="account")',
    "breaker": "@app.task(breaker=breaker())",
    "debounce": '@app.task(debounce=debounce("5s"))',
    "throttle": '@app.task(throttle=throttle("1m"))',
    "sticky": '@app.task(sticky="account")',
}
if set(_READERS) != {field.name for field in fields(Options)}:
    raise TypeError("every option needs a reader, and every reader an option")
