"""Secrets: sealed in the store, opened by the attempt that asks, and masked wherever it tells of them."""

import os
import stat
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.programs import Program, program
from tests.waiting import eventually
from tests.worker.job_helpers import output_of
from tickwork import Job, JobFailed, Tickwork, current_job
from tickwork.api.apply import ApplyPlan
from tickwork.core.access.secret_policy import SecretUse, secret_variables
from tickwork.declare.read_declarations import read_declared
from tickwork.errors import InvalidInput, SecretError, WorkerError
from tickwork.security.vault import KEY, Vault
from tickwork.store.admin.access import SealedSecret
from tickwork.worker.tasks.builtin import add_builtin
from tickwork.worker.tasks.shell import add_shell

CANARY = "canary-3f9d71c2-value"
OTHER = "canary-of-the-environment"
LONG = "".join(f"{number:03}-canary." for number in range(120))
KEY_TEXT = "ab" * 32


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (KEY, f"{KEY}_FILE"):
        monkeypatch.delenv(name, raising=False)


def stored(app: Tickwork) -> SealedSecret:
    sealed = app.store.access.get_secret("TOKEN")
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
        app.store.access.put_secret("OTHER", sealed, "mallory")
        with pytest.raises(SecretError, match="was changed in the store"):
            vault(app).get("OTHER")
        for changed in (sealed._replace(text=sealed.text[:-8] + "AAAAAAA="), sealed._replace(uses=("task:mail",))):
            app.store.access.put_secret("TOKEN", changed, "mallory")
            with pytest.raises(SecretError, match="was changed in the store"):
                vault(app).get("TOKEN")

    def test_a_value_that_was_copied_to_another_store_does_not_open_there(self, app: Tickwork, tmp_path: Path) -> None:
        vault(app).put("TOKEN", CANARY, "ada")
        other = Tickwork(f"sqlite:///{tmp_path}/other.db")
        other.store.access.put_secret("TOKEN", stored(app), "mallory")
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
        for use in (SecretUse("charge", "default"), SecretUse("http", "payments")):
            assert vault(app).get("TOKEN", use) == CANARY
        with pytest.raises(
            SecretError, match="not for task 'http' in queue 'default': it was set for queue:payments, "
        ):
            vault(app).get("TOKEN", SecretUse("http", "default"))
        vault(app).put("TOKEN", OTHER, "ada")
        assert vault(app).get("TOKEN", SecretUse("charge", "default")) == OTHER
        with pytest.raises(SecretError, match="not for task 'http'"):
            vault(app).get("TOKEN", SecretUse("http", "default"))
        vault(app).put("TOKEN", CANARY, "ada", uses=[])
        assert vault(app).get("TOKEN", SecretUse("http", "default")) == CANARY

    def test_text_of_a_user_beside_a_secret_is_not_sealed_with_its_next_value(self, app: Tickwork) -> None:
        vault(app).put("TOKEN", CANARY, "ada", uses=["task:charge"])
        app.store.access.put_secret("TOKEN", stored(app)._replace(uses=("task:spy",)), "mallory")
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
    def test_a_name_that_no_job_could_ask_for_is_refused(self, app: Tickwork, name: str) -> None:
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

    def test_a_file_that_is_gone_is_not_made_again_for_what_is_sealed(self, app: Tickwork, tmp_path: Path) -> None:
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
    ApplyPlan(app.schedules, read_declared(DAGS, lambda name: None, file="dags.yaml")).carry_out()
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


