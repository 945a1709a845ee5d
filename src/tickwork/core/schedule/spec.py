"""Schedule specs: the complete definition of a schedule as one value, and the merge of a declaration with edits.

Decorators, `app.schedule(...)`, YAML files and importers all produce specs, and stores keep them as JSON. The options
of the schedule's jobs include only those that differ from their task; all others are taken from the task, which may
change, when a job is made.

A schedule that code declares is merged three ways: edits made at run time are kept, changes made in code are applied.
Each field has three values: the last declaration, the stored value, and the new declaration. A field that code changed
takes the new value; a field that was edited at run time, and that code did not change, keeps the stored value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Literal, cast

import msgspec

from tickwork.core.ids import JobId
from tickwork.core.job import NewJob, TaskDefinition
from tickwork.core.job_options import Options, read_option, schedule_name
from tickwork.core.limits.task_limits import decode_task_limits
from tickwork.core.recurrence.base_rule import RuleValue
from tickwork.core.recurrence.combine import AnyRule, named
from tickwork.core.schedule.decide import rule_of
from tickwork.core.schedule.policy import POLICIES, SchedulePolicies, read_policies
from tickwork.errors import InvalidInput, InvalidOption

_VERSION = 1


class ScheduledJobOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Options of a schedule's jobs. If an option is None, the option of the task applies."""

    queue: str | None = None
    priority: int | None = None
    retries: int | None = None
    backoff: timedelta | None = None
    retry_on: tuple[str, ...] | None = None
    give_up_on: tuple[str, ...] | None = None
    on_lost: str | None = None
    max_lost: int | None = None
    timeout: timedelta | None = None
    expires: timedelta | None = None
    collection: str | None = None
    labels: tuple[str, ...] | None = None
    tenant: str | None = None
    needs: str | None = None


TargetKind = Literal["task", "dag"]


class ScheduleSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The definition of a schedule.

    `target` is the name of the task or dag that it starts; `args` are its arguments as JSON, as jobs carry them.
    `paused` is the initial state; afterwards pausing and resuming change it.
    """

    name: str
    target: str
    rule: AnyRule
    kind: TargetKind = "task"
    args: str = "{}"
    policies: SchedulePolicies = msgspec.field(default_factory=SchedulePolicies)
    options: ScheduledJobOptions = msgspec.field(default_factory=ScheduledJobOptions)
    paused: bool = False
    description: str | None = None

    def __post_init__(self) -> None:
        schedule_name(self.name)
        # raises InvalidOption for values that are not valid together
        rule_of(self.name, self.rule, self.policies.start, self.policies.calendars)

    @property
    def timing(self) -> bytes:
        """The fields that determine when it is due. A change of other fields moves and loses no occurrences."""
        policies = self.policies
        return _encoder.encode((self.rule, policies.start, policies.end, policies.calendars))

    @property
    def calendar_names(self) -> tuple[str, ...]:
        """The stored calendars that it uses."""
        return tuple(sorted(named(self.policies.calendars) | self.rule.calendar_names))


def new_spec(
    name: str, target: str, rule: RuleValue, args: bytes = b"{}", kind: TargetKind = "task", /, **given: Any
) -> ScheduleSpec:
    """Return a spec from policies and job options given by a caller. Raises InvalidOption."""
    paused = read_paused(given.pop("paused", None))
    description = given.pop("description", None)
    if description is not None and not isinstance(description, str):
        raise InvalidOption(f"description must be a text, not {description!r}.")
    policies, rest = split_policies(given)
    return ScheduleSpec(
        name=name,
        target=target,
        rule=cast("AnyRule", rule),
        kind=kind,
        args=args.decode(),
        policies=read_policies(policies),
        options=read_job_options(rest),
        paused=paused,
        description=description,
    )


def split_policies(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split options into policies and the rest. No policy has the name of a job option."""
    policies = {name: value for name, value in given.items() if name in POLICIES}
    return policies, {name: value for name, value in given.items() if name not in POLICIES}


def read_job_options(given: Mapping[str, Any]) -> ScheduledJobOptions:
    """Check options for the jobs of a schedule. Raises InvalidOption, also for options of a single job."""
    read = {}
    for name, value in given.items():
        checked = read_option(name, value)
        if name not in ScheduledJobOptions.__struct_fields__:
            raise InvalidOption(
                f"{name} is for a single job and does not go with a schedule, whose jobs share these options: "
                f"{', '.join(ScheduledJobOptions.__struct_fields__)}."
            )
        if isinstance(checked, datetime):
            raise InvalidOption(f"{name} of a schedule's jobs is a duration from when each is due, not {value!r}.")
        read[name] = checked
    return ScheduledJobOptions(**read)


