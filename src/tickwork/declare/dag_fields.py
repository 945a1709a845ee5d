"""The fields of dags, schedules, calendars and hooks in a file, with their types and descriptions.

Files are read into these Structs, and the JSON Schema for editors is generated from them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tickwork.core.dag.graph import RunIf
from tickwork.core.hooks import Style

ParamType = Literal["string", "integer", "number", "boolean", "array", "object"]
Method = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]


Duration = Annotated[str, Meta(examples=["30s"])]
Instant = Annotated[str, Meta(examples=["2026-12-24T18:00:00+01:00"])]


class _Fields(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base class of the Structs of a file. Unknown fields are an error, and fields with a default are optional."""


class ParamFields(_Fields):
    """A parameter of the runs of a dag. It is required if it has no default."""

    type: ParamType | UnsetType = UNSET
    default: Annotated[Any, Meta(description="Value of a run that does not set it.")] = UNSET
    enum: Annotated[list[Any], Meta(description="The values that it may have.")] | UnsetType = UNSET
    description: str | UnsetType = UNSET


class HmacFields(_Fields):
    """How to sign the body; the signature is sent in a header."""

    secret: Annotated[str, Meta(description="What signs it, mostly a secret: ${secret.NAME}.")]
    header: Annotated[str, Meta(description="Default: X-Tickwork-Signature.")] | UnsetType = UNSET


class AuthFields(_Fields):
    """The credentials of the request; exactly one of these."""

    basic: Annotated[str, Meta(description="user:password, mostly a secret: ${secret.NAME}.")] | UnsetType = UNSET
    bearer: Annotated[str, Meta(description="A token, mostly a secret: ${secret.NAME}.")] | UnsetType = UNSET
    hmac: HmacFields | UnsetType = UNSET


class HttpFields(_Fields):
    """An HTTP request. Values may contain expressions; url, headers and auth may contain secrets."""

    url: str
    method: Method = "GET"
    headers: dict[str, str] | UnsetType = UNSET
    json: Annotated[Any, Meta(description="The body, sent as JSON.")] = UNSET
    body: Annotated[str, Meta(description="The body, sent as it is.")] | UnsetType = UNSET
    auth: AuthFields | UnsetType = UNSET
    expect: (
        Annotated[list[int | str], Meta(description="Statuses that are a success: 200, 2xx, 200-204. Default: 2xx.")]
        | UnsetType
    ) = UNSET
    timeout: Annotated[str, Meta(description="For all of it. Default: 30s.", examples=["30s"])] | UnsetType = UNSET
    connect_timeout: Annotated[str, Meta(description="Default: 10s.", examples=["10s"])] | UnsetType = UNSET


class ApproveFields(_Fields):
    """A step that waits for the approval of a person."""

    text: Annotated[str, Meta(description="The question.")]
    who: Annotated[list[str], Meta(description="Who may answer. Default: any user.")] | UnsetType = UNSET
    timeout: Annotated[str, Meta(description="How long. Default: for ever.", examples=["2h"])] | UnsetType = UNSET
    default: Annotated[
        Literal["approve", "reject"], Meta(description="The answer after the timeout. Default: reject.")
    ] = "reject"


