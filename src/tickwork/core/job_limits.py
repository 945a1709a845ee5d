"""Stored flow control of a task (limits, breaker, debounce, needs), and how its values are set on each job.

A TaskFlow is stored with its task, so that every caller makes the same jobs of it: the program that declares the task,
one that knows only its name, and the scheduler. A `JobStamper` is made once for a task with its options; values that
are the same for all jobs are computed then, and only limits that read arguments are computed for each job. A task
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
from tickwork.core.limits.lanes import Flow
from tickwork.core.limits.limit_keys import key_text, parameter_of
from tickwork.core.limits.limits import AnyLimit, Concurrency, LimitUse, LimitValue, Shared, slots_of
from tickwork.core.placement.sticky import spot_of
from tickwork.core.versioned_json import VersionedJson

Habit = Debounce | Throttle


class TaskFlow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
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


NO_FLOW = TaskFlow()
_FLOWS: VersionedJson[TaskFlow] = VersionedJson("flow", msgspec.json.Decoder(TaskFlow))
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def encode_task_flow(flow: TaskFlow) -> str | None:
    """Return the stored form of a TaskFlow; None if it has only defaults."""
    return None if flow == NO_FLOW else _FLOWS.encode(flow).decode()


@lru_cache(maxsize=1024)
def decode_task_flow(text: str | None) -> TaskFlow:
    """Return the TaskFlow that `encode_task_flow` was given. Raises InvalidInput for any other text."""
    return NO_FLOW if text is None else _FLOWS.decode(text.encode())


def breaker_name(task: str) -> str:
    """Return the name of a task's breaker among the limits."""
    return f"task:{task}#breaker"


def rules_of(task: str, flow: TaskFlow) -> Iterator[tuple[str, Rule]]:
    """Yield the rules that a task and the queues of its app declare, by name."""
    for limits in (flow.limits, *flow.queues.values(), limits_of(flow.habit, task)):
        yield from ((limit.name or "", limit) for limit in limits if not isinstance(limit, Shared))
    if flow.breaker is not None:
        yield breaker_name(task), flow.breaker


def declared_rules(definitions: Iterable[TaskDefinition]) -> dict[str, Rule]:
    """Return the rules that the tasks of a worker declare, by name."""
    return {
        name: rule
        for task in definitions
        if task.flow is not None
        for name, rule in rules_of(task.name, decode_task_flow(task.flow))
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
        self, task: str, flow: TaskFlow, queue: str, tenant: str | None, labels: Sequence[str], needs: str
    ) -> None:
        self._task = task
        names = {limit.name for limit in flow.limits}  # a limit applies once to a job
        queues = (limit for limit in flow.queues.get(queue, ()) if limit.name not in names)
        self._limits = (*flow.limits, *queues, *limits_of(flow.habit, task))
        self._is_sequence = any(isinstance(limit, Concurrency) and limit.in_order for limit in self._limits)
        self._breaker = flow.breaker
        self._habit = flow.habit
        self._defaults = flow.defaults
        self._tenant = tenant
        self._labels = labels
        self._needs = needs
        self._sticky = flow.sticky
        rules = [*self._limits, *(rule for rule in (flow.breaker, flow.habit) if rule is not None)]
        reads = any(map(_reads, rules)) or (flow.sticky is not None and parameter_of(flow.sticky) is not None)
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
        flow = None
        if slots or self._tenant or self._needs or spot is not None:
            flow = Flow(slots, self._tenant, self._needs, sequence=self._is_sequence, spot=spot)
        if self._habit is None:
            return {"flow": flow}
        return {"flow": flow, **options_of(self._habit, self._task, arguments, self._tenant, self._labels)}


def stamp_of(
    task: str, flow: TaskFlow, queue: str, tenant: str | None, labels: Sequence[str] = (), needs: str = ""
) -> JobStamper | None:
    """Return the stamper for the jobs of a task; None: they are plain jobs."""
    says = flow.limits or flow.breaker or flow.habit or flow.sticky or tenant or needs or flow.queues.get(queue)
    return JobStamper(task, flow, queue, tenant, labels, needs) if says else None


def _reads(rule: LimitValue | Breaker | Habit) -> bool:
    """Return whether a rule reads arguments."""
    weight = getattr(rule, "weight", 1)
    return isinstance(weight, str) or (rule.key is not None and parameter_of(rule.key) is not None)