def read_paused(value: Any) -> bool:
    """Return whether a schedule begins paused. Raises InvalidOption."""
    if value is not None and not isinstance(value, bool):
        raise InvalidOption(f"paused must be True or False, not {value!r}.")
    return bool(value)


def template(spec: ScheduleSpec, definition: TaskDefinition | None) -> NewJob:
    """Return the template of all jobs of a schedule; each job gets its own id, times and occurrence."""
    return job_template(spec.target, spec.args, spec.options, definition)


@lru_cache(maxsize=16_384)
def job_template(target: str, args: str, said: ScheduledJobOptions, definition: TaskDefinition | None) -> NewJob:
    """Return a job of a task or dag with overriding options; it has no id yet."""
    over = {name: value for name, value in msgspec.structs.asdict(said).items() if value is not None}
    over["key_for"] = None  # the overlap policy bounds the number of live runs; these jobs have no key
    options = replace(Options.of_task(target, definition), **over)
    task_limits = decode_task_limits(None if definition is None else definition.task_limits)
    stamp = options.stamp(
        target, msgspec.structs.replace(task_limits, merging=None)
    )  # debounce and throttle are keys, too
    (job,) = options.new_jobs(target, [(JobId(""), args.encode())], stamp)
    if definition is None:
        return job
    policy = msgspec.structs.replace(job.policy, produce=definition.policy.produce)
    return msgspec.structs.replace(job, policy=policy, version=definition.version)


# -- JSON in the store


class _StoredSpec(msgspec.Struct, frozen=True):
    version: int
    spec: ScheduleSpec


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_StoredSpec)


def spec_json(spec: ScheduleSpec) -> dict[str, Any]:
    """Return a spec in JSON types for display, with all policies and the rule in words."""
    said = msgspec.to_builtins(spec)
    return {
        "name": spec.name,
        "kind": spec.kind,
        "target": spec.target,
        "args": msgspec.json.decode(spec.args),
        "rule": {**said["rule"], "explained": spec.rule.explain()},
        "policies": msgspec.to_builtins(spec.policies),
        "options": said.get("options", {}),
        "description": spec.description,
    }


def encode_spec(spec: ScheduleSpec) -> str:
    """Return a spec as JSON; equal specs give the same text."""
    return _encoder.encode({"version": _VERSION, "spec": spec}).decode()


@lru_cache(maxsize=16_384)
def decode_spec(text: str) -> ScheduleSpec:
    """Return the spec that `encode_spec` encoded. Raises InvalidInput for anything else."""
    try:
        stored = _decoder.decode(text)
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"a stored schedule cannot be read: {error}. Was it written by a newer Tickwork?") from None
    if stored.version != _VERSION:
        raise InvalidInput(
            f"a stored schedule has version {stored.version}; this Tickwork reads {_VERSION}. Update it."
        )
    return stored.spec


_NESTED = ("policies", "options")  # structs, whose fields are merged one by one


def merge(base: ScheduleSpec | None, current: ScheduleSpec, declared: ScheduleSpec) -> ScheduleSpec:
    """Return a stored schedule merged with its new declaration. Without a base, it is the first declaration.

    If an edit and the declaration are not valid together, such as a jitter and a window, the declaration takes
    precedence.
    """
    if base is None:
        return declared
    before, stored, said = (msgspec.structs.asdict(spec) for spec in (base, current, declared))
    try:
        merged = {name: _merge(before[name], stored[name], said[name], nested=name in _NESTED) for name in said}
        if merged["target"] != current.target:
            merged["args"] = declared.args  # arguments belong to their target
        return ScheduleSpec(**merged)
    except InvalidOption:
        return declared


def _merge(before: Any, stored: Any, said: Any, *, nested: bool) -> Any:
    """Merge one value; with `nested`, merge each field of a struct."""
    if not nested:
        return stored if said == before else said
    fields = {
        name: _merge(getattr(before, name), getattr(stored, name), getattr(said, name), nested=False)
        for name in said.__struct_fields__
    }
    return type(said)(**fields)
