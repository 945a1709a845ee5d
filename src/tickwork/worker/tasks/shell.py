"""The built-in task `shell`, which runs a command, for work that is not written in Python.

Only workers that were started with `--allow-shell` have it, because everyone who can write to the store can then run
commands as the worker's user, or as the user of `--run-as`. The output of a command goes to its attempt's log, line by
line. The process group of a command never outlives its attempt, even if the worker is killed with SIGKILL.
"""

from __future__ import annotations

import os
import signal
import sys
from codecs import getincrementaldecoder
from datetime import UTC
from typing import NotRequired, TypedDict

from tickwork.context import CurrentJob, current_job
from tickwork.core.access.secret_policy import command_environment, read_passed, secret_variables
from tickwork.core.arguments.payload import storable
from tickwork.errors import CommandFailed, Interrupted, InvalidArguments, InvalidOption, WorkerError
from tickwork.registry import AppRegistry
from tickwork.worker.run.capture import LOG_LIMIT
from tickwork.worker.run.secrets import masked, revealed
from tickwork.worker.tasks.command import RunningCommand, Stream
from tickwork.worker.tasks.run_as import find_user

NAME = "shell"
STDOUT_LIMIT = 64 * 1024  # bytes of stdout in the result; stored twice and escaped, still below the result limit
LINE_LIMIT = 4096  # characters; a longer incomplete line is passed on in parts
TAIL_LIMIT = 2000  # characters that an error quotes
_TAIL_KEPT = 64 * 1024  # characters that are buffered for the quote before they are masked and then cut
TERM_GRACE_S = 0.1  # between SIGTERM and SIGKILL; less than the time that an interrupted handler has
_LOOK_S = 0.1


class CommandResult(TypedDict):
    """The result of a command. `truncated` is present if stdout was longer than `STDOUT_LIMIT`."""

    exit_code: int
    stdout: str
    lines: list[str]
    truncated: NotRequired[bool]


def add_shell(app: AppRegistry, run_as: str | None = None) -> None:
    """Add the task to an app; commands run as the user `run_as`.

    Raises WorkerError if the app has a task of that name, or the settings disable the task.
    """
    if app.settings.is_off(NAME):
        raise WorkerError(f"--allow-shell brings the task {NAME!r}, which the setting builtin_off switches off.")
    settings = app.settings
    passed = read_passed(settings.command_env)
    user = None if run_as is None else find_user(run_as)

    def shell(
        command: str | list[str],
        env: dict[str, str] | None = None,
        cwd: str | None = None,
        stdin: str | None = None,
        interpreter: str = "/bin/sh",
        secrets: dict[str, str] | None = None,
    ) -> CommandResult:
        """Run a command: a string with the interpreter, a list of arguments directly.

        Its environment has a few variables of the worker (core/access/secret_policy.py), variables that describe its
        job, `env`, and `secrets`: {"env.TOKEN": "${secret.TOKEN}"}; later ones override earlier ones. Raises
        CommandFailed for an exit code other than 0.
        """
        job, output = current_job(), _CommandOutput()
        arguments = [interpreter, "-c", command] if isinstance(command, str) else command
        if not any(arguments) or not command:
            raise InvalidArguments("there is no command to run.")
        environment = {
            **command_environment(os.environ, passed),
            **({} if user is None else user.environment),
            **_of_job(job),
            **(env or {}),
            **_revealed(secrets or {}, secret_variables(os.environ, settings.secret_env)),
        }
        running = RunningCommand(arguments, environment, cwd, (stdin or "").encode(), output.feed, user)
        try:
            _await(running, job)
        finally:
            output.close()
        return output.judged(running, arguments[0])

    try:
        app.task(name=NAME)(shell)
    except InvalidOption as error:
        raise WorkerError(f"--allow-shell brings a task named {NAME!r}, but {error}") from None


def _of_job(job: CurrentJob) -> dict[str, str]:
    return {
        "TICKWORK_JOB_ID": job.id,
        "TICKWORK_ATTEMPT": str(job.attempt),
        "TICKWORK_SCHEDULED_FOR": job.scheduled_for.astimezone(UTC).isoformat(),
    }


