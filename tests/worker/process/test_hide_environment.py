"""Commands and processes of a worker do not show the environment that the worker was started with."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.programs import Program, descendants, program
from tests.waiting import eventually
from tickwork import JobFailed, Tickwork
from tickwork.errors import InvalidInput
from tickwork.security.vault import KEY
from tickwork.worker.process.fork_server import ForkServer, start_fork_server
from tickwork.worker.tasks.run_as import find_user

CANARY = "canary-4be1-of-the-environment"
KEY_TEXT = "7e" * 32
GIVEN = {
    KEY: KEY_TEXT,
    "PGPASSWORD": CANARY,
    "PGAPPNAME": CANARY,
    "TICKWORK_LISTEN_URL": "",
    "STRIPE_KEY": CANARY,
    "LC_MESSAGES": "C",
}
USUAL = {"HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER", "LC_MESSAGES"}
OF_JOBS = {"TICKWORK_JOB_ID", "TICKWORK_ATTEMPT", "TICKWORK_SCHEDULED_FOR"}
OF_SHELLS = {"PWD", "OLDPWD", "SHLVL", "_"}
SHOP = f"""
import os
from tickwork import Tickwork, current_job
app = Tickwork()

@app.task
def key() -> list[str]:
    return [name for name in os.environ if name.startswith("{KEY}")]

@app.task
def finds_in_its_memory(first: str, rest: str) -> bool:
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", buffering=0) as memory:
        for line in maps:
            start, end = (int(one, 16) for one in line.split()[0].split("-"))
            if "rw" in line:
                memory.seek(start)
                data, at = memory.read(end - start), -1
                while (at := data.find(first.encode(), at + 1)) >= 0:
                    if data[at + len(first) :].startswith(rest.encode()):
                        return True
    return False

@app.task
def colour() -> str:
    return os.environ["COLOUR"]
