"""Rerun a job over REST: create a new job like an existing one, with some changes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from tickwork.core.access.scopes import is_sensitive, told_job
from tickwork.core.job import JobView, NewJob
from tickwork.core.occurrence import encode_occurrence
from tickwork.http.framework.params import Span, duration, instant
from tickwork.http.framework.problems import Problem
from tickwork.http.framework.route import API, HandlerResult, Routes, Scope, Struct
from tickwork.http.request import Call, recorded
from tickwork.http.resources.jobs.job_bodies import ExistingJobBody, JobBody, needs_of
from tickwork.http.resources.jobs.jobs import answered, found
from tickwork.http.work_scopes import argument_names, check_work

routes = Routes("jobs")


class RerunJobBody(Struct):
    """The changes: all arguments by name, the queue, the priority, and the time.

    Fields that are left out are copied from the old job.
    """

    args: dict[str, Any] | None = None
    queue: str | None = None
    priority: int | str | None = None
    at: datetime | None = None
    delay: Span | None = None


@routes.post("/jobs/{id}/rerun", Scope.ENQUEUE, status=201, also={201: ExistingJobBody})
def rerun_job(call: Call, id: str, body: RerunJobBody) -> JobBody | HandlerResult:
    """Create a new job with the task, options and arguments of this job, and with changes. The old job stays.

    The new job has the old one as its `parent_id`. It has no key, since the old job has that. Callers without the
    scope `read` only get its id and state. 409 for a run or a step of one: rerun these with /runs/{id}/rerun.
    """
    old = found(call, id).view
    _check_plain(old)
    is_edited = body.queue is not None or (body.args is not None and body.args != msgspec.json.decode(old.args))
    if is_edited or Scope.OPERATE not in call.who.scopes:  # unchanged, it is a retry, which takes `operate`
        check_work(call, [(old.task, argument_names(old.args) if body.args is None else body.args)])
    new = _new_job(call, old, body)
    if body.args is None and not is_sensitive(new):
        view = call.parts.group_commit.insert(new)
    else:
        view = recorded(call, "rerun_job", lambda: _stored(call, old, new))
    shown = answered(call, view, is_new=False)  # its options are the old job's
    return HandlerResult(shown, 201, {"Location": f"{API}/jobs/{view.id}"})


def _stored(call: Call, old: JobView, new: NewJob) -> JobView:
    """Store the new job, and add it to the audit log with the old one."""
    (job,) = call.app.client.enqueue([new])
    view = job.view
    call.changed(f"job:{view.id}", before={"id": old.id, **(told_job(old) or {})}, after=told_job(view))
    return view


def _check_plain(old: JobView) -> None:
    """Raise Problem (409) for a run of a dag, or a step of one."""
    run = old.id if old.version is not None else old.run
    if run is not None:
        what = "a run of a dag" if old.version is not None else f"step {old.step!r} of run {run}"
        raise Problem(409, "of-a-run", f"job {old.id} is {what}: run that again with POST {API}/runs/{run}/rerun.")


def _new_job(call: Call, old: JobView, body: RerunJobBody) -> NewJob:
    """Return the new job: the old one's task, options and arguments, with the changes of the body."""
    when = {"at": instant("at", body.at), "delay": None if body.delay is None else duration("delay", body.delay)}
    task = call.app.named(old.task).options(
        key=None,
        key_for=None,
        queue=old.queue if body.queue is None else body.queue,
        priority=old.priority if body.priority is None else body.priority,
        collection=old.collection,
        labels=list(old.labels),
        tenant=None if old.job_limits is None else old.job_limits.tenant,
        needs=needs_of(old),
        parent=old.id,
        **{name: value for name, value in when.items() if value is not None},
    )
    job = task.job_with(old.args) if body.args is None else task.job_named(body.args)
    policy = msgspec.structs.replace(old.policy, key_for=None)
    return msgspec.structs.replace(
        job, policy=policy, occurrence=None if old.occurrence is None else encode_occurrence(old.occurrence)
    )