def _revealed(secrets: dict[str, str], variables: dict[str, str]) -> dict[str, str]:
    return {name.removeprefix("env."): revealed(text, variables) for name, text in secrets.items()}


def _await(running: RunningCommand, job: CurrentJob) -> None:
    """Start a command and wait for its end; send SIGTERM if the job is cancelled, end the command if interrupted."""
    asked = False
    try:
        running.start()
        while not running.done.wait(_LOOK_S):  # in short waits, because an interruption is raised only between them
            if job.cancelled and not asked:
                running.send_signal(signal.SIGTERM)
                asked = True
    except Interrupted:
        running.end(TERM_GRACE_S)
        raise


class _Tail:
    """The end of a command's output, masked before it is cut."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._size = 0

    def add(self, text: str) -> None:
        self._parts.append(text)
        self._size += len(text)
        if self._size > _TAIL_KEPT:
            whole = masked("".join(self._parts))
            begun = len(whole) - len(masked(whole, is_cut=True))  # length of an incomplete secret at the end
            self._parts = [whole[-TAIL_LIMIT - begun :]]
            self._size = len(self._parts[0])

    def text(self) -> str:
        return masked("".join(self._parts))[-TAIL_LIMIT:]


class _CommandOutput:
    """The output of a command: passed on in whole lines; keeps the beginning of stdout and the end of both streams."""

    def __init__(self) -> None:
        self._decoders = {stream: getincrementaldecoder("utf-8")("replace") for stream in ("stdout", "stderr")}
        self._unended = {"stdout": "", "stderr": ""}
        self._kept = bytearray()
        self._truncated = False
        self._tail = _Tail()
        self._passed_on = 0

    def feed(self, stream: Stream, data: bytes) -> None:
        """Add output, and pass on the lines that are complete."""
        if stream == "stdout":
            room = STDOUT_LIMIT - len(self._kept)
            self._kept += data[:room]
            self._truncated |= len(data) > room
        text = self._unended[stream] + self._decoders[stream].decode(data)
        whole, end, rest = text.rpartition("\n")
        if len(rest) > LINE_LIMIT:
            whole, end, rest = text, "", ""
        self._unended[stream] = rest
        self._pass_on(stream, whole + end)

    def close(self) -> None:
        """Pass on incomplete lines at the end of the output."""
        for stream in self._unended:
            left = self._unended[stream] + self._decoders[stream].decode(b"", final=True)
            self._unended[stream] = ""
            self._pass_on(stream, f"{left}\n" if left else "")

    def _pass_on(self, stream: str, text: str) -> None:
        if not text:
            return
        self._tail.add(text)
        if self._passed_on <= LOG_LIMIT:  # the log keeps no more, and the worker's console must not be flooded
            (sys.stdout if stream == "stdout" else sys.stderr).write(text)
        self._passed_on += len(text)

    def judged(self, ran: RunningCommand, name: str) -> CommandResult:
        """Return the result of a command. Raises CommandFailed with the last lines of its output if it failed."""
        if ran.error is not None:
            raise CommandFailed(None, f"{name!r} could not be run: {ran.error}")
        if ran.exit_code != 0:
            raise CommandFailed(ran.exit_code, _how(ran.exit_code or 0) + _quoted(self._tail.text()))
        decoder = getincrementaldecoder("utf-8")("replace")
        text = storable(decoder.decode(self._kept, final=not self._truncated))
        if self._truncated:
            text = masked(text, is_cut=True)
        lines = text.removesuffix("\n").split("\n") if text else []
        result = CommandResult(exit_code=0, stdout=text, lines=lines)
        if self._truncated:
            result["truncated"] = True
        return result


def _how(exit_code: int) -> str:
    if exit_code >= 0:
        return f"exit code {exit_code}"
    known = {int(one): one.name for one in signal.Signals}
    return f"killed by {known.get(-exit_code, f'signal {-exit_code}')}"


def _quoted(tail: str) -> str:
    """Return the last lines of output for an error message, without a partial first line if possible."""
    tail = tail.rstrip()
    if len(tail) >= TAIL_LIMIT - 1 and "\n" in tail:
        tail = tail.partition("\n")[2]
    return f"; its last lines:\n{tail}" if tail else "; it wrote nothing"
