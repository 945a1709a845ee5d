"""Logs as JSON, a line for each record, with the ids of the job that it is about: TICKWORK_LOG_FORMAT=json."""

from __future__ import annotations

import logging
import os
import sys
from datetime import UTC, datetime
from typing import Any

import msgspec

from tickwork.context import current_or_none
from tickwork.errors import InvalidInput

SETTING = "TICKWORK_LOG_FORMAT"


class JsonLines(logging.Formatter):
    """One JSON object for each record. What a message quotes cannot begin another line: JSON escapes it."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "pid": record.process,
            **_job(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


def _job() -> dict[str, Any]:
    job = current_or_none()
    if job is None or job.batch:
        return {}
    return {"job_id": job.id, "attempt": job.attempt, "task": job.task, "queue": job.queue}


def wants_json() -> bool:
    """What the environment asks for. Raises InvalidInput for a format that there is not."""
    wanted = os.environ.get(SETTING) or "text"
    if wanted not in ("text", "json"):
        raise InvalidInput(f"{SETTING} is {wanted!r}; it may be text or json.")
    return wanted == "json"


def log_json(level: int = logging.INFO) -> None:
    """Write every record of this process from this level on to stderr, as JSON."""
    handler = logging.StreamHandler(sys.__stderr__)
    handler.setFormatter(JsonLines())
    handler.setLevel(level)
    logging.root.addHandler(handler)
