"""`tickwork keys`, `users`, `secrets` and `audit`, on both stores, and a server that accepts these credentials."""

import json
from datetime import timedelta
from pathlib import Path

import httpx2
import pytest

from tests.cli.conftest import Cli, Shop
from tests.cli.programs import program
from tests.waiting import eventually
from tickwork.core.access.scopes import read_token
from tickwork.http import server as http_server
from tickwork.http.server import ServerOptions
from tickwork.security import credentials
from tickwork.security.credentials import is_password

PASSWORD = "correct horse"
CANARY = "canary-6f1ed002-value"


@pytest.fixture(autouse=True)
def quick_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    # The cost is no setting, so that no installation lowers it.
    monkeypatch.setattr(credentials, "_COST", 16)
    monkeypatch.setenv("TICKWORK_SECRET_KEY", "ab" * 32)


class TestKeys:
    def test_an_empty_list_says_how_to_begin(self, cli: Cli, shop: Shop) -> None:
        assert cli.ok("keys", "list").startswith("No keys yet.")

    def test_a_key_is_printed_once_alone_on_its_line(self, cli: Cli, shop: Shop) -> None:
        result = cli("keys", "create", "deploy", "--scope", "read", "--scope", "enqueue", "--expires", "90d")
        token = read_token(result.stdout.strip())
        assert token is not None
        assert "This is shown once. It expires 20" in result.stderr
        assert "Revoke it: tickwork keys revoke deploy" in result.stderr
        (key,) = cli.json("keys", "list")["items"]
        assert (key["name"], key["scopes"], key["state"]) == ("deploy", ["read", "enqueue"], "live")
        assert key["created_by"].startswith("cli:")
        listed = cli.ok("keys", "list")
        assert listed.splitlines()[1].split()[:3] == ["deploy", f"twk_{token.id}", "live"]
        assert token.secret not in listed + json.dumps(key) + cli.ok("audit", "--json")

    def test_a_key_expires_after_90_days_unless_it_is_said_otherwise(self, cli: Cli, shop: Shop) -> None:
        def lasts(name: str, *options: str) -> float | None:
            cli.ok("keys", "create", name, "--scope", "read", *options)
            (made,) = [key for key in shop.app.store.access.list_api_keys() if key.name == name]
            return None if made.expires_at is None else (made.expires_at - made.created_at) / timedelta(days=1)

        assert [lasts("a"), lasts("b", "--expires", "12h"), lasts("c", "--never")] == [90, 0.5, None]
        (finding,) = [one for one in cli.json("doctor")["warnings"] if "expires in" in one]
        assert finding.startswith("The API key b expires in 11h59m")

    def test_a_revoked_key_stays_in_the_list(self, cli: Cli, shop: Shop) -> None:
        made = cli.json("keys", "create", "deploy", "--scope", "admin")
        assert cli.ok("keys", "revoke", "deploy") == f"deploy ({made['prefix']}) is revoked.\n"
        assert "was revoked before" in cli.ok("keys", "revoke", made["id"])
        assert [key["state"] for key in cli.json("keys", "list")["items"]] == ["revoked"]
        result = cli("keys", "revoke", "deploy")
        assert (result.exit_code, "there is no key 'deploy'" in result.stderr) == (3, True)

    @pytest.mark.parametrize(
        "arguments",
        [
            ("deploy",),
            ("deploy", "--scope", "all"),
            ("", "--scope", "read"),
            ("deploy", "--scope", "read", "--expires", "soon"),
            ("deploy", "--scope", "read", "--expires", "0s"),
            ("deploy", "--scope", "read", "--expires", "1d", "--never"),
        ],
    )
    def test_a_mistake_makes_no_key(self, cli: Cli, shop: Shop, arguments: tuple[str, ...]) -> None:
        assert cli("keys", "create", *arguments).exit_code == 2
        assert shop.app.store.access.list_api_keys() == []


