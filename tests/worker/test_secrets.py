"""Secrets: sealed in the store, opened by the attempt that asks, and masked wherever it tells of them."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.programs import program
from tests.worker.fixtures import output_of
from tickwork import JobFailed, Tickwork
from tickwork.core.secret_use import Use, secret_variables
from tickwork.declaring import Plan
from tickwork.errors import InvalidInput, SecretError, WorkerError
from tickwork.importers.declared import read_declared
from tickwork.store.access import Sealed
from tickwork.vault import KEY, Vault
from tickwork.worker.builtin import add_builtin
from tickwork.worker.shell import add_shell

CANARY = "canary-3f9d71c2-value"
OTHER = "canary-of-the-environment"
KEY_TEXT = "ab" * 32


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (KEY, f"{KEY}_FILE"):
        monkeypatch.delenv(name, raising=False)


def stored(app: Tickwork) -> Sealed:
    sealed = app.store.get_secret("TOKEN")
    assert sealed is not None
    return sealed


def vault(app: Tickwork, **environ: str) -> Vault:
    return Vault(lambda: app.store, app.url, {KEY: KEY_TEXT, **environ})


class TestVault:
    def test_what_was_put_can_be_got_and_is_not_in_the_store_as_it_is(self, app: Tickwork) -> None:
        vault(app).put("TOKEN", CANARY, "ada")
        assert vault(app).get("TOKEN") == CANARY
        assert vault(app).get("NOTHING") is None
        sealed = stored(app)
        assert CANARY not in sealed.text
        vault(app).put("TOKEN", CANARY, "ada")
        assert stored(app) != sealed, "equal values do not look alike"

    def test_a_value_that_was_moved_or_changed_in_the_store_does_not_open(self, app: Tickwork) -> None:
        vault(app).put("TOKEN", CANARY, "ada")
        sealed = stored(app)
        app.store.put_secret("OTHER", sealed, "mallory")
        with pytest.raises(SecretError, match="was changed in the store"):
            vault(app).get("OTHER")
        for changed in (sealed._replace(text=sealed.text[:-8] + "AAAAAAA="), sealed._replace(uses=("task:mail",))):
            app.store.put_secret("TOKEN", changed, "mallory")
            with pytest.raises(SecretError, match="was changed in the store"):
                vault(app).get("TOKEN")

    def test_a_value_that_was_copied_to_another_store_does_not_open_there(self, app: Tickwork, tmp_path: Path) -> None:
        vault(app).put("TOKEN", CANARY, "ada")
        other = Tickwork(f"sqlite:///{tmp_path}/other.db")
        other.store.put_secret("TOKEN", stored(app), "mallory")
        with pytest.raises(SecretError, match="or copied from another store or namespace"):
            vault(other).get("TOKEN")
        other.close()

    def test_a_value_that_was_copied_to_another_namespace_does_not_open_there(self, app: Tickwork) -> None:
        vault(app).put("TOKEN", CANARY, "ada")
        red = Vault(lambda: app.store, app.url, {KEY: KEY_TEXT}, namespace="red")
        with pytest.raises(SecretError, match="or copied from another store or namespace"):
            red.get("TOKEN")

    def test_a_secret_that_was_set_for_some_opens_for_jobs_of_these_alone(self, app: Tickwork) -> None:
        vault(app).put("TOKEN", CANARY, "ada", uses=["task:charge", "queue:payments"])
        for use in (Use("charge", "default"), Use("http", "payments")):
            assert vault(app).get("TOKEN", use) == CANARY
        with pytest.raises(
            SecretError, match="not for task 'http' in queue 'default': it was set for queue:payments, "
        ):
            vault(app).get("TOKEN", Use("http", "default"))
        vault(app).put("TOKEN", OTHER, "ada")
        assert vault(app).get("TOKEN", Use("charge", "default")) == OTHER
        with pytest.raises(SecretError, match="not for task 'http'"):
            vault(app).get("TOKEN", Use("http", "default"))
        vault(app).put("TOKEN", CANARY, "ada", uses=[])
        assert vault(app).get("TOKEN", Use("http", "default")) == CANARY

    def test_what_somebody_wrote_beside_a_secret_is_not_sealed_with_its_next_value(self, app: Tickwork) -> None:
        vault(app).put("TOKEN", CANARY, "ada", uses=["task:charge"])
        app.store.put_secret("TOKEN", stored(app)._replace(uses=("task:spy",)), "mallory")
        with pytest.raises(SecretError, match="was changed in the store"):
            vault(app).put("TOKEN", OTHER, "ada")

    @pytest.mark.parametrize("use", ["charge", "task:", "job:x", "task:a\0b", "task:" + "x" * 201])
    def test_what_names_no_user_of_a_secret_is_refused(self, app: Tickwork, use: str) -> None:
        with pytest.raises(InvalidInput, match="what may use a secret"):
            vault(app).put("TOKEN", CANARY, "ada", uses=[use])
        assert vault(app).get("TOKEN") is None

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
        given = {
            KEY: "",
            "OUR_TOKEN": OTHER,
            "TICKWORK_SECRET_ENV": "OUR_*",
            "TICKWORK_TOKEN": "door",
            "TICKWORK_URL": app.url,
        }
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


STEP = """{shell: 'test -n "$A"', env: {A: "${secret.TOKEN}"}, retries: 0}"""
DAGS = f"dags: {{pay: {{steps: {{charge: {STEP}}}}}, spy: {{steps: {{charge: {STEP}}}}}}}"


def test_steps_of_a_dag_that_a_secret_was_set_for_find_it_and_others_do_not(app: Tickwork, tmp_path: Path) -> None:
    vault(app).put("TOKEN", CANARY, "ada", uses=["dag:pay"])
    Plan(app.schedules, read_declared(DAGS, lambda name: None, file="dags.yaml")).carry_out()
    given = {KEY: KEY_TEXT, "TICKWORK_URL": app.url}
    with program(tmp_path, "worker", "--allow-shell", "-c", "2", "--processes", "1", **given) as worker:
        worker.says("shell      on")
        runs = {name: app.named(name).options(retries=0).enqueue() for name in ("pay", "spy")}
        alone = app.named("shell").options(retries=0)
        job = alone.enqueue(command="true", secrets={"env.A": "${secret.TOKEN}"})
        assert {name: run.wait(timeout=30) for name, run in runs.items()} == {"pay": "succeeded", "spy": "failed"}
        with pytest.raises(JobFailed, match="the secret TOKEN is not for task 'shell' in queue 'default'"):
            job.result(timeout=20)
        worker.end()


class TestSwitchedOff:
    @pytest.mark.parametrize(
        ("said", "namespace", "off"),
        [
            (None, None, set()),
            ("http, smtp", None, {"http", "smtp"}),
            ("red:http shell", None, {"shell"}),
            ("red:http, shell", "red", {"http", "shell"}),
            ("red:http", "blue", set()),
        ],
    )
    def test_a_worker_does_not_have_built_in_tasks_that_are_switched_off(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str | None, namespace: str | None, off: set[str]
    ) -> None:
        if said is not None:
            monkeypatch.setenv("TICKWORK_BUILTIN_OFF", said)
        app = Tickwork(f"sqlite:///{tmp_path}/off.db", namespace=namespace)
        add_builtin(app)
        if "shell" in off:
            with pytest.raises(WorkerError, match="builtin_off switches off"):
                add_shell(app)
        else:
            add_shell(app)
        assert {"http", "smtp", "shell"} - set(app.tasks) == off

    @pytest.mark.parametrize("said", ["everything", "red:", "RED:http", "@canary", "http:red"])
    def test_what_is_no_built_in_task_is_refused(self, monkeypatch: pytest.MonkeyPatch, said: str) -> None:
        monkeypatch.setenv("TICKWORK_BUILTIN_OFF", said)
        with pytest.raises(InvalidInput, match="builtin_off has"):
            Tickwork()


@pytest.mark.parametrize(("allowed", "found"), [(None, set()), ("A, B_*", {"A", "B_1"}), ("*", {"A", "AA", "B_1"})])
def test_variables_of_ours_never_pass_for_secrets(allowed: str | None, found: set[str]) -> None:
    environ = dict.fromkeys(("A", "AA", "B_1", "TICKWORK_URL", "TICKWORK_SECRET_KEY"), "x")
    assert set(secret_variables(environ, allowed)) == found


@pytest.mark.parametrize("text", ["A-B", "A*B", "1A", "A="])
def test_what_names_no_variable_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("TICKWORK_SECRET_ENV", text)
    with pytest.raises(InvalidInput, match="secret_env has"):
        Tickwork()
