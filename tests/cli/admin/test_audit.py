"""Commands add what they change to the audit log, in the transaction of the change."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, Shop
from tickwork.errors import StoreError
from tickwork.store.admin.audit import AuditFilter, AuditRow

FILE = """\
dags: {d: {steps: {a: {task: t}}}}
schedules: {nightly: {task: t, every: 1d}}
"""


def rows(shop: Shop) -> list[tuple[str, str]]:
    """Actions and targets, the oldest first."""
    return [
        (one.change.action, one.change.target)
        for one in reversed(shop.app.store.audit.list_changes(AuditFilter(), 100))
    ]


def test_a_command_is_told_and_a_plain_job_is_not(cli: Cli, shop: Shop) -> None:
    cli.ok("enqueue", "report")
    id = cli.ok("enqueue", "shell", "--json", '{"command": ["id"]}').strip()
    assert rows(shop) == [("create_job", f"job:{id}")]
    (row,) = cli.json("audit")["items"]
    assert row["after"]["args"] == {"command": ["id"]}


def test_a_replacement_is_told_with_what_was_there(cli: Cli, shop: Shop) -> None:
    id = cli.ok("enqueue", "report", "--key", "k", "n=1").strip()
    cli.ok("enqueue", "report", "--key", "k", "--if-exists", "replace", "n=2")
    (row,) = shop.app.store.audit.list_changes(AuditFilter(), 10)
    assert row.change.target == f"job:{id}"
    assert (b'"n":1' in (row.change.before or b""), b'"n":2' in (row.change.after or b"")) == (True, True)


def test_a_run_that_is_started_as_a_job_is_told(cli: Cli, shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "jobs.yaml").write_text(FILE)
    cli.ok("apply", str(tmp_path / "jobs.yaml"))
    id = cli.ok("enqueue", "d", "--key", "k", "--in", "1h").strip()
    cli.ok("enqueue", "d", "--key", "k")  # it is there already
    assert [row for row in rows(shop) if row[0] != "apply"] == [("create_job", f"run {id}")]


def test_jobs_that_are_cancelled_retried_and_discarded(cli: Cli, shop: Shop) -> None:
    (failed,) = shop.failed("x")
    waiting = shop.add.enqueue(1)
    cli.ok("jobs", "cancel", waiting.id)
    cli("jobs", "cancel", waiting.id)  # nothing to do any more, and nothing to tell
    cli.ok("dead", "discard", "--task", "send")
    cli.ok("jobs", "retry", failed.id)
    shop.add.enqueue(2)
    cli.ok("jobs", "cancel", "--task", "add")
    cli.ok("jobs", "cancel", "--task", "nothing")
    assert rows(shop) == [
        ("cancel_job", f"job:{waiting.id}"),
        ("discard_dead", "jobs"),
        ("retry_job", f"job:{failed.id}"),
        ("cancel_jobs", "jobs"),
    ]


def test_administration(cli: Cli, shop: Shop) -> None:
    cli.ok("queues", "pause", "mail")
    cli.ok("queues", "resume", "mail")
    cli.ok("limits", "set", "stripe", "--rate", "10/s")
    cli.ok("tenants", "set", "acme", "3")
    cli.ok("notify", "channel", "ops", "--webhook", "https://example.org")
    cli.ok("notify", "add", "night", "--on", "failed", "--to", "ops")
    cli.ok("notify", "remove", "night")
    assert rows(shop) == [
        ("pause_queue", "gate pause queue=mail"),
        ("resume_queue", "gate queue=mail"),
        ("set_limit", "limit stripe"),
        ("set_tenant", "tenant acme"),
        ("put_channel", "channel:ops"),
        ("put_notification", "notification:night"),
        ("delete_notification", "notification:night"),
    ]


def test_apply_tells_each_change_with_before_and_after(cli: Cli, shop: Shop, tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(FILE)
    cli.ok("apply", str(file), "--dry-run")
    assert rows(shop) == []
    cli.ok("apply", str(file))
    cli.ok("apply", str(file))
    file.write_text(FILE.replace("1d", "2d"))
    cli.ok("apply", str(file))
    cli.ok("schedules", "pause", "nightly")
    cli.ok("schedules", "run", "nightly")
    cli.ok("run", "d")
    actions = rows(shop)
    assert [(action, target) for action, target in actions if action == "apply"] == [
        ("apply", "dag d"),
        ("apply", "schedule nightly"),
        ("apply", "schedule nightly"),
    ]
    assert [action for action, _ in actions[3:]] == ["pause_schedule", "trigger_schedule", "start_run"]
    edited = shop.app.store.audit.list_changes(AuditFilter(action="apply"), 1)[0].change
    assert (b"1d" in (edited.before or b"") or b"86400" in (edited.before or b"")) is True
    assert edited.after is not None


def test_apply_tells_all_that_is_said_of_what_is_new_and_of_what_is_gone(cli: Cli, shop: Shop, tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(
        "calendars: {c: {dates: [2026-12-25]}}\n"
        "dags: {d: {steps: {a: {shell: id}}}}\n"
        "schedules: {nightly: {shell: env, every: 1d}}\n"
        "hooks: {h: {style: github, secret: '${secret.A}', task: t}}\n"
    )
    cli.ok("apply", str(file))
    new = {one.change.target: one.change for one in shop.app.store.audit.list_changes(AuditFilter(action="apply"), 10)}
    file.write_text("dags: {e: {steps: {a: {task: t}}}}\n")
    cli.ok("apply", str(file), "--prune")
    gone = {one.change.target: one.change for one in shop.app.store.audit.list_changes(AuditFilter(action="apply"), 5)}
    said = {
        "dag d": b'"command":"id"',
        "schedule nightly": b'"shell":"env"',
        "calendar c": b"2026-12-25",
        "hook h": b"github",
    }
    assert set(new) == set(said)
    for target, part in said.items():
        assert (new[target].before, part in (new[target].after or b"")) == (None, True)
        assert part in (gone[target].before or b"")
        assert gone[target].after == b'{"change":"gone"}'


def test_without_its_row_a_command_changes_nothing(
    cli: Cli, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(store: object, changes: Sequence[AuditRow]) -> None:
        raise StoreError("the audit log cannot be written")

    monkeypatch.setattr(type(shop.app.store.audit), "record_changes", refuse)
    job = shop.add.enqueue(1)
    (tmp_path / "jobs.yaml").write_text(FILE)
    commands = (
        ("jobs", "cancel", job.id),
        ("queues", "pause", "mail"),
        ("apply", str(tmp_path / "jobs.yaml")),
        ("keys", "create", "deploy", "--scope", "read"),
        ("enqueue", "shell", "--json", '{"command": ["id"]}'),
    )
    for command in commands:
        result = cli(*command)
        assert result.exit_code != 0
        assert "the audit log cannot be written" in result.stderr
    store = shop.app.store
    assert job.state == "queued"
    assert (
        len(shop.app.jobs(limit=10)),
        store.limits.list_gates(),
        store.dags.list_dags(),
        store.access.list_api_keys(),
    ) == (1, [], [], [])
    assert store.schedules.list_schedules(10) == []


def test_verify_checks_the_chain_and_names_the_first_row_that_does_not_fit(cli: Cli, shop: Shop) -> None:
    assert cli.ok("audit", "verify") == "The audit log fits its chain: 0 rows. Head: none yet\n"
    cli.ok("tenants", "set", "acme", "3")
    cli.ok("tenants", "set", "acme", "4")
    shop.app.store.audit.link_changes(10)
    found = cli.json("audit", "verify")
    assert (found["fits"], found["rows"], found["head"].partition(":")[0], found["trouble"]) == (True, 2, "2", None)
    assert cli.ok("audit", "verify", "--head", found["head"]).endswith(f"Head: {found['head']}\n")
    assert cli("audit", "verify", "--head", "2:abc").exit_code == 1
    assert cli("audit", "verify", "--head", "abc").exit_code == 2
    table = "tickwork_audit" if shop.app.url.startswith("sqlite") else "tickwork.audit"
    with shop.app.connection() as tx:
        tx.execute(f"UPDATE {table} SET after = '9' WHERE id = (SELECT min(id) FROM {table})")
    result = cli("audit", "verify")
    assert result.exit_code == 1
    assert "set_tenant, tenant acme" in result.stderr
    assert "was changed after it had its link (1)" in result.stderr
    assert len(cli.json("audit", "--limit", "1")["items"]) == 1
