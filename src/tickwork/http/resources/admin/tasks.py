"""Tasks over REST, as workers have registered them."""

from __future__ import annotations

import msgspec

from tickwork.core.job import TaskDefinition
from tickwork.declare.export import duration_text
from tickwork.errors import UnknownTask
from tickwork.http.framework.pagination import PageQuery, is_storable_name, name_after
from tickwork.http.framework.route import Routes, Scope, Struct
from tickwork.http.request import Call

routes = Routes("tasks")


class TaskBody(Struct):
    """A task as a worker last registered it, or the newest `version` of a dag. `schema` describes its arguments."""

    name: str
    kind: str
    version: int | None
    queue: str
    priority: int
    retries: int
    backoff: str
    timeout: str | None
    expires: str | None
    schema: msgspec.Raw


class TaskPage(Struct):
    """Some tasks, by name."""

    items: list[TaskBody]
    next_cursor: str | None


@routes.get("/tasks", Scope.READ)
def list_tasks(call: Call, query: PageQuery) -> TaskPage:
    """List the tasks that workers have registered, and the dags, by name."""
    found = call.app.store.reads.task_definitions(query.limit, name_after(query))
    return TaskPage([_body(one) for one in found], found[-1].name if len(found) == query.limit else None)


@routes.get("/tasks/{name}", Scope.READ)
def get_task(call: Call, name: str) -> TaskBody:
    """Return what is known of a task. An unknown task can be enqueued all the same."""
    found = call.parts.registrations.task_definition(name) if is_storable_name(name) else None
    if found is None:
        raise UnknownTask(f"no worker has reported a task {name!r}.")
    return _body(found)


def _body(one: TaskDefinition) -> TaskBody:
    policy = one.policy
    return TaskBody(
        name=one.name,
        kind="task" if one.version is None else "dag",
        version=one.version,
        queue=one.queue,
        priority=one.priority,
        retries=policy.retry.retries,
        backoff=duration_text(policy.retry.base),
        timeout=None if policy.timeout is None else duration_text(policy.timeout),
        expires=None if policy.expires is None else duration_text(policy.expires),
        schema=msgspec.Raw(one.schema),
    )