SHOP = """
import asyncio, base64, os, subprocess, sys, time
from tickwork import Tickwork, batch, current_batch, current_job
app = Tickwork()

@app.task(retries=0)
def tells(fails: bool = False) -> dict[str, str]:
    job = current_job()
    value = job.secret("TOKEN")
    assert len(value) == 21 and job.secret("OUR_TOKEN")
    print("printed", value, value.upper())
    print("packed", base64.b64encode(b"user:" + value.encode()).decode(), file=sys.stderr)
    subprocess.run(["echo", "of a program", value])
    job.progress(0.5, f"half of {value}")
    job.save({"token": value})
    if fails:
        raise ValueError(f"no luck with {value}")
    return {"token": value, value: "a name", "url": f"https://x/?t={value}", "plain": "stays"}

@app.task(retries=0)
async def tells_async() -> str:
    return f"async {current_job().secret('TOKEN')}"

@app.task(retries=0, batch=batch(max=2, wait="100ms"))
def tells_all(texts: list[str]) -> list[str]:
    value = current_batch()[0].secret("TOKEN")
    print(f"batch {value}")
    return [f"{text} {value}" for text in texts]

@app.task(retries=0)
def asks(name: str) -> str:
    return current_job().secret(name)

@app.task(retries=0)
def writes_in_parts() -> None:
    value = current_job().secret("TOKEN")
    for part in (value[:9], value[9:]):
        os.write(1, part.encode())
        time.sleep(1)

@app.task(retries=0)
def notes() -> None:
    current_job().progress(0.5, f"{'.' * 400} {current_job().secret('LONG')}")

@app.task(retries=0)
def tells_the_address(address: str) -> str:
    print(address)
    raise ValueError(f"cannot reach {address}")
"""


def stored_of(job: Job) -> str:
    """All that is stored of a job's attempts, as text."""
    # A job has no public view of its saved state.
    saved = job._client.store.saved_state(job.id)
    return f"{job.view} {job.attempts()} {output_of(job)} {saved!r}"


