"""Stored flow control of a task (limits, breaker, debounce, needs), and how its values are set on each job.

A TaskLimits is stored with its task, so that every caller makes the same jobs of it: the program that declares the
task, one that knows only its name, and the scheduler. A `JobStamper` is made once for a task with its options; values
that are the same for all jobs are computed then, and only limits that read arguments are computed for each job. A task
without flow control, called without a tenant, has no stamper.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from tickwork.core.job import NewJob, TaskDefinition
from tickwork.core.limits.breaker import Breaker, Rule
from tickwork.core.limits.debounce import Debounce, Throttle, limits_of, options_of
from tickwork.core.limits.lanes import JobLimits
from tickwork.core.limits.limit_keys import key_text, parameter_of
from tickwork.core.limits.limits import AnyLimit, Concurrency, LimitUse, LimitValue, Shared, slots_of
from tickwork.core.placement.sticky import spot_of
from tickwork.core.versioned_json import VersionedJson

Habit = Debounce | Throttle


class TaskLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The flow control of a task, as it is stored.

    `queues` are the limits that its app declares for queues, by queue name: they apply to jobs of the task in that
    queue. `defaults` are the defaults, in JSON types, of the parameters that keys and weights read. `tenant` and
    `needs` apply to jobs that set no others. `sticky` is the key by which jobs are placed on one worker.
    """

    limits: tuple[AnyLimit, ...] = ()
    breaker: Breaker | None = None
    habit: Habit | None = None
    queues: dict[str, tuple[AnyLimit, ...]] = {}
    defaults: dict[str, Any] = {}
    tenant: str | None = None
    needs: str = ""
    sticky: str | None = None

    @property
    def parameters(self) -> set[str]:
        """The parameters that keys and weights read."""
        limits = [*self.limits, *(limit for owned in self.queues.values() for limit in owned)]
        said = [limit.key for limit in limits] + [limit.weight for limit in limits if isinstance(limit.weight, str)]
        said += [rule.key for rule in (self.breaker, self.habit) if rule is not None] + [self.sticky]
        return {name for key in said if key is not None and (name := parameter_of(key)) is not None}


NO_LIMITS = TaskLimits()
_TASK_LIMITS: VersionedJson[TaskLimits] = VersionedJson("limits", msgspec.json.Decoder(TaskLimits))
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def encode_task_limits(task_limits: TaskLimits) -> str | None:
    """Return the stored form of a TaskLimits; None if it has only defaults."""
    return None if task_limits == NO_LIMITS else _TASK_LIMITS.encode(task_limits).decode()


@lru_cache(maxsize=1024)
def decode_task_limits(text: str | None) -> TaskLimits:
    """Return the TaskLimits that `encode_task_limits` was given. Raises InvalidInput for any other text."""
    return NO_LIMITS if text is None else _TASK_LIMITS.decode(text.encode())


def breaker_name(task: str) -> str:
    """Return the name of a task's breaker among the limits."""
    return f"task:{task}#breaker"


def rules_of(task: str, task_limits: TaskLimits) -> Iterator[tuple[str, Rule]]:
    """Yield the rules that a task and the queues of its app declare, by name."""
    for limits in (task_limits.limits, *task_limits.queues.values(), limits_of(task_limits.habit, task)):
        yield from ((limit.name or "", limit) for limit in limits if not isinstance(limit, Shared))
    if task_limits.breaker is not None:
        yield breaker_name(task), task_limits.breaker


def declared_rules(definitions: Iterable[TaskDefinition]) -> dict[str, Rule]:
    """Return the rules that the tasks of a worker declare, by name."""
    return {
        name: rule
        for task in definitions
        if task.task_limits is not None
        for name, rule in rules_of(task.name, decode_task_limits(task.task_limits))
    }


class JobStamper:
    """Sets the flow-control fields of the jobs of one task that share their options."""

    __slots__ = (
        "_breaker",
        "_defaults",
        "_habit",
        "_is_sequence",
        "_labels",
        "_limits",
        "_needs",
        "_same",
        "_sticky",
        "_task",
        "_tenant",
    )

    def __init__(
        self, task: str, task_limits: TaskLimits, queue: str, tenant: str | None, labels: Sequence[str], needs: str
    ) -> None:
        self._task = task
        names = {limit.name for limit in task_limits.limits}  # a limit applies once to a job
        queues = (limit for limit in task_limits.queues.get(queue, ()) if limit.name not in names)
        self._limits = (*task_limits.limits, *queues, *limits_of(task_limits.habit, task))
        self._is_sequence = any(isinstance(limit, Concurrency) and limit.in_order for limit in self._limits)
        self._breaker = task_limits.breaker
        self._habit = task_limits.habit
        self._defaults = task_limits.defaults
        self._tenant = tenant
        self._labels = labels
        self._needs = needs
        self._sticky = task_limits.sticky
        rules = [*self._limits, *(rule for rule in (task_limits.breaker, task_limits.habit) if rule is not None)]
        reads = any(map(_reads, rules)) or (
            task_limits.sticky is not None and parameter_of(task_limits.sticky) is not None
        )
        self._same = None if reads else self._said({})

    @property
    def reads_arguments(self) -> bool:
        return self._same is None

    def on(self, job: NewJob) -> NewJob:
        """Return a job with its flow-control fields set.

        Raises InvalidArguments for an invalid key or weight, and for a job that is too heavy ever to start.
        """
        said = self._same
        if said is None:
            said = self._said({**self._defaults, **_decode(job.args)})
        if "key_for" in said:
            policy = msgspec.structs.replace(job.policy, key_for=said["key_for"])
            said = {**said, "policy": policy}
            del said["key_for"]
        return msgspec.structs.replace(job, **said)

    def _said(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields to set on a job with these arguments: fields of NewJob, and `key_for` of its policy."""
        slots = slots_of(self._limits, arguments, self._tenant, self._labels)
        if self._breaker is not None:
            key = key_text(self._breaker.key, arguments, self._tenant, self._labels)
            slots = (*slots, LimitUse(breaker_name(self._task), key, 1))
        spot = None
        if self._sticky is not None:
            spot = spot_of(key_text(self._sticky, arguments, self._tenant, self._labels))
        job_limits = None
        if slots or self._tenant or self._needs or spot is not None:
            job_limits = JobLimits(slots, self._tenant, self._needs, sequence=self._is_sequence, spot=spot)
        if self._habit is None:
            return {"job_limits": job_limits}
        return {"job_limits": job_limits, **options_of(self._habit, self._task, arguments, self._tenant, self._labels)}


def stamp_of(
    task: str, task_limits: TaskLimits, queue: str, tenant: str | None, labels: Sequence[str] = (), needs: str = ""
) -> JobStamper | None:
    """Return the stamper for the jobs of a task; None: they are plain jobs."""
    says = (
        task_limits.limits
        or task_limits.breaker
        or task_limits.habit
        or task_limits.sticky
        or tenant
        or needs
        or task_limits.queues.get(queue)
    )
    return JobStamper(task, task_limits, queue, tenant, labels, needs) if says else None


def _reads(rule: LimitValue | Breaker | Habit) -> bool:
    """Return whether a rule reads arguments."""
    weight = getattr(rule, "weight", 1)
    return isinstance(weight, str) or (rule.key is not None and parameter_of(rule.key) is not None)
