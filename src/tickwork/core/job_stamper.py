"""Set the limits of a task on each of its jobs.

TaskLimits are stored with their task, so that every caller makes the same jobs of it: the program that declares the
task, one that knows only its name, and the scheduler. A `JobStamper` is made once for a task with its options; values
that are the same for all jobs are computed then, and only limits that read arguments are computed for each job. A task
without limits, called without a tenant, has no stamper.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tickwork.core.job import NewJob, TaskDefinition
from tickwork.core.limits.breaker import Breaker, Rule
from tickwork.core.limits.debounce import limits_of, options_of
from tickwork.core.limits.job_limits import JobLimits, LimitUse
from tickwork.core.limits.limit_keys import key_text, parameter_of
from tickwork.core.limits.limits import Concurrency, LimitValue, limit_uses
from tickwork.core.limits.task_limits import CallMerging, TaskLimits, breaker_name, decode_task_limits, rules_of
from tickwork.core.placement import spot_of

_decode = msgspec.json.Decoder(dict[str, Any]).decode


def declared_rules(definitions: Iterable[TaskDefinition]) -> dict[str, Rule]:
    """Return the rules that the tasks of a worker declare, by name."""
    return {
        name: rule
        for task in definitions
        if task.task_limits is not None
        for name, rule in rules_of(task.name, decode_task_limits(task.task_limits))
    }


class JobStamper:
    """Sets the fields for limits and placement of the jobs of one task that share their options."""

    __slots__ = (
        "_breaker",
        "_defaults",
        "_is_sequence",
        "_labels",
        "_limits",
        "_merging",
        "_needs",
        "_same",
        "_sticky",
        "_task",
        "_tenant",
    )

    def __init__(
        self, task: str, task_limits: TaskLimits, *, queue: str, tenant: str | None, labels: Sequence[str], needs: str
    ) -> None:
        self._task = task
        names = {limit.name for limit in task_limits.limits}  # a limit applies once to a job
        queues = (limit for limit in task_limits.queues.get(queue, ()) if limit.name not in names)
        self._limits = (*task_limits.limits, *queues, *limits_of(task_limits.merging, task))
        self._is_sequence = any(isinstance(limit, Concurrency) and limit.in_order for limit in self._limits)
        self._breaker = task_limits.breaker
        self._merging = task_limits.merging
        self._defaults = task_limits.defaults
        self._tenant = tenant
        self._labels = labels
        self._needs = needs
        self._sticky = task_limits.sticky
        rules = [*self._limits, *(rule for rule in (task_limits.breaker, task_limits.merging) if rule is not None)]
        reads = any(map(_reads, rules)) or (
            task_limits.sticky is not None and parameter_of(task_limits.sticky) is not None
        )
        self._same = None if reads else self._fields({})

    @property
    def reads_arguments(self) -> bool:
        return self._same is None

    def on(self, job: NewJob) -> NewJob:
        """Return a job with its fields for limits and placement set.

        Raises InvalidArguments for an invalid key or weight, and for a job that is too heavy ever to start.
        """
        fields = self._same
        if fields is None:
            fields = self._fields({**self._defaults, **_decode(job.args)})
        if "key_for" in fields:
            policy = msgspec.structs.replace(job.policy, key_for=fields["key_for"])
            fields = {**fields, "policy": policy}
            del fields["key_for"]
        return msgspec.structs.replace(job, **fields)

    def _fields(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields to set on a job with these arguments: fields of NewJob, and `key_for` of its policy."""
        uses = limit_uses(self._limits, arguments, self._tenant, self._labels)
        if self._breaker is not None:
            key = key_text(self._breaker.key, arguments, self._tenant, self._labels)
            uses = (*uses, LimitUse(breaker_name(self._task), key, 1))
        spot = None
        if self._sticky is not None:
            spot = spot_of(key_text(self._sticky, arguments, self._tenant, self._labels))
        job_limits = None
        if uses or self._tenant or self._needs or spot is not None:
            job_limits = JobLimits(uses, self._tenant, self._needs, sequence=self._is_sequence, spot=spot)
        if self._merging is None:
            return {"job_limits": job_limits}
        return {
            "job_limits": job_limits,
            **options_of(self._merging, self._task, arguments, self._tenant, self._labels),
        }


def stamp_of(
    task: str, task_limits: TaskLimits, *, queue: str, tenant: str | None, labels: Sequence[str] = (), needs: str = ""
) -> JobStamper | None:
    """Return the stamper for the jobs of a task; None if they are plain jobs."""
    is_limited = (
        task_limits.limits
        or task_limits.breaker
        or task_limits.merging
        or task_limits.sticky
        or tenant
        or needs
        or task_limits.queues.get(queue)
    )
    if not is_limited:
        return None
    return JobStamper(task, task_limits, queue=queue, tenant=tenant, labels=labels, needs=needs)


def _reads(rule: LimitValue | Breaker | CallMerging) -> bool:
    """Return whether computing the values of a rule for a job needs its arguments."""
    weight = getattr(rule, "weight", 1)
    return isinstance(weight, str) or (rule.key is not None and parameter_of(rule.key) is not None)
