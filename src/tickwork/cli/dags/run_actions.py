"""Act on runs: `tickwork runs cancel|rerun|clear|approve|reject`."""

from __future__ import annotations

import getpass
from typing import Any

import click

from tickwork.cli.command import Command, Invocation, found_jobs, found_run, json_option, pass_session, url_option
from tickwork.cli.output import print_result, stored_json
from tickwork.cli.write_audit_rows import AuditedChange, recorded
from tickwork.errors import InvalidInput


@click.command("cancel", cls=Command, example="tickwork runs cancel 019a8f3e-1c2d-7abc-8def-0123456789ab")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@json_option
@url_option
@pass_session
@click.pass_context
def cancel(ctx: click.Context, session: Invocation, /, ids: tuple[str, ...], as_json: bool) -> None:
    """Cancel runs.

    Waiting steps end, running steps are asked to stop, and teardown steps run.
    """
    from tickwork.cli.jobs.jobs import change_jobs, tell

    app = session.app()
    for id in ids:
        found_run(app, id)
    jobs = found_jobs(app, ids)
    done = change_jobs(app, "cancel_run", app.store.cancel_jobs, jobs, "run ")
    tell(ctx, list(jobs), done, "cancelled", as_json, what="run")


@click.command(
    "rerun",
    cls=Command,
    example="tickwork runs rerun ID                      # failed steps and their dependents\n"
    "tickwork runs rerun ID --from load --from 'transform[3]'\n"
    "tickwork runs rerun ID --with day=2026-11-16  # all steps, with another parameter",
)
@click.argument("id")
@click.option("--from", "steps", metavar="STEP", multiple=True, help="Start with this step, or instance; repeatable.")
@click.option("--only-failed", is_flag=True, help="Start with failed steps, even if --with changes a parameter.")
@click.option("--with", "changed", metavar="KEY=VALUE", multiple=True, help="Change a parameter; repeatable.")
@json_option
@url_option
@pass_session
def rerun(
    session: Invocation,
    /,
    id: str,
    steps: tuple[str, ...],
    only_failed: bool,
    changed: tuple[str, ...],
    as_json: bool,
) -> None:
    """Run the failed steps of an ended run again, or the given ones.

    All steps that depend on them run again, too. The other steps keep their results.
    """
    from tickwork.cli.jobs.enqueue import read_arguments

    if steps and only_failed:
        raise InvalidInput("--from and --only-failed exclude each other: give one of them.")
    params = read_arguments(changed, None)[1]
    _rerun(session, id, steps, as_json, params=params or None, only_failed=only_failed)


@click.command("clear", cls=Command, example="tickwork runs clear ID load")
@click.argument("id")
@click.argument("steps", metavar="STEP...", nargs=-1, required=True)
@json_option
@url_option
@pass_session
def clear(session: Invocation, /, id: str, steps: tuple[str, ...], as_json: bool) -> None:
    """Reset steps of an ended run, so that they run again.

    All steps that depend on them run again, too. The same as rerun --from STEP.
    """
    _rerun(session, id, steps, as_json)


def _rerun(session: Invocation, id: str, steps: tuple[str, ...], as_json: bool, **how: Any) -> None:
    app = session.app()
    run = found_run(app, id)
    before = {"state": run.seen.state.value, "params": stored_json(run.seen.args)}
    told = AuditedChange(f"run {run.id}", before, {"from": steps, **how})
    recorded(app, "rerun_run", lambda: run.rerun(*steps, **how), told)
    started = f" from {', '.join(steps)}" if steps else ""
    said = f"Run {run.id} runs again{started}. Follow it: tickwork runs watch {run.id}"
    print_result(as_json, {"id": run.id, "state": run.state, "from": steps}, said)


@click.command("approve", cls=Command, example='tickwork runs approve ID confirm --note "looks right"')
@click.argument("id")
@click.argument("step")
@click.option("--note", metavar="TEXT", help="A note that is stored with the answer.")
@json_option
@url_option
@pass_session
def approve(session: Invocation, /, id: str, step: str, note: str | None, as_json: bool) -> None:
    """Approve a step that waits for approval, in your name."""
    _answer(session, id, step, True, note, as_json)


@click.command("reject", cls=Command, example='tickwork runs reject ID confirm --note "too many rows"')
@click.argument("id")
@click.argument("step")
@click.option("--note", metavar="TEXT", help="A note that is stored with the answer.")
@json_option
@url_option
@pass_session
def reject(session: Invocation, /, id: str, step: str, note: str | None, as_json: bool) -> None:
    """Reject a step that waits for approval, in your name.

    The step fails.
    """
    _answer(session, id, step, False, note, as_json)


def _answer(session: Invocation, id: str, step: str, approved: bool, note: str | None, as_json: bool) -> None:
    app, by = session.app(), getpass.getuser()
    run = found_run(app, id)
    answer = run.approve if approved else run.reject
    told = AuditedChange(f"run {run.id}", after={"step": step, "approved": approved, "note": note})
    recorded(app, "approve_step", lambda: answer(step, by=by, note=note), told)
    verb = "approved" if approved else "rejected"
    value = {"id": run.id, "step": step, "answer": verb, "by": by, "note": note}
    print_result(as_json, value, f"{verb.capitalize()} {step} of run {run.id} as {by}.")