class TestTasks:
    """`current_job().secret(name)`, on both stores, whose key only the supervisor has."""

    @pytest.fixture
    def worker(self, app: Tickwork, tmp_path: Path) -> Iterator[Program]:
        (tmp_path / "shop.py").write_text(SHOP)
        vault(app).put("TOKEN", CANARY, "ada")
        named = {"OUR_TOKEN": OTHER, "OTHER_TOKEN": OTHER, "TICKWORK_SECRET_ENV": "OUR_TOKEN"}
        given = {KEY: KEY_TEXT, "TICKWORK_URL": app.url, **named}
        with program(tmp_path, "worker", "shop.py", "--allow-shell", "-c", "2", "--processes", "1", **given) as worker:
            worker.says("slots")
            yield worker

    def test_a_task_is_given_a_secret_and_nothing_that_is_stored_or_printed_tells_it(
        self, app: Tickwork, worker: Program
    ) -> None:
        good = app.named("tells").enqueue()
        expected = {"token": "***", "***": "a name", "url": "https://x/?t=***", "plain": "stays"}
        assert good.result(timeout=20) == expected
        bad = app.named("tells").enqueue(fails=True)
        with pytest.raises(JobFailed, match=r"no luck with \*\*\*"):
            bad.result(timeout=20)
        assert app.named("tells_async").enqueue().result(timeout=20) == "async ***"
        batch = [app.named("tells_all").enqueue(name) for name in "ab"]
        assert [job.result(timeout=20) for job in batch] == ["a ***", "b ***"]
        for job in (good, bad):
            found = stored_of(job)
            assert "printed *** ***" in found
            assert "of a program ***" in found
            assert "packed" in found
            for form in (CANARY, CANARY.upper(), b64encode(b"user:" + CANARY.encode()).decode()):
                assert form not in found
                assert form not in worker.said

    def test_what_is_cut_to_be_stored_has_no_part_of_a_secret(self, app: Tickwork, worker: Program) -> None:
        vault(app).put("LONG", LONG, "ada")
        shell, secrets = app.named("shell").options(retries=0), {"env.A": "${secret.LONG}"}
        failed = shell.enqueue(command="printf '%s%01000d' \"$A\" 0; exit 3", secrets=secrets)
        flood = shell.enqueue(command='for i in $(seq 300); do printf %s "$A"; done; exit 3', secrets=secrets)
        long = shell.enqueue(command="printf '%065000d\u00e4%s' 0 \"\u00e4$A\"", secrets=secrets)
        noted = app.named("notes").enqueue()
        with pytest.raises(JobFailed, match="exit code 3"):
            failed.result(timeout=20)
        with pytest.raises(JobFailed, match="exit code 3"):
            flood.result(timeout=20)
        assert long.result(timeout=20)["truncated"]
        assert len(long.result()["stdout"]) > 64_900
        noted.result(timeout=20)
        for job in (failed, flood, long, noted):
            assert "canary" not in stored_of(job)
        assert "..." in stored_of(noted)

    def test_a_secret_is_masked_whose_parts_came_before_and_after_the_end_of_another_job(
        self, app: Tickwork, worker: Program
    ) -> None:
        writes = app.named("writes_in_parts").enqueue()
        eventually(lambda: app.job(writes.id).state == "running")  # type: ignore[union-attr]
        for _ in range(4):
            app.named("asks").enqueue(name="OUR_TOKEN").result(timeout=20)
        writes.result(timeout=20)
        assert output_of(writes).strip() == "***"
        assert CANARY[:9] not in worker.said

    def test_what_is_missing_or_not_for_jobs_is_refused_by_name(self, app: Tickwork, worker: Program) -> None:
        asks = app.named("asks")
        for name in ("NOWHERE", "OTHER_TOKEN", KEY, "TICKWORK_URL", "no name", "\u00e9"):
            with pytest.raises(JobFailed, match=f"the secret {name} is not set"):
                asks.enqueue(name=name).result(timeout=20)

    def test_a_secret_is_opened_only_for_the_tasks_and_queues_that_it_was_set_for(
        self, app: Tickwork, worker: Program
    ) -> None:
        refused = "the secret TOKEN is not for task '{}' in queue 'default': it was set for task:tells"
        vault(app).put("TOKEN", CANARY, "ada", uses=["task:tells"])
        assert app.named("tells").enqueue().result(timeout=20)["plain"] == "stays"
        asks = app.named("asks")
        with pytest.raises(JobFailed, match=refused.format("asks")):
            asks.enqueue(name="TOKEN").result(timeout=20)
        with pytest.raises(JobFailed, match=refused.format("tells_all")):
            app.named("tells_all").enqueue("a").result(timeout=20)
        vault(app).put("TOKEN", CANARY, "ada", uses=["queue:default"])
        assert asks.enqueue(name="TOKEN").result(timeout=20) == "***"

    def test_a_secret_that_does_not_open_fails_the_attempt_and_not_the_worker(
        self, app: Tickwork, worker: Program
    ) -> None:
        vault(app, **{KEY: "cd" * 32}).put("TOKEN", CANARY, "ada")
        with pytest.raises(JobFailed, match="sealed with another key"):
            app.named("asks").enqueue(name="TOKEN").result(timeout=20)
        app.store.access.put_secret("TOKEN", SealedSecret("nonsense", ()), "mallory")
        with pytest.raises(JobFailed, match="the secret does not open"):
            app.named("asks").enqueue(name="TOKEN").result(timeout=20)
        assert app.named("asks").enqueue(name="OUR_TOKEN").result(timeout=20) == "***"

    def test_a_worker_inside_a_process_opens_them_too(self, app: Tickwork, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(KEY, KEY_TEXT)
        vault(app).put("TOKEN", CANARY, "ada", uses=["task:own"])

        @app.task(name="own", retries=0)
        def own() -> str:
            return f"own {current_job().secret('TOKEN')}"

        @app.task(name="other", retries=0)
        def other() -> str:
            return current_job().secret("TOKEN")

        with app.worker(concurrency=1):
            assert own.enqueue().result(timeout=20) == "own ***"
            with pytest.raises(JobFailed, match="the secret TOKEN is not for task 'other'"):
                other.enqueue().result(timeout=20)


@pytest.mark.parametrize(
    "address", ["postgresql://ada:{}@db/x", "postgresql://db/x?password={}", "password='{}' host=db"]
)
def test_the_password_of_the_store_is_in_nothing_that_is_stored(app: Tickwork, tmp_path: Path, address: str) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    asked = address.format(CANARY)
    given = {"TICKWORK_URL": app.url, "TICKWORK_LISTEN_URL": asked if app.url.startswith("sqlite") else app.url}
    given |= {} if app.url.startswith("sqlite") else {"PGPASSWORD": CANARY}
    with program(tmp_path, "worker", "shop.py", "--processes", "1", **given) as worker:
        job = app.named("tells_the_address").enqueue(address="x")
        with pytest.raises(JobFailed):
            job.result(timeout=20)
        job = app.named("tells_the_address").enqueue(address=asked)
        with pytest.raises(JobFailed, match=r"cannot reach .*\*\*\*"):
            job.result(timeout=20)
        assert CANARY not in f"{job.attempts()} {output_of(job)} {worker.said}"
