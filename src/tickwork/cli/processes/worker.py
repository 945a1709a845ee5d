"""`tickwork worker`: a supervisor that never runs user code, and child processes that do.

At its start it prints the queues it serves and the guarantees of its store; it logs plain lines to stderr. The first
SIGTERM or Ctrl-C drains it, and it exits with 0; the second one stops it at once.
"""

from __future__ import annotations

import logging
import os
import signal
from typing import TYPE_CHECKING

import click
from click.globals import pop_context

from tickwork.cli.command import (
    Command,
    Invocation,
    announce,
    log_to_stderr,
    pass_session,
    refuse_other_store,
    shown_url,
    url_option,
)
from tickwork.cli.processes.child_process import end_with_parent

if TYPE_CHECKING:
    from tickwork.core.workers.autoscale import AutoscaleRange
    from tickwork.store.base import Store
    from tickwork.worker.ipc.protocol import Hello
    from tickwork.worker.supervisor import SupervisorOptions

_log = logging.getLogger("tickwork.worker")
BUILTIN = "tickwork.cli.processes.empty_app"
_NAMES_SHOWN = 12


@click.command(
    cls=Command,
    example="tickwork worker shop.py\n"
    "tickwork worker shop.tasks:app -c 20 -q default -q mail:3 --processes 4\n"
    "tickwork worker shop.py --processes 1..8 --label gpu --resource mem=8GB,gpu=1\n"
    "tickwork worker shop.py --grace 60s --max-jobs 1000 --memory-mb 512\n"
    "tickwork worker --allow-shell\n"
    "tickwork worker --allow-shell --run-as nobody",
)
@click.argument("target", metavar="[MODULE_OR_FILE]", required=False)
@click.option(
    "-c", "--concurrency", metavar="N", type=click.IntRange(min=1), help="Slots in all, over all processes. Default 10."
)
@click.option(
    "-q",
    "--queue",
    "queues",
    metavar="QUEUE[:WEIGHT]",
    multiple=True,
    help="A queue to serve. Default: all queues of the tasks.",
)
@click.option(
    "--processes",
    metavar="N|LOW..HIGH",
    help="Child processes; with 1..8, more of them while jobs wait. Default: one for each processor that this process "
    "may use (CPU affinity, quota of its control group), at most one per slot.",
)
@click.option(
    "--label",
    "labels",
    metavar="LABEL",
    multiple=True,
    help="A label that jobs can require: gpu, region:eu.",
)
@click.option(
    "--resource",
    "resources",
    metavar="NAME=AMOUNT,...",
    multiple=True,
    help="Resources that running jobs share: mem=8GB,gpu=1.",
)
@click.option(
    "--lease",
    metavar="DURATION",
    help="Lease of its jobs without renewal. Default: 30s, or the setting.",
)
@click.option(
    "--grace", metavar="DURATION", default="20s", show_default=True, help="Grace period for running jobs after SIGTERM."
)
@click.option("--max-jobs", metavar="N", type=click.IntRange(min=1), help="Replace a child process after N jobs.")
@click.option(
    "--recycle-mb", metavar="MB", type=click.IntRange(min=1), help="Replace a child process of this size between jobs."
)
@click.option(
    "--memory-mb",
    metavar="MB",
    type=click.IntRange(min=1),
    help="Memory limit of a child process; beyond it, MemoryError.",
)
@click.option(
    "--allow-shell",
    "shell",
    is_flag=True,
    help="Run the task shell, too: any user who can write to the store can run any command as this user.",
)
@click.option(
    "--run-as",
    metavar="USER",
    help="Run commands as this user and its primary group. Requires root.",
)
@click.option(
    "--health-port",
    "health",
    metavar="[ADDRESS:]PORT",
    help="Serve /healthz, /readyz and /metrics there; without an address, only on this machine.",
)
@click.option("--with-parent", type=int, hidden=True, help="The process that started this one, to end with it.")
@url_option
@pass_session
def worker(
    session: Invocation,
    target: str | None,
    concurrency: int | None,
    queues: tuple[str, ...],
    processes: str | None,
    labels: tuple[str, ...],
    resources: tuple[str, ...],
    lease: str | None,
    grace: str,
    max_jobs: int | None,
    recycle_mb: int | None,
    memory_mb: int | None,
    shell: bool,
    run_as: str | None,
    health: str | None,
    with_parent: int | None,
) -> None:
    """Run the tasks of a module or file, until told to stop.

    SIGTERM or Ctrl-C: running jobs finish within the grace period, the rest is released, exit code 0. A second one
    stops at once.
    """
    from tickwork.worker.process.hide_environment import clear_start_environment
    from tickwork.worker.tasks.run_as import find_user

    if target is None and not shell:
        raise click.UsageError("give MODULE_OR_FILE, or --allow-shell to run only commands.")
    if run_as is not None and not shell:
        raise click.UsageError("--run-as is for commands, which this worker does not run: add --allow-shell.")
    clear_start_environment()
    if run_as is not None:
        find_user(run_as)  # raises if the children cannot run as that user
    log_to_stderr("%(asctime)s %(level)-7s %(message)s", logging.INFO)
    signal.signal(signal.SIGTERM, _leave)  # until the supervisor handles it
    if with_parent is not None:
        end_with_parent(with_parent)
    if session.url is not None:
        os.environ["TICKWORK_URL"] = session.url  # for the children, which open the store named by the user's code
    limits = (max_jobs, recycle_mb, memory_mb)
    offer = (labels, ",".join(resources))
    commands = (shell, run_as)
    options = _options(
        target or BUILTIN, concurrency, queues, processes, offer, (lease, grace), limits, commands, health
    )
    import tickwork.app  # noqa: F401  # children are forks of what is imported here
    from tickwork.worker.process.fork_server import start_fork_server_by_fork
    from tickwork.worker.supervisor import supervise

    def started(hello: Hello, store: Store) -> None:
        refuse_other_store(session.url, hello.settings["url"] or "")
        _introduce(hello, store, options)

    supervise(options, _open_store, started, start_fork_server_by_fork(_forget_command))


