"""What a task says of flow control, and how that is stamped on its jobs.

A TaskFlow is stored with its task, so that whoever makes a job of it stamps the same: the program that declares the
task, one that knows its name alone, and the scheduler. A stamp is made once for a task with its options; what is the
same for all of its jobs is worked out then, and only limits that read arguments look into them. A task without any of
this, called without a tenant, has no stamp.
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
    """What is stored of a task for flow control.

    `queues` are the limits that its app declares for queues, by their names: they count where a job of the task goes.
    `defaults` is the JSON of the defaults of those parameters that keys and weights read. `tenant` and `needs` are
    those of jobs that say nothing else. `sticky` is the key whose jobs run in one place.
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
    """Return a TaskFlow as it is stored; None when there is nothing to say."""
    return None if flow == NO_FLOW else _FLOWS.encode(flow).decode()


@lru_cache(maxsize=1024)
def decode_task_flow(text: str | None) -> TaskFlow:
    """Return the TaskFlow that `encode_task_flow` was given. Raises InvalidInput for anything else."""
    return NO_FLOW if text is None else _FLOWS.decode(text.encode())


def breaker_name(task: str) -> str:
    """Return the name of a task's breaker among the limits."""
    return f"task:{task}#breaker"


def rules_of(task: str, flow: TaskFlow) -> Iterator[tuple[str, Rule]]:
    """The rules that a task and the queues of its app declare, by name."""
    for limits in (flow.limits, *flow.queues.values(), limits_of(flow.habit, task)):
        yield from ((limit.name or "", limit) for limit in limits if not isinstance(limit, Shared))
    if flow.breaker is not None:
        yield breaker_name(task), flow.breaker


def declared_rules(definitions: Iterable[TaskDefinition]) -> dict[str, Rule]:
    """The rules that the tasks of a worker declare to its store."""
    return {
        name: rule
        for task in definitions
        if task.flow is not None
        for name, rule in rules_of(task.name, decode_task_flow(task.flow))
    }


class JobStamper:
    """Stamps the jobs of one task that share their options."""

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
        names = {limit.name for limit in flow.limits}  # a job passes a limit once
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
        """Return a job with its stamp. Raises InvalidArguments for a key or a weight that is none, and for a job that
        is too heavy to start ever.
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
        """What is said of a job with these arguments, as fields of NewJob and `key_for`."""
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
    """Return what stamps the jobs of a task; None: they are plain."""
    says = flow.limits or flow.breaker or flow.habit or flow.sticky or tenant or needs or flow.queues.get(queue)
    return JobStamper(task, flow, queue, tenant, labels, needs) if says else None


def _reads(rule: LimitValue | Breaker | Habit) -> bool:
    """Whether a rule looks into arguments."""
    weight = getattr(rule, "weight", 1)
    return isinstance(weight, str) or (rule.key is not None and parameter_of(rule.key) is not None)