class TestUsers:
    def test_a_user_is_added_with_a_password_that_is_asked_for_twice(self, cli: Cli, shop: Shop) -> None:
        assert cli.ok("users", "list").startswith("No users yet.")
        said = cli.ok("users", "add", "ada", "--role", "operator", input=f"{PASSWORD}\n{PASSWORD}\n")
        assert said == "Added ada with role operator.\n"
        user = shop.app.store.access.get_user("ada")
        assert user is not None
        assert is_password(PASSWORD, user.password)
        assert cli.ok("users", "list").splitlines()[1].split()[:2] == ["ada", "operator"]
        assert "password" not in json.dumps(cli.json("users", "list"))

    def test_a_password_may_come_from_stdin_and_be_changed(self, cli: Cli, shop: Shop) -> None:
        cli.ok("users", "add", "ada", "--role", "admin", "--password-stdin", input=f"{PASSWORD}\nmore\n")
        assert cli.ok("users", "passwd", "ada", "--password-stdin", input="another horse") == (
            "Changed the password of ada.\n"
        )
        user = shop.app.store.access.get_user("ada")
        assert user is not None
        assert is_password("another horse", user.password)
        assert PASSWORD not in cli.ok("audit", "--json")

    def test_a_user_is_removed_once(self, cli: Cli, shop: Shop) -> None:
        cli.ok("users", "add", "ada", "--role", "viewer", "--password-stdin", input=PASSWORD)
        assert cli.ok("users", "remove", "ada") == "Removed ada.\n"
        for command in ("remove", "passwd"):
            result = cli("users", command, "ada")
            assert (result.exit_code, "there is no user 'ada'" in result.stderr) == (3, True)

    @pytest.mark.parametrize("typed", ["short", "", "x" * 1025])
    def test_a_bad_password_makes_no_user(self, cli: Cli, shop: Shop, typed: str) -> None:
        result = cli("users", "add", "ada", "--role", "admin", "--password-stdin", input=typed)
        assert (result.exit_code, "a password has 8 to 1024 characters" in result.stderr) == (2, True)
        assert shop.app.store.access.list_users() == []


