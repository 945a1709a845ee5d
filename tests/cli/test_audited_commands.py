"""Each command that changes a store leaves a row of the audit log: found in the tree of commands, called, looked up.

A new command fails here until it is named: with a call of it and what its row has, or among those that leave none.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from tests.cli.conftest import Cli, Shop
from tests.store.contents import contents
from tests.waiting import eventually
from tickwork import every
from tickwork.cli.main import main
from tickwork.cli.write_audit_rows import by
from tickwork.core.limits.limits import concurrency
from tickwork.errors import StoreError
from tickwork.store.admin.audit import AuditFilter, AuditRow

ANY = AuditFilter()
READS = {
    *("audit", "audit verify", "check", "config", "cron explain", "dags diff", "dags list", "dags show", "db sql"),
    *("db status", "dead list", "doctor", "gates list", "hooks list", "hooks show", "import wfformat", "jobs list"),
    *("jobs logs", "jobs show", "jobs why", "keys list", "limits list", "notify list", "queues", "queues list"),
    *("runs list", "runs logs", "runs show", "runs watch", "runs why", "schedules list", "schedules next"),
    *("schedules show", "secrets list", "tenants list", "users list", "version", "workers"),
}
NOT_AUDITED = {
    **dict.fromkeys(READS, "it changes nothing"),
    **dict.fromkeys(("demo", "dev", "server", "up", "worker"), "a process: what it does has rows and creators"),
    "db upgrade": "the table of migrations tells of it",
}
FILE = "dags: {d: {steps: {a: {task: t}}}}\n"
COMMAND = ("enqueue", "shell", "--json", '{"command": ["id"]}')
CRONJOB = """\
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "0 3 * * *"
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, command: [id]}]}}}}
"""


class Desk:
    """A shop with commands, and what they need beforehand."""

    def __init__(self, cli: Cli, shop: Shop, folder: Path) -> None:
        self.ok, self.shop, self.folder = cli.ok, shop, folder

    def file(self, name: str, text: str) -> str:
        (self.folder / name).write_text(text)
        return name

    def dag(self, text: str = FILE) -> None:
        self.ok("apply", self.file("jobs.yaml", text))

    def later(self) -> str:
        return self.ok("enqueue", "add", "a=1", "--in", "1h").strip()

    def dead(self) -> str:
        return self.shop.failed("x")[0].id

    def schedule(self) -> None:
        self.shop.app.schedule("s", "t", every("1h"))

    def paused_schedule(self) -> None:
        self.schedule()
        self.ok("schedules", "pause", "s", "--reason", "a")

    def run(self) -> str:
        self.dag()
        return self.ok("run", "d").strip()

    def ended_run(self) -> str:
        self.dag("dags: {d: {steps: {a: {task: send, args: {to: ada}, retries: 0, queue: mail}}}}\n")
        id = self.ok("run", "d").strip()
        run = self.shop.app.run(id)
        with self.shop.app.worker(queues=["default", "mail"]):
            eventually(lambda: run is not None and run.state == "failed")
        return id

    def asking_run(self) -> str:
        self.dag("dags: {d: {steps: {a: {approve: {text: Go?}}}}}\n")
        id = self.ok("run", "d").strip()
        run = self.shop.app.run(id)
        with self.shop.app.worker(queues=["default"]):
            eventually(lambda: run is not None and "approval" in run.why("a"))
        return id


class Verb(NamedTuple):
    """A command, after what is made first; its action, and which sides its row has: before, after, or both."""

    action: str
    sides: str
    words: tuple[str, ...]
    first: Callable[[Desk], str | None] = lambda desk: None
    input: str | None = None


def said(*words: str, input: str | None = None) -> Callable[[Desk], None]:
    return lambda desk: desk.ok(*words, input=input) and None


def verb(action: str, sides: str, *words: str, first: Callable[[Desk], str | None] | None = None) -> Verb:
    return Verb(action, sides, words, first or (lambda desk: None))


HOOK = ("hooks", "add", "h", "--style", "github", "--secret", "A", "--task")
NOTIFY = ("notify", "add", "n", "--to", "ops", "--on")
CHANNEL = ("notify", "channel", "ops", "--webhook")
KEY = ("keys", "create", "k", "--scope", "read")
ADA = ("users", "add", "ada", "--role", "viewer", "--password-stdin")


def notified(desk: Desk) -> None:
    desk.ok(*CHANNEL, "https://example.org/a")
    desk.ok(*NOTIFY, "failed")


VERBS: dict[str, Verb] = {
    "apply": verb("apply", "after", "apply", "jobs.yaml", first=lambda desk: desk.file("jobs.yaml", FILE)),
    "dead discard": verb("discard_dead", "both", "dead", "discard", "{}", first=Desk.dead),
    "dead redrive": verb("redrive_dead", "both", "dead", "redrive", "{}", first=Desk.dead),
    "enqueue": verb("create_job", "after", *COMMAND),
    "gates divert": verb("divert_jobs", "after", "gates", "divert", "--task", "t", "--to", "q"),
    "gates drop": verb("drop_jobs", "after", "gates", "drop", "--task", "t"),
    "gates pause": verb(
        "pause_jobs",
        "both",
        "gates",
        "pause",
        "--task",
        "t",
        first=said("gates", "pause", "--task", "t", "--reason", "a"),
    ),
    "gates resume": verb(
        "resume_jobs", "before", "gates", "resume", "--task", "t", first=said("gates", "pause", "--task", "t")
    ),
    "gates slow": verb("slow_jobs", "after", "gates", "slow", "--task", "t", "--rate", "5/s"),
    "hooks add": verb("put_hook", "both", *HOOK, "u", first=said(*HOOK, "t")),
    "hooks remove": verb("delete_hook", "before", "hooks", "remove", "h", first=said(*HOOK, "t")),
    "import crontab": verb(
        "import_schedules",
        "after",
        *("import", "crontab", "crontab", "--tz", "UTC"),
        first=lambda desk: desk.file("crontab", "0 3 * * * /usr/bin/id\n"),
    ),
    "import k8s-cronjob": verb(
        "import_schedules",
        "after",
        *("import", "k8s-cronjob", "job.yaml"),
        first=lambda desk: desk.file("job.yaml", CRONJOB),
    ),
    "jobs cancel": verb("cancel_job", "both", "jobs", "cancel", "{}", first=Desk.later),
    "jobs retry": verb("retry_job", "both", "jobs", "retry", "{}", first=Desk.later),
    "keys create": verb("create_api_key", "after", *KEY),
    "keys revoke": verb("revoke_api_key", "both", "keys", "revoke", "k", first=said(*KEY)),
    "limits set": verb(
        "set_limit",
        "both",
        *("limits", "set", "l", "--rate", "5/s"),
        first=said("limits", "set", "l", "--concurrency", "2"),
    ),
    "notify add": verb("put_notification", "both", *NOTIFY, "dead", first=notified),
    "notify channel": verb("put_channel", "both", *CHANNEL, "https://example.org/b", first=notified),
    "notify remove": verb("delete_notification", "before", "notify", "remove", "n", first=notified),
    "notify remove-channel": verb(
        "delete_channel", "before", "notify", "remove-channel", "ops", first=said(*CHANNEL, "https://example.org/a")
    ),
    "notify test": verb("test_notification", "after", "notify", "test", "n", first=notified),
    "queues limit": verb(
        "set_limit",
        "both",
        *("queues", "limit", "q", "--concurrency", "2"),
        first=lambda desk: desk.shop.app.store.limits.declare_limits({"queue:q#1": concurrency(5)}),
    ),
    "queues pause": verb("pause_queue", "after", "queues", "pause", "q"),
    "queues resume": verb("resume_queue", "before", "queues", "resume", "q", first=said("queues", "pause", "q")),
    "run": verb("start_run", "after", "run", "d", first=Desk.dag),
    "runs approve": verb("approve_step", "after", "runs", "approve", "{}", "a", first=Desk.asking_run),
    "runs cancel": verb("cancel_run", "both", "runs", "cancel", "{}", first=Desk.run),
    "runs clear": verb("rerun_run", "both", "runs", "clear", "{}", "a", first=Desk.ended_run),
    "runs reject": verb("approve_step", "after", "runs", "reject", "{}", "a", first=Desk.asking_run),
    "runs rerun": verb("rerun_run", "both", "runs", "rerun", "{}", first=Desk.ended_run),
    "schedules backfill": verb(
        "backfill_schedule",
        "after",
        "schedules",
        "backfill",
        "s",
        "2026-01-01T00:01Z",
        "2026-01-01T00:02Z",
        first=Desk.schedule,
    ),
    "schedules delete": verb("delete_schedule", "before", "schedules", "delete", "s", first=Desk.schedule),
    "schedules pause": verb("pause_schedule", "both", "schedules", "pause", "s", "--reason", "a", first=Desk.schedule),
    "schedules resume": verb("resume_schedule", "both", "schedules", "resume", "s", first=Desk.paused_schedule),
    "schedules run": verb("trigger_schedule", "after", "schedules", "run", "s", first=Desk.schedule),
    "secrets delete": verb(
        "delete_secret", "before", "secrets", "delete", "S", first=said("secrets", "set", "S", input="a")
    ),
    "secrets set": verb(
        "set_secret", "both", "secrets", "set", "S", "--for", "task:t", first=said("secrets", "set", "S", input="a")
    )._replace(input="b"),
    "tenants set": verb("set_tenant", "both", "tenants", "set", "acme", "3"),
    "users add": verb("create_user", "after", *ADA)._replace(input="correct horse\n"),
    "users passwd": verb(
        "change_user", "both", "users", "passwd", "ada", "--password-stdin", first=said(*ADA, input="correct horse\n")
    )._replace(input="battery staple\n"),
    "users remove": verb("remove_user", "before", "users", "remove", "ada", first=said(*ADA, input="correct horse\n")),
}


def words_of(verb: Verb, made: str | None) -> list[str]:
    return [word.replace("{}", made or "") for word in verb.words]


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[str]:
    context = click.Context(command)
    if not isinstance(command, click.Group) or (path and command.invoke_without_command):
        yield " ".join(path)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from commands(inner, (*path, name))


def test_each_command_that_changes_something_is_named_here() -> None:
    assert set(commands(main)) == set(VERBS) | set(NOT_AUDITED)
    assert not set(VERBS) & set(NOT_AUDITED)


@pytest.mark.parametrize("name", VERBS)
def test_it_leaves_a_row_with_how_it_was_and_how_it_is(
    cli: Cli, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("TICKWORK_SECRET_KEY", "11" * 32)
    verb, desk = VERBS[name], Desk(cli, shop, tmp_path)
    made = verb.first(desk)
    known = {one.id for one in shop.app.store.audit.list_changes(ANY, 100)}
    cli.ok(*words_of(verb, made), input=verb.input)
    found = [one.change for one in shop.app.store.audit.list_changes(ANY, 100) if one.id not in known]
    assert {change.action for change in found} == {verb.action}
    (change,) = found
    assert change.who == by()
    assert change.target
    assert (change.before is not None) == (verb.sides in ("before", "both")), change
    if verb.sides in ("after", "both"):
        assert change.after is not None
        assert change.before != change.after


@pytest.mark.parametrize("name", VERBS)
def test_without_its_row_it_changes_nothing(
    cli: Cli, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def refuse(store: object, changes: Sequence[AuditRow]) -> None:
        assert {change.action for change in changes} == {verb.action}
        raise StoreError("the audit log cannot be written")

    monkeypatch.setenv("TICKWORK_SECRET_KEY", "11" * 32)
    verb, desk = VERBS[name], Desk(cli, shop, tmp_path)
    words = words_of(verb, verb.first(desk))
    before = contents(shop.app.store)
    monkeypatch.setattr(type(shop.app.store.audit), "record_changes", refuse)
    result = cli(*words, input=verb.input)
    assert "the audit log cannot be written" in result.stderr
    assert contents(shop.app.store) == before