"""
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture
def worker(app: Tickwork, tmp_path: Path) -> Iterator[Program]:
    (tmp_path / "shop.py").write_text(SHOP)
    given = {**GIVEN, "TICKWORK_URL": app.url, "COLOUR": "red"}
    with program(tmp_path, "worker", "shop.py", "--allow-shell", "-c", "2", "--processes", "1", **given) as worker:
        worker.says("shell      on")
        yield worker


def variables(app: Tickwork, **arguments: object) -> dict[str, str]:
    lines = app.named("shell").options(retries=0).enqueue(command="env", **arguments).result(timeout=20)["lines"]
    return dict(line.partition("=")[::2] for line in lines)


def test_commands_are_not_given_the_environment_of_their_worker(app: Tickwork, worker: Program) -> None:
    found = variables(app, env={"OWN": "mine"})
    assert found.keys() - USUAL - OF_SHELLS == OF_JOBS | {"OWN"}
    assert found["LC_MESSAGES"] == "C"
    assert CANARY not in str(found)


def test_an_operator_names_more_variables_for_commands(app: Tickwork, tmp_path: Path) -> None:
    given = {**GIVEN, "TICKWORK_URL": app.url, "TICKWORK_COMMAND_ENV": "COLOUR, PGAPPNAME, NOT_SET", "COLOUR": "red"}
    with program(tmp_path, "worker", "--allow-shell", "--processes", "1", **given):
        found = variables(app)
        assert found.keys() - USUAL - OF_SHELLS == OF_JOBS | {"COLOUR", "PGAPPNAME"}
        assert found["COLOUR"] == "red"


def test_no_process_of_a_worker_shows_secrets_in_proc(app: Tickwork, worker: Program) -> None:
    variables(app)  # from now on there is a guard of its commands, too
    names = set()
    for pid in worker.tree():
        shown = Path(f"/proc/{pid}/environ").read_bytes()
        names.add(Path(f"/proc/{pid}/comm").read_text().strip())
        assert KEY_TEXT.encode() not in shown
        assert CANARY.encode() not in shown
        assert app.url.encode() not in shown
    assert names >= {"tickwork-forker", "tickwork-child", "sh"}


def test_a_command_finds_nothing_in_the_processes_above_it(app: Tickwork, worker: Program) -> None:
    climb = "p=$PPID; while [ $p -gt 1 ]; do tr '\\0' '\\n' </proc/$p/environ; read -r _ _ _ p _ </proc/$p/stat; done"
    found = app.named("shell").options(retries=0).enqueue(command=climb, interpreter="/bin/bash").result(timeout=20)
    assert "PATH=" in found["stdout"]
    assert CANARY not in found["stdout"]
    assert KEY_TEXT not in found["stdout"]


def test_the_code_of_tasks_has_the_environment_without_the_key_of_the_vault(app: Tickwork, worker: Program) -> None:
    assert app.named("key").enqueue().result(timeout=20) == []
    assert app.named("colour").enqueue().result(timeout=20) == "red"
    finds = app.named("finds_in_its_memory")  # whose arguments are in its memory, but not side by side
    assert finds.enqueue(CANARY[:9], CANARY[9:]).result(timeout=20), "it finds what is in the environment"
    assert not finds.enqueue(KEY_TEXT[:20], KEY_TEXT[20:]).result(timeout=20)


def test_a_worker_beside_its_server_shows_nothing_either(app: Tickwork, tmp_path: Path) -> None:
    given = {**GIVEN, "TICKWORK_URL": app.url}
    with program(tmp_path, "up", "--port", "0", "--allow-shell", "--processes", "1", **given) as both:
        both.says("server     http")
        variables(app)
        for pid in both.tree():
            shown = Path(f"/proc/{pid}/environ").read_bytes()
            assert KEY_TEXT.encode() not in shown
            assert CANARY.encode() not in shown


def test_a_fork_server_that_is_started_does_not_have_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, KEY_TEXT)
    monkeypatch.setenv("STRIPE_KEY", CANARY)
    fork_server: ForkServer = start_fork_server()
    try:
        environ = Path(f"/proc/{fork_server.pid}/environ")
        eventually(lambda: Path(f"/proc/{fork_server.pid}/comm").read_text() == "tickwork-forker\n")
        assert KEY_TEXT.encode() not in environ.read_bytes()
        assert CANARY.encode() not in environ.read_bytes()
    finally:
        fork_server.close()


@as_root
def test_commands_run_as_the_user_that_the_operator_names(app: Tickwork, tmp_path: Path) -> None:
    given = {**GIVEN, "TICKWORK_URL": app.url}
    arguments = ("worker", "--allow-shell", "--run-as", "nobody", "--processes", "1")
    nobody = find_user("nobody")
    with program(tmp_path, *arguments, **given) as worker:
        worker.says("shell      on: any user who can write to the store can run any command as the user nobody")
        shell = app.named("shell").options(retries=0)
        who = shell.enqueue(command='id -u; id -g; id -G; id -ru; echo "$USER $HOME"').result(timeout=20)
        own = [str(nobody.uid), str(nobody.gid), str(nobody.gid), str(nobody.uid), f"nobody {nobody.home}"]
        assert who["lines"] == own
        assert shell.enqueue(command=["cat", "/etc/hostname"], secrets={}).result(timeout=20)["exit_code"] == 0
        for refused in ("cat /proc/$PPID/environ", "setpriv --reuid 0 true", "cat /etc/shadow"):
            with pytest.raises(JobFailed, match="exit code"):
                shell.enqueue(command=refused).result(timeout=20)
        job = shell.options(timeout="1s").enqueue(command="trap '' TERM; echo $$; sleep 100")
        with pytest.raises(JobFailed):
            job.result(timeout=20)
        (pid,) = (int(chunk.text) for chunk in job.logs())
        eventually(lambda: not descendants(pid))


@as_root
def test_commands_of_another_user_are_in_no_folder_that_this_user_cannot_reach(app: Tickwork, tmp_path: Path) -> None:
    inside, outside = tmp_path / "private" / "shop", Path(tempfile.mkdtemp())
    inside.mkdir(parents=True)
    inside.parent.chmod(0o700)
    (inside / "settings").write_text(CANARY)
    outside.chmod(0o755)
    arguments = ("worker", "--allow-shell", "--run-as", "nobody", "--processes", "1")
    with program(inside, *arguments, TICKWORK_URL=app.url):
        shell = app.named("shell").options(retries=0)
        for given in ({}, {"cwd": str(inside)}, {"cwd": "."}, {"cwd": "../shop"}):
            job = shell.enqueue(command="cat settings", **given)
            with pytest.raises(JobFailed, match="exit code") as failed:
                job.result(timeout=20)
            assert CANARY not in str(failed.value)
        where = {
            one: shell.enqueue(command="pwd; cat", stdin="x", **given)
            for one, given in (("/", {}), (str(outside), {"cwd": str(outside)}))
        }
        assert {one: job.result(timeout=20)["lines"] for one, job in where.items()} == {
            one: [one, "x"] for one in where
        }
    outside.rmdir()


def test_only_root_can_run_commands_as_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(InvalidInput, match="only a worker that runs as root can run commands as another user"):
        find_user("nobody")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(InvalidInput, match="has no user of that name"):
        find_user("nobody-of-that-name")
    with pytest.raises(InvalidInput, match="that is root"):
        find_user("root")
    with program(tmp_path, "worker", "shop.py", "--run-as", "nobody") as worker:
        assert worker.process.wait(20) == 2
        assert "--run-as is for commands, which this worker does not run: add --allow-shell." in worker.said