class TestSecrets:
    def test_a_secret_comes_from_stdin_and_is_never_shown(self, cli: Cli, shop: Shop) -> None:
        assert cli.ok("secrets", "list").startswith("No secrets yet.")
        assert cli.ok("secrets", "set", "TOKEN", input=f"{CANARY}\n") == "Set TOKEN.\n"
        assert shop.app.vault.get("TOKEN") == CANARY
        listed = cli.ok("secrets", "list") + cli.ok("secrets", "list", "--json") + cli.ok("audit", "--json")
        assert "TOKEN" in listed
        assert CANARY not in listed
        assert cli.ok("secrets", "delete", "TOKEN") == "Deleted TOKEN.\n"
        assert cli("secrets", "delete", "TOKEN").exit_code == 3

    def test_without_a_key_it_says_how_to_get_one(self, cli: Cli, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TICKWORK_SECRET_KEY", "x")
        result = cli("secrets", "set", "TOKEN", input=CANARY)
        assert (result.exit_code, "openssl rand -hex 32" in result.stderr) == (1, True)


def test_audit_tells_what_these_commands_did(cli: Cli, shop: Shop) -> None:
    assert cli.ok("audit") == "No changes.\n"
    cli.ok("keys", "create", "deploy", "--scope", "read")
    cli.ok("users", "add", "ada", "--role", "viewer", "--password-stdin", input=PASSWORD)
    lines = cli.ok("audit").splitlines()
    assert lines[0].split() == ["AT", "WHO", "ACTION", "TARGET", "FROM", "AFTER"]
    assert lines[1].split()[4:6] == ["create_user", "user:ada"]
    assert [row["target"] for row in cli.json("audit", "--action", "create_api_key")["items"]] == ["key:deploy"]
    assert len(cli.json("audit", "--since", "1h", "--limit", "1")["items"]) == 1
    assert cli.json("audit", "--since", "2100-01-01T00:00Z")["items"] == []
    assert cli("audit", "--since", "yesterday").exit_code == 2
    assert cli("audit", "--since", "2026-01-01T00:00").exit_code == 2


class TestServer:
    def test_it_does_not_listen_beyond_this_machine_while_there_are_no_credentials(
        self, cli: Cli, file_url: str
    ) -> None:
        result = cli("server", "--host", "0.0.0.0", "--port", "0")
        assert result.exit_code == 2
        for said in ("can be reached from other machines", "tickwork users add NAME", "tickwork keys create NAME"):
            assert said in result.stderr

    def test_dev_binds_this_machine_alone(self, cli: Cli, file_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TICKWORK_TOKEN", "door")
        cli.ok("keys", "create", "deploy", "--scope", "admin")
        result = cli("server", "--dev", "--host", "0.0.0.0", "--port", "0")
        assert (result.exit_code, "--dev lets a token do everything" in result.stderr) == (2, True)

    def test_it_lets_in_whom_the_store_knows_and_no_token_of_dev(self, cli: Cli, file_url: str, tmp_path: Path) -> None:
        with program(tmp_path, "server", "--port", "0", TICKWORK_TOKEN="door") as server:
            server.says("no users and no API keys exist yet")
            address = eventually(lambda: _address(server.said))
            token = cli.ok("keys", "create", "deploy", "--scope", "admin").strip()
            keys = f"{address}/api/v1/keys"
            assert httpx2.get(keys).status_code == 401
            assert httpx2.get(keys, headers={"Authorization": "Bearer door"}).status_code == 401
            assert httpx2.get(keys, headers={"Authorization": f"Bearer {token}"}).status_code == 200
            cli.ok("keys", "revoke", "deploy")
            assert httpx2.get(keys, headers={"Authorization": f"Bearer {token}"}).status_code == 401
            server.end()


def _address(said: str) -> str | None:
    found = [line.split()[1] for line in said.splitlines() if line.startswith("server ")]
    return found[0] if found else None


def test_a_secret_is_set_for_some_tasks_and_keeps_them_with_its_next_value(cli: Cli, shop: Shop) -> None:
    def uses() -> list[str]:
        (view,) = cli.json("secrets", "list")["items"]
        return list(view["uses"])

    cli.ok("secrets", "set", "STRIPE", "--for", "task:charge", "--for", "queue:payments", input=CANARY)
    assert uses() == ["queue:payments", "task:charge"]
    assert "queue:payments, task:charge" in cli.ok("secrets", "list")
    cli.ok("secrets", "set", "STRIPE", input=f"{CANARY}2")
    assert uses() == ["queue:payments", "task:charge"]
    cli.ok("secrets", "set", "STRIPE", "--for-all", input=CANARY)
    assert uses() == []
    for options in (("--for", "charge"), ("--for", "task:a", "--for-all")):
        assert cli("secrets", "set", "STRIPE", *options, input=CANARY).exit_code == 2
    assert uses() == []


@pytest.mark.parametrize(
    ("options", "public_url", "warns"),
    [
        (("--host", "192.0.2.7"), "", True),
        (("--host", "192.0.2.7"), "https://jobs.example", False),
        (("--host", "192.0.2.7", "--tls-cert", "c.pem", "--tls-key", "k.pem"), "", False),
        (("--host", "127.0.0.1"), "", False),
    ],
)
def test_a_server_that_other_machines_reach_without_tls_warns(
    cli: Cli,
    shop: Shop,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    options: tuple[str, ...],
    public_url: str,
    warns: bool,
) -> None:
    cli.ok("keys", "create", "k", "--scope", "read")
    served: list[ServerOptions] = []
    monkeypatch.setattr(http_server, "serve", lambda app, access, given, started: served.append(given))
    monkeypatch.setenv("TICKWORK_PUBLIC_URL", public_url)
    result = cli("server", *options)
    assert ("go over the network as they are" in result.stderr + caplog.text) is warns
    assert served[0].host == options[1]
