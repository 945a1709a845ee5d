"""The task `shell` on real workers: what it runs, what it keeps, how it fails, and that nothing of it is left."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.programs import Program, descendants, program
from tests.waiting import eventually
from tests.worker.job_helpers import output_of
from tickwork import Job, JobFailed, Tickwork
from tickwork.worker.tasks.command import _GATE, _OPEN, RunningCommand

BYSTANDER = """
from tickwork import Tickwork
app = Tickwork()

@app.task
def echo(text: str) -> str:
    return text
"""


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Tickwork]:
    app = Tickwork(f"sqlite:///{tmp_path}/tickwork.db")
    yield app
    app.close()


@pytest.fixture
def worker(app: Tickwork, tmp_path: Path) -> Iterator[Program]:
    """A worker that runs commands and nothing else."""
    with program(tmp_path, "worker", "--allow-shell", "-c", "4", "--processes", "1", TICKWORK_URL=app.url) as worker:
        worker.says("shell      on: any user who can write to the store")
        yield worker


def run(app: Tickwork, command: str | list[str], *, timeout: str | None = None, **arguments: object) -> Job:
    return app.named("shell").options(retries=0, timeout=timeout).enqueue(command=command, **arguments)


def error_of(job: Job) -> str:
    with pytest.raises(JobFailed):
        job.result(timeout=20)
    return job.view.error or ""


def gone(pid: int) -> bool:
    return not descendants(pid)


def sleepers(job: Job, count: int = 1) -> list[int]:
    """The processes that a command told the numbers of."""
    return eventually(lambda: len(pids := [int(pid) for pid in output_of(job).split()]) >= count and pids, 20)


def test_a_command_gives_its_code_its_output_and_its_lines(app: Tickwork, worker: Program) -> None:
    assert run(app, "printf 'a\\nbb\\nccc\\n'").result(timeout=20) == {
        "exit_code": 0,
        "stdout": "a\nbb\nccc\n",
        "lines": ["a", "bb", "ccc"],
    }
    assert run(app, "true").result(timeout=20) == {"exit_code": 0, "stdout": "", "lines": []}
    assert run(app, ["printf", "%s|", "a b", "$HOME", "*"]).result(timeout=20)["stdout"] == "a b|$HOME|*|"


def test_it_is_given_env_folder_stdin_and_interpreter(app: Tickwork, worker: Program, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    command = 'echo "$WORD in $(basename "$PWD"), ${BASH_VERSION:+bash}, $(cat)"'
    job = run(
        app, command, env={"WORD": "hello"}, cwd=str(tmp_path / "there"), stdin="from cron\n", interpreter="/bin/bash"
    )
    assert job.result(timeout=20)["stdout"] == "hello in there, bash, from cron\n"
    told = run(app, 'echo "$TICKWORK_JOB_ID $TICKWORK_ATTEMPT $TICKWORK_SCHEDULED_FOR"')
    assert told.result(timeout=20)["stdout"] == f"{told.id} 1 {told.run_at.isoformat()}\n"
    assert run(app, "cat").result(timeout=20)["stdout"] == ""


def test_more_stdin_and_output_than_pipes_hold(app: Tickwork, worker: Program) -> None:
    text = "0123456789abcde\n" * 12_000
    job = run(app, "tee /dev/stderr", stdin=text)
    result = job.result(timeout=20)
    assert result["truncated"] is True
    assert result["stdout"] == text[: 64 * 1024]
    assert len(output_of(job)) == 2 * len(text)
    assert run(app, "exit 0", stdin=text).result(timeout=20)["exit_code"] == 0, "it need not read what it is given"


def test_any_bytes_can_be_written(app: Tickwork, worker: Program) -> None:
    result = run(app, "printf '\\377\\000\\033[2J\\302'; printf '\\244\\n'").result(timeout=20)
    assert result["stdout"] == "\ufffd\\0\x1b[2J\u00a4\n"


def test_lines_are_in_the_log_while_it_runs(app: Tickwork, worker: Program, tmp_path: Path) -> None:
    job = run(app, f"echo out; echo err >&2; while ! test -e {tmp_path}/go; do sleep 0.05; done; printf unended")
    eventually(lambda: sorted(output_of(job).split()) == ["err", "out"], 10)
    assert job.state == "running"
    (tmp_path / "go").touch()
    job.result(timeout=20)
    assert output_of(job).endswith("unended\n")


def test_a_code_other_than_0_fails_the_attempt_with_the_last_lines(app: Tickwork, worker: Program) -> None:
    job = run(app, "for n in $(seq 1000); do echo line $n; done; echo no such thing >&2; exit 3")
    error = error_of(job)
    assert error.startswith("tickwork.errors.CommandFailed: exit code 3; its last lines:\nline ")
    assert error.endswith("\nline 1000\nno such thing")
    assert len(error) < 2200
    assert "exit code 3" in job.why()
    assert error_of(run(app, "kill -9 $$")).endswith("CommandFailed: killed by SIGKILL; it wrote nothing")
    assert "exit code 127" in error_of(run(app, ["no-such-command"], env={"PATH": "/usr/bin:/bin"}))
    assert "could not be run: [Errno 2]" in error_of(run(app, "true", cwd="/no/such/folder"))
    assert "there is no command to run" in error_of(run(app, ""))


def test_a_failed_command_is_tried_again(app: Tickwork, worker: Program, tmp_path: Path) -> None:
    task = app.named("shell").options(retries=1, backoff="1ms")
    job = task.enqueue(command=f"test -e {tmp_path}/was || ! touch {tmp_path}/was")
    assert job.result(timeout=20)["exit_code"] == 0
    assert [one.state for one in job.attempts()] == ["failed", "succeeded"]


def test_what_it_leaves_running_ends_with_it(app: Tickwork, worker: Program) -> None:
    job = run(app, "sleep 1000 & echo $!")
    assert job.result(timeout=20)["exit_code"] == 0
    eventually(lambda: gone(sleepers(job)[0]), 5)


def test_what_it_leaves_writing_is_heard_for_a_moment_and_not_for_ever(app: Tickwork, worker: Program) -> None:
    late = "exec > >(while read -r line; do sleep 0.02; echo told: $line; done); echo one; echo two"
    job = run(app, late, interpreter="/bin/bash")
    assert job.result(timeout=20)["lines"] == ["told: one", "told: two"]
    assert run(app, "yes & exit 0").result(timeout=20)["exit_code"] == 0


def test_a_flood_drowns_neither_the_log_nor_the_workers_own_output(app: Tickwork, worker: Program) -> None:
    job = run(app, "yes | head -c 30000000; echo >&2 enough; exit 1")
    assert error_of(job).endswith("\ny\ny\nenough")
    assert len(worker.said) < 12 * 1024 * 1024
    kept = output_of(job)
    assert len(kept) < 11 * 1024 * 1024
    assert kept.endswith("the rest is not kept\n")


@pytest.mark.parametrize("trap", ["", "trap '' TERM; "])
def test_a_timeout_ends_the_whole_group_and_nothing_beside_it(app: Tickwork, worker: Program, trap: str) -> None:
    neighbour = run(app, "sleep 2; echo lived")
    late = run(app, f"{trap}sleep 1000 & echo $! $$; printf unended >&2; wait; wait", timeout="1s")
    pids = sleepers(late, 2)
    late.wait(timeout=20)
    assert output_of(late).endswith("\nunended\n")
    assert [one.state for one in late.attempts()] == ["timed_out"]
    eventually(lambda: all(map(gone, pids)), 5)
    assert neighbour.result(timeout=20)["stdout"] == "lived\n"
    assert neighbour.attempt == 1


def test_a_cancelled_command_is_asked_first(app: Tickwork, worker: Program) -> None:
    polite = run(app, "trap 'echo bye; exit 1' TERM; echo $$; while :; do sleep 0.05; done")
    (pid,) = sleepers(polite)
    polite.cancel()
    polite.wait(timeout=4)
    assert polite.state == "cancelled"
    assert output_of(polite).endswith("bye\n")
    eventually(lambda: gone(pid), 5)


@pytest.mark.process
def test_a_cancelled_command_that_does_not_listen_is_killed(app: Tickwork, worker: Program) -> None:
    deaf = run(app, "trap '' TERM; echo $$; while :; do sleep 0.05; done")
    (pid,) = sleepers(deaf)
    deaf.cancel()
    deaf.wait(timeout=20)
    assert deaf.state == "cancelled"
    eventually(lambda: gone(pid), 5)


@pytest.mark.parametrize("victim", ["supervisor", "child"])
def test_no_command_outlives_its_worker_killed_with_9(app: Tickwork, worker: Program, victim: str) -> None:
    jobs = [run(app, "trap '' TERM HUP INT; sleep 1000 & echo $! $$; wait; wait") for _ in range(3)]
    pids = [pid for job in jobs for pid in sleepers(job, 2)]
    assert len(pids) == 6
    assert not any(map(gone, pids))
    (child,) = {parent_of(parent_of(pids[0]))} - {worker.process.pid}
    os.kill(worker.process.pid if victim == "supervisor" else child, signal.SIGKILL)
    eventually(lambda: all(map(gone, pids)), 5)


def test_without_shell_a_worker_does_not_know_the_task(app: Tickwork, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(BYSTANDER)
    with program(tmp_path, "worker", "shop.py", "--processes", "1", TICKWORK_URL=app.url):
        job = run(app, "true")
        assert app.named("echo").enqueue(text="done").result(timeout=20) == "done"
        assert job.state == "queued"
        assert job.why().endswith("knows the task 'shell'; start one with --allow-shell")


def test_dev_runs_commands(app: Tickwork, tmp_path: Path) -> None:
    with program(tmp_path, "dev", "--port", "0", TICKWORK_URL=app.url):
        assert run(app, "echo hello").result(timeout=20)["stdout"] == "hello\n"


def test_a_task_of_that_name_is_not_replaced(app: Tickwork, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(BYSTANDER.replace("echo", "shell"))
    with program(tmp_path, "worker", "shop.py", "--allow-shell", "--processes", "1", TICKWORK_URL=app.url) as worker:
        assert worker.process.wait(20) == 1
        assert "--allow-shell brings a task named 'shell', but two tasks are named 'shell'" in worker.said


def test_a_worker_needs_tasks_or_commands(tmp_path: Path) -> None:
    with program(tmp_path, "worker") as worker:
        assert worker.process.wait(20) == 2
        assert "give MODULE_OR_FILE, or --allow-shell to run only commands." in worker.said


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_a_command_whose_worker_died_before_the_guard_knew_it_does_not_begin(tmp_path: Path) -> None:
    subprocess.run([*_GATE, "touch", str(tmp_path / "begun")], stdin=subprocess.DEVNULL, check=False, timeout=10)
    assert not (tmp_path / "begun").exists()
    subprocess.run([*_GATE, "touch", str(tmp_path / "begun")], input=_OPEN, check=True, timeout=10)
    assert (tmp_path / "begun").exists()


def test_a_command_that_is_ended_before_it_starts_never_starts(tmp_path: Path) -> None:
    command = RunningCommand(["touch", str(tmp_path / "begun")], dict(os.environ), None, b"", lambda stream, data: None)
    command.end(0.1)
    command.start()
    assert command.done.wait(10)
    assert command.exit_code is None
    assert not (tmp_path / "begun").exists()


def test_variables_that_secret_env_allows_pass_for_secrets_and_no_others(app: Tickwork, tmp_path: Path) -> None:
    secrets = {"env.HEADER": "Bearer ${secret.OUR_TOKEN} $${secret.OUR_TOKEN}"}
    shell = ("worker", "--allow-shell", "-c", "1", "--processes", "1")
    given = {"TICKWORK_URL": app.url, "OUR_TOKEN": "t0p", "NOT_ALLOWED": "t0p", "TICKWORK_SECRET_ENV": "OUR_*"}
    with program(tmp_path, *shell, **given) as worker:
        worker.says("shell      on: any user who can write to the store")
        job = run(app, 'echo "$HEADER, $OTHER"', secrets=secrets, env={"OTHER": "${secret.OUR_TOKEN}"})
        assert job.result(timeout=20)["stdout"] == "Bearer t0p ${secret.OUR_TOKEN}, ${secret.OUR_TOKEN}\n"
        for name in ("NOT_ALLOWED", "TICKWORK_URL"):
            refused = run(app, "true", secrets={"env.X": f"${{secret.{name}}}"})
            assert f"the secret {name} is not set: neither in the store" in error_of(refused)
        missing = run(app, "true", secrets={"env.X": "${secret.NOWHERE_SET}"})
        assert "the secret NOWHERE_SET is not set: neither in the store" in error_of(missing)


def test_the_task_that_sleeps_takes_its_time(app: Tickwork, worker: Program) -> None:
    job = app.named("@sleep").enqueue(seconds=0.3)
    assert job.result(timeout=20) is None
    (attempt,) = job.attempts()
    assert attempt.ended_at is not None
    assert (attempt.ended_at - attempt.started_at).total_seconds() >= 0.3
