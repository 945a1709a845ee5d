"""JSON logging: one line for each record, with the ids of the job that it concerns: TICKWORK_LOG_FORMAT=json.

In this format everything that a process writes to its console is such a line: log records, Python warnings, uncaught
exceptions, and the output of tasks. `source` tells them apart: all lines of processes that run code of tasks have the
source "task", whatever their logger, and no others have.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

import msgspec

from tickwork.context import CurrentJob, current_or_none
from tickwork.errors import InvalidInput

SETTING = "TICKWORK_LOG_FORMAT"
OUTPUT = "tickwork.output"  # the logger to which output of tasks is attributed
OWN, TASK = "tickwork", "task"  # the sources of lines
_ABOUT = "tickwork_attempt"
_log = logging.getLogger("tickwork")


class JsonLines(logging.Formatter):
    """Formats each record as one JSON object. JSON escapes what a message quotes, so it cannot begin another line."""

    def __init__(self, source: str = OWN) -> None:
        super().__init__()
        self._source = source

    def format(self, record: logging.LogRecord) -> str:
        # The source is last: no other field of a record replaces it.
        line = {**_head(record), "pid": record.process, **getattr(record, _ABOUT, {}), **_job(), "source": self._source}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return _encoded(line)


def output_line(text: str, stream: str, pid: int | None, about: Mapping[str, Any]) -> str:
    """Return a line that a task wrote to stdout or stderr as a JSON object. `about` holds the ids of its job."""
    known = {"name": OUTPUT, "levelname": "INFO", "msg": text}
    return _encoded({**_head(logging.makeLogRecord(known)), "pid": pid, "stream": stream, **about, "source": TASK})


def error_line(text: str) -> str:
    """Return the error of a command as a JSON object."""
    known = {"name": "tickwork", "levelname": "ERROR", "msg": text}
    return _encoded({**_head(logging.makeLogRecord(known)), "pid": os.getpid(), "source": OWN})


def _head(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields that every line has."""
    return {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": record.getMessage(),
    }


def _encoded(line: Mapping[str, Any]) -> str:
    """Return an object as one line of printable characters, because some readers end lines at other characters, too."""
    try:
        text = msgspec.json.encode(line, enc_hook=str).decode()
    except UnicodeEncodeError:  # lone surrogates, which JSON cannot hold
        plain = {name: _plain(value) if isinstance(value, str) else value for name, value in line.items()}
        text = msgspec.json.encode(plain, enc_hook=str).decode()
    return text if text.isprintable() else "".join(one if one.isprintable() else _escape(one) for one in text)


def _plain(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _escape(character: str) -> str:
    """Return a character as JSON escapes it. Unprintable characters occur in strings only."""
    data = character.encode("utf-16-be")
    return "".join(f"\\u{data[at : at + 2].hex()}" for at in range(0, len(data), 2))


def _job() -> dict[str, Any]:
    job = current_or_none()
    if job is None or job.batch:
        return {}
    return about_job(job)


class AttemptIds(Protocol):
    """The ids of an attempt, and of its run and step."""

    @property
    def job_id(self) -> str: ...
    @property
    def attempt(self) -> int: ...
    @property
    def run(self) -> str | None: ...
    @property
    def step(self) -> str | None: ...


def naming(one: AttemptIds) -> dict[str, Any]:
    """Return the `extra` of a log record about an attempt, which adds the ids to its JSON line."""
    run = {} if one.run is None else {"run_id": one.run, "step": one.step}
    return {_ABOUT: {"job_id": one.job_id, "attempt": one.attempt, **run}}


def about_job(job: CurrentJob) -> dict[str, Any]:
    """Return the fields that a line has about its job."""
    run = {} if job.run_id is None else {"run_id": job.run_id, "step": job.step}
    return {"job_id": job.id, "attempt": job.attempt, "task": job.task, "queue": job.queue, **run}


def wants_json() -> bool:
    """Return whether the environment asks for JSON. Raises InvalidInput for an unknown format."""
    wanted = os.environ.get(SETTING) or "text"
    if wanted not in ("text", "json"):
        raise InvalidInput(f"{SETTING} is {wanted!r}; it may be text or json.")
    return wanted == "json"


def log_json(level: int = logging.INFO, handler: logging.Handler | None = None) -> None:
    """Write log records of this process from this level on to stderr as JSON, also Python warnings and tracebacks.

    With a `handler`, only records are written, by that handler; they are those of a process that runs code of tasks.
    """
    source = OWN if handler is None else TASK
    if handler is None:
        handler = logging.StreamHandler(sys.__stderr__)
        logging.captureWarnings(True)
        sys.excepthook = lambda *error: _log.critical("The process ends by an exception.", exc_info=error)
        threading.excepthook = _thread_failed
    handler.setFormatter(JsonLines(source))
    handler.setLevel(level)
    logging.root.addHandler(handler)


def _thread_failed(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is not None and not isinstance(args.exc_value, SystemExit):
        name = "?" if args.thread is None else args.thread.name
        error = (args.exc_type, args.exc_value, args.exc_traceback)
        _log.error("The thread %s ended by an exception.", name, exc_info=error)