class StepFields(_Fields):
    """A step: one of task, shell, http and approve, the steps that it waits for, and the options of its jobs."""

    task: Annotated[str, Meta(description="The name of the task that it runs.")] | UnsetType = UNSET
    args: Annotated[dict[str, Any], Meta(description="The arguments of the task, by name.")] | UnsetType = UNSET
    shell: Annotated[str | list[str], Meta(description="A command; values reach it through env.")] | UnsetType = UNSET
    env: (
        Annotated[dict[str, str | int | float | bool], Meta(description="For the command, over the worker's own.")]
        | UnsetType
    ) = UNSET
    cwd: Annotated[str, Meta(description="The folder of the command.")] | UnsetType = UNSET
    stdin: Annotated[str, Meta(description="Standard input of the command.")] | UnsetType = UNSET
    interpreter: Annotated[str, Meta(description="Who runs the command. Default: /bin/sh.")] | UnsetType = UNSET
    http: HttpFields | UnsetType = UNSET
    approve: str | ApproveFields | UnsetType = UNSET
    needs: (
        Annotated[str | list[str], Meta(description="Steps to wait for; those in expressions are waited for anyway.")]
        | UnsetType
    ) = UNSET
    run_if: Annotated[RunIf, Meta(description="How its parents must have ended.")] = "all_succeeded"
    may_fail: Annotated[bool, Meta(description="Its failure does not fail the run.")] = False
    when: (
        Annotated[str | list[str], Meta(description="Conditions that must all hold: ${count.result} > 10.")] | UnsetType
    ) = UNSET
    map: (
        Annotated[
            str | list[Any] | dict[str, str | list[Any]],
            Meta(description="One job for each element, which is ${item}; of several by name, ${item.NAME}."),
        ]
        | UnsetType
    ) = UNSET
    product: Annotated[bool, Meta(description="Several go each with each, not side by side.")] = False
    max_parallel: (
        Annotated[int, Meta(ge=1, description="How many of its jobs may run at once, in one run.")] | UnsetType
    ) = UNSET
    group: Annotated[str, Meta(description="Where it is drawn.")] | UnsetType = UNSET
    produce: Annotated[str | list[str], Meta(description="Assets that are new when it succeeds.")] | UnsetType = UNSET
    queue: str | UnsetType = UNSET
    priority: Annotated[int | str, Meta(description="high, normal, low, or 0 (most urgent) to 9.")] | UnsetType = UNSET
    retries: Annotated[int, Meta(ge=0)] | UnsetType = UNSET
    backoff: Annotated[str, Meta(description="The wait before the first retry.", examples=["1s"])] | UnsetType = UNSET
    timeout: Annotated[str, Meta(description="How long an attempt may take.", examples=["30s"])] | UnsetType = UNSET
    expires: Annotated[str, Meta(description="It must start so soon after it is due.", examples=["1h"])] | UnsetType = (
        UNSET
    )
    on_lost: Literal["retry", "fail"] | UnsetType = UNSET
    max_lost: (
        Annotated[int, Meta(ge=1, description="It fails when this number of attempts in a row were lost.")] | UnsetType
    ) = UNSET
    labels: list[str] | UnsetType = UNSET
    tenant: str | UnsetType = UNSET
    resources: (
        Annotated[dict[str, bool | int | float | str], Meta(description="Needs that its worker must meet: {mem: 8GB}.")]
        | UnsetType
    ) = UNSET


class AllAssets(_Fields):
    """Assets that must all be updated before a run starts."""

    all: list[str]


class CalendarFields(_Fields):
    """Days on which schedules that use this calendar have no occurrences."""

    dates: list[str] | UnsetType = UNSET
    yearly: list[str] | UnsetType = UNSET
    weekdays: list[str] | UnsetType = UNSET
    ics: str | UnsetType = UNSET
    tz: str | UnsetType = UNSET


class ScheduleFields(_Fields):
    """When runs start automatically: one rule, policies, and the parameters of these runs."""

    args: Annotated[dict[str, Any], Meta(description="The parameters of its runs.")] | UnsetType = UNSET
    cron: str | UnsetType = UNSET
    every: str | UnsetType = UNSET
    after: str | UnsetType = UNSET
    at: str | list[str] | UnsetType = UNSET
    rrule: str | UnsetType = UNSET
    any_of: list[dict[str, Any]] | UnsetType = UNSET
    all_of: list[dict[str, Any]] | UnsetType = UNSET
    tz: str | UnsetType = UNSET
    dst: Literal["once", "skip", "both", "shift"] | UnsetType = UNSET
    dialect: Literal["standard", "quartz", "aws"] | UnsetType = UNSET
    spread_by: Annotated[str, Meta(description="What H is spread by. Default: the name.")] | UnsetType = UNSET
    catchup: Literal["all", "latest", "none"] | UnsetType = UNSET
    catchup_limit: int | UnsetType = UNSET
    wait_for_previous: bool | UnsetType = UNSET
    catchup_age: Duration | UnsetType = UNSET
    overlap: Literal["allow", "skip", "queue", "cancel"] | UnsetType = UNSET
    jitter: Duration | UnsetType = UNSET
    window: Duration | UnsetType = UNSET
    start: Instant | UnsetType = UNSET
    end: Instant | UnsetType = UNSET
    max_runs: int | UnsetType = UNSET
    deadline: Duration | UnsetType = UNSET
    calendars: str | list[str | CalendarFields] | UnsetType = UNSET
    paused: bool | UnsetType = UNSET
    description: str | UnsetType = UNSET
    priority: int | str | UnsetType = UNSET
    expires: Duration | UnsetType = UNSET
    collection: str | UnsetType = UNSET
    labels: list[str] | UnsetType = UNSET
    tenant: str | UnsetType = UNSET


