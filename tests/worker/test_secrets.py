"""Secrets: sealed in the store, opened by the attempt that asks, and masked wherever it tells of them."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.programs import program
from tests.worker.fixtures import output_of
from tickwork import JobFailed, Tickwork
from tickwork.errors import InvalidInput, SecretError
from tickwork.vault import KEY, Vault

CANARY = "canary-3f9d71c2-value"
OTHER = "canary-of-the-environment"
KEY_TEXT = "ab" * 32


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (KEY, f"{KEY}_FILE"):
        monkeypatch.delenv(name, raising=False)


def vault(app: Tickwork, **environ: str) -> Vault:
    return Vault(lambda: app.store, app.url, {KEY: KEY_TEXT, **environ})


class TestVault:
    def test_what_was_put_can_be_got_and_is_not_in_the_store_as_it_is(self, app: Tickwork) -> None:
        vault(app).put("TOKEN", CANARY, "ada")
        assert vault(app).get("TOKEN") == CANARY
        assert vault(app).get("NOTHING") is None
        sealed = app.store.get_secret("TOKEN") or ""
        assert CANARY not in sealed
        vault(app).put("TOKEN", CANARY, "ada")
        assert app.store.get_secret("TOKEN") != sealed, "equal values do not look alike"

    def test_a_value_that_was_moved_or_changed_in_the_store_does_not_open(self, app: Tickwork) -> None:
        vault(app).put("TOKEN", CANARY, "ada")
        sealed = app.store.get_secret("TOKEN") or ""
        app.store.put_secret("OTHER", sealed, "mallory")
        with pytest.raises(SecretError, match="was changed in the store"):
            vault(app).get("OTHER")
        app.store.put_secret("TOKEN", sealed[:-8] + "AAAAAAA=", "mallory")
        with pytest.raises(SecretError, match="was changed in the store"):
            vault(app).get("TOKEN")

    def test_another_key_is_told_from_a_broken_value(self, app: Tickwork) -> None:
        vault(app).put("TOKEN", CANARY, "ada")
        with pytest.raises(SecretError, match="sealed with another key"):
            vault(app, **{KEY: "cd" * 32}).get("TOKEN")

    @pytest.mark.parametrize("key", ["short", "ab" * 31, "password" * 8, "é" * 32])
    def test_what_is_no_key_is_refused_without_being_shown(self, app: Tickwork, key: str) -> None:
        with pytest.raises(SecretError, match="openssl rand -hex 32") as refused:
            vault(app, **{KEY: key}).put("TOKEN", CANARY, "ada")
        assert key not in str(refused.value)

    @pytest.mark.parametrize("name", ["", "1x", "a-b", "a b", "a\0", "x" * 101])
    def test_a_name_that_nobody_could_ask_for_is_refused(self, app: Tickwork, name: str) -> None:
        with pytest.raises(InvalidInput, match="cannot be the name of a secret"):
            vault(app).put(name, CANARY, "ada")

    @pytest.mark.parametrize("value", ["", "a\0b", "x" * 65_537])
    def test_a_value_that_cannot_be_used_is_refused(self, app: Tickwork, value: str) -> None:
        with pytest.raises(InvalidInput, match="value of a secret"):
            vault(app).put("TOKEN", value, "ada")

    def test_postgres_has_no_file_beside_it(self, postgres_database: str) -> None:
        app = Tickwork(postgres_database)
        with pytest.raises(SecretError, match="is not set here"):
            app.vault.put("TOKEN", CANARY, "ada")
        app.close()


class TestFile:
    @pytest.fixture
    def app(self, tmp_path: Path) -> Iterator[Tickwork]:
        app = Tickwork(f"sqlite:///{tmp_path}/tickwork.db")
        yield app
        app.close()

    def test_it_is_made_with_the_first_secret_for_its_owner_alone(self, app: Tickwork, tmp_path: Path) -> None:
        file = tmp_path / "tickwork.db-secret-key"
        assert app.vault.get("TOKEN") is None
        assert not file.exists()
        before = os.umask(0)
        try:
            app.vault.put("TOKEN", CANARY, "ada")
        finally:
            os.umask(before)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert app.vault.get("TOKEN") == CANARY
        assert [path.name for path in tmp_path.glob("*secret-key*")] == [file.name]

    def test_a_file_that_others_can_read_is_refused(self, app: Tickwork, tmp_path: Path) -> None:
        app.vault.put("TOKEN", CANARY, "ada")
        (tmp_path / "tickwork.db-secret-key").chmod(0o640)
        with pytest.raises(SecretError, match="chmod 600"):
            app.vault.get("TOKEN")

    def test_a_file_that_is_gone_is_not_made_anew_for_what_is_sealed(self, app: Tickwork, tmp_path: Path) -> None:
        app.vault.put("TOKEN", CANARY, "ada")
        (tmp_path / "tickwork.db-secret-key").unlink()
        with pytest.raises(SecretError, match="is not here"):
            app.vault.get("TOKEN")

    def test_attempts_find_secrets_and_nothing_that_is_stored_or_printed_tells_them(
        self, app: Tickwork, tmp_path: Path
    ) -> None:
        app.vault.put("TOKEN", CANARY, "ada")
        secrets = {"env.A": "Bearer ${secret.TOKEN}", "env.B": "${secret.OUR_TOKEN}"}
        halves = 'printf "%.12s" "$A"; sleep 0.05; echo "$A" | cut -c13-; '
        say = halves + 'echo "$B" >&2; echo "$A"; '
        check = 'set -e; test "$A" = "Bearer $(printf canary)-3f9d71c2-value"; test -z "$TICKWORK_TOKEN"; '
        given = {KEY: "", "OUR_TOKEN": OTHER, "TICKWORK_TOKEN": "door", "TICKWORK_URL": app.url}
        with program(tmp_path, "worker", "--allow-shell", "-c", "2", "--processes", "1", **given) as worker:
            worker.says("shell      on")
            shell = app.named("shell").options(retries=0)
            good = shell.enqueue(command=check + say + "exit 0", secrets=secrets)
            assert CANARY not in good.result(timeout=20)["stdout"]
            assert good.result()["lines"][-1] == "Bearer ***"
            bad = shell.enqueue(command=check + say + "exit 3", secrets=secrets)
            with pytest.raises(JobFailed, match="exit code 3"):
                bad.result(timeout=20)
            assert "***" in (bad.view.error or "")
            assert "Bearer ***\n" in output_of(good)
            worker.end()
            printed = worker.said
        app.close()
        stored = b"".join(path.read_bytes() for path in tmp_path.glob("tickwork.db*") if path.is_file())
        for canary in (CANARY, OTHER):
            assert canary.encode() not in stored
            assert canary not in printed