def _forget_command() -> None:
    """Leave click's context of this command, because user code in the children may look for its own."""
    while click.get_current_context(silent=True) is not None:
        pop_context()


def _options(
    target: str,
    concurrency: int | None,
    queues: tuple[str, ...],
    processes: str | None,
    offer: tuple[tuple[str, ...], str],
    times: tuple[str | None, str],
    limits: tuple[int | None, int | None, int | None],
    commands: tuple[bool, str | None],
    health: str | None,
) -> SupervisorOptions:
    """Return the supervisor's options from those of the command. Raises InvalidOption."""
    from tickwork.core.placement import read_offer
    from tickwork.core.text.duration import parse_duration
    from tickwork.core.workers.autoscale import read_processes
    from tickwork.worker.process.child_starter import ChildLimits
    from tickwork.worker.process.cpu_count import usable_cpus
    from tickwork.worker.supervisor import SLOTS, SupervisorOptions, parse_queues

    lease, grace = times
    slots = concurrency or SLOTS
    return SupervisorOptions(
        target=target,
        queues=parse_queues(list(queues)),
        slots=slots,
        processes=read_processes(processes or min(slots, usable_cpus())),
        lease=None if lease is None else parse_duration(lease, what="--lease"),
        grace=parse_duration(grace, what="--grace"),
        limits=ChildLimits(*limits),
        shell=commands[0],
        run_as=commands[1],
        offer=read_offer(*offer),
        health=health,
    )


def _open_store(settings: dict[str, str | None]) -> Store:
    from tickwork.app import open_store
    from tickwork.config import load_settings

    return open_store(load_settings(settings))


def _introduce(hello: Hello, store: Store, options: SupervisorOptions) -> None:
    """Print the facts about this worker once, before its first job."""
    from tickwork.worker.supervisor import queues_of
    from tickwork.worker.tasks.builtin import NAMES

    queues = options.queues or queues_of(hello)
    tasks = sorted(task.name for task in hello.tasks)
    health = store.health()
    lines = {
        "store": health.facts.get("store", shown_url(store.url)),
        "durability": health.facts.get("durability", "unknown"),
        "tasks": _names(tasks),
        "queues": ", ".join(name if weight == 1 else f"{name}:{weight:g}" for name, weight in queues),
        "slots": f"{options.slots} in {_processes(options.processes)}",
        "pid": f"{os.getpid()} (SIGTERM or Ctrl-C: finish what runs, then exit)",
    }
    if offered := options.offer.shown:
        lines["has"] = ", ".join(offered)
    if options.shell:
        user = "this worker's user" if options.run_as is None else f"the user {options.run_as}"
        lines["shell"] = f"on: any user who can write to the store can run any command as {user}"
    announce(lines)
    for warning in health.warnings:
        _log.warning("%s", warning)
    served = {name for name, _ in queues}
    for task in sorted(hello.tasks, key=lambda task: task.name):
        if task.queue not in served and task.name not in NAMES:
            _log.warning(
                "Task %s goes to queue %r, which this worker does not serve: -q %s", task.name, task.queue, task.queue
            )


def _processes(rule: AutoscaleRange) -> str:
    count = str(rule.high) if rule.low == rule.high else f"{rule.low} to {rule.high}"
    return f"{count} process{'es' if rule.high > 1 else ''}"


def _names(names: list[str]) -> str:
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return ", ".join(names[:_NAMES_SHOWN]) + more


def _leave(number: int, frame: object) -> None:
    raise SystemExit(0)