class TaskScheduleFields(ScheduleFields):
    """A schedule of a task, a dag, a command, or an HTTP request."""

    task: Annotated[str, Meta(description="The name of the task that it starts.")] | UnsetType = UNSET
    dag: Annotated[str, Meta(description="The name of the dag that it starts.")] | UnsetType = UNSET
    shell: Annotated[str | list[str], Meta(description="A command that it starts.")] | UnsetType = UNSET
    http: HttpFields | UnsetType = UNSET
    env: dict[str, str] | UnsetType = UNSET
    cwd: str | UnsetType = UNSET
    stdin: str | UnsetType = UNSET
    interpreter: str | UnsetType = UNSET
    queue: str | UnsetType = UNSET
    retries: int | UnsetType = UNSET
    backoff: Duration | UnsetType = UNSET
    timeout: Duration | UnsetType = UNSET
    on_lost: Literal["retry", "fail"] | UnsetType = UNSET
    max_lost: (
        Annotated[int, Meta(ge=1, description="It fails when this number of attempts in a row were lost.")] | UnsetType
    ) = UNSET
    needs: dict[str, bool | int | float | str] | UnsetType = UNSET
    retry_on: Annotated[list[str], Meta(description="Exceptions by name.")] | UnsetType = UNSET
    give_up_on: Annotated[list[str], Meta(description="Exceptions by name.")] | UnsetType = UNSET


class HookFields(_Fields):
    """An endpoint for webhook messages of another service: how they are signed, and which task or dag they start."""

    style: Annotated[Style, Meta(description="Whose signatures: GitHub's, Stripe's, or X-Tickwork-Signature.")]
    secret: Annotated[str, Meta(description="The name of the secret: ${secret.NAME}, or NAME.")]
    task: Annotated[str, Meta(description="The name of the task that it starts.")] | UnsetType = UNSET
    dag: Annotated[str, Meta(description="The name of the dag that it starts.")] | UnsetType = UNSET
    args: (
        Annotated[dict[str, Any], Meta(description="The arguments, by name; ${body.data.id} is a part of the message.")]
        | UnsetType
    ) = UNSET
    key: Annotated[str, Meta(description="Key of a message: ${body.id}.")] | UnsetType = UNSET
    events: Annotated[list[str], Meta(description="The types that are taken. Default: all.")] | UnsetType = UNSET
    window: (
        Annotated[str, Meta(description="How long none is taken twice. Default: a day.", examples=["1d"])] | UnsetType
    ) = UNSET
    description: str | UnsetType = UNSET


class DagFields(_Fields):
    """A dag: its steps, the parameters of its runs, and when the runs start."""

    steps: dict[str, StepFields]
    description: str | UnsetType = UNSET
    params: (
        Annotated[dict[str, ParamType | ParamFields], Meta(description="The parameters of a run, by name.")] | UnsetType
    ) = UNSET
    result: Annotated[Any, Meta(description="Result of a run: ${report.result}.")] = UNSET
    schedule: ScheduleFields | UnsetType = UNSET
    on: (
        Annotated[
            str | list[str] | AllAssets, Meta(description="A run starts when one of these assets is new, or all.")
        ]
        | UnsetType
    ) = UNSET
    produce: Annotated[str | list[str], Meta(description="Assets that are new when a run succeeds.")] | UnsetType = (
        UNSET
    )


class FileFields(_Fields):
    """Dags, schedules, calendars and hooks declared without Python: `tickwork check FILE`, `tickwork apply FILE`."""

    dags: dict[str, DagFields] | UnsetType = UNSET
    schedules: dict[str, TaskScheduleFields] | UnsetType = UNSET
    calendars: dict[str, CalendarFields] | UnsetType = UNSET
    hooks: dict[str, HookFields] | UnsetType = UNSET


def file_schema() -> dict[str, Any]:
    """Return the JSON Schema of a file, for editors."""
    schema = msgspec.json.schema(FileFields)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Tickwork", **schema}
