"""Import crontabs as schedules; the task `shell` runs their commands.

A line that cannot be read is reported as an error, and the other lines are imported. As with cron, runs may overlap,
and missed runs are not caught up. Settings without an equivalent in Tickwork are reported.
"""

from __future__ import annotations

from typing import Any

from tickwork.core.recurrence.cron import cron
from tickwork.core.recurrence.zones.zone import zone_name
from tickwork.errors import InvalidInput
from tickwork.importers.command_names import name_of
from tickwork.importers.crontab_parser import CrontabEntry, read_comment, read_entry, read_setting
from tickwork.importers.result import ImportResult, check_size

_OF_MAIL = {"MAILFROM", "CONTENT_TYPE", "CONTENT_TRANSFER_ENCODING"}
_USUAL_SHELL = "/bin/sh"  # also the default of the task `shell`
_DESCRIPTION_LIMIT = 500


def read_crontab(data: bytes, *, file: str, system: bool, tz: str, prefix: str | None = None) -> ImportResult:
    """Read a crontab. With `system`, each command is preceded by a user.

    `tz` is the time zone of lines without CRON_TZ; `prefix` is put before the names of the schedules. Raises
    InvalidInput if the file is too large or the time zone is invalid.
    """
    check_size(data, file)
    reader = _CrontabReader(file, system, zone_name(tz), ImportResult(prefix=prefix))
    for number, line in enumerate(data.split(b"\n"), start=1):
        reader.read(number, line)
    return reader.imported


class _CrontabReader:
    """Reads the lines of a crontab in order. A setting applies to the lines after it."""

    def __init__(self, file: str, system: bool, tz: str, imported: ImportResult) -> None:
        self.imported = imported
        self._file = file
        self._system = system
        self._default_tz = tz
        self._tz: str | None = tz  # None: the CRON_TZ of the file is invalid
        self._env: dict[str, str] = {}
        self._mailto = ""
        self._shell: str | None = None
        self._jitter: str | None = None
        self._comment: list[str] = []
        self._users: set[str] = set()
        self._where = file

    def read(self, number: int, line: bytes) -> None:
        """Read a line; report its error if it is invalid."""
        self._where = f"{self._file}:{number}"
        try:
            self._read(line.decode().strip())
        except UnicodeDecodeError as error:
            self.imported.error(self._where, f"it is not UTF-8 at byte {error.start + 1}.")
        except InvalidInput as error:
            self.imported.error(self._where, str(error))

    def _read(self, line: str) -> None:
        """Read a comment, a setting or an entry. Raises InvalidInput."""
        if line.startswith("#"):
            self._remember(read_comment(line))
            return
        comment, self._comment = " ".join(self._comment), []
        if not line:
            return
        setting = read_setting(line)
        if setting is not None:
            self._set(*setting)
        else:
            self._add(read_entry(line, system=self._system), comment[:_DESCRIPTION_LIMIT])

    def _remember(self, comment: str | None) -> None:
        """Keep a comment line as description of the entry after it; a line without words (None) clears the comment."""
        if comment is None:
            self._comment = []
        else:
            self._comment.append(comment)

    def _set(self, name: str, value: str) -> None:
        """Apply a setting: a setting of cron, or a variable of the commands."""
        match name:
            case "CRON_TZ":
                self._tz = None
                self._tz = zone_name(value, what=name) if value else self._default_tz
            case "SHELL":
                self._shell = None if value == _USUAL_SHELL else value
            case "MAILTO":
                self._mailto = value
                if value:
                    self._note(f"mail to {value} is not sent yet; its schedules have the label mailto:{value}.")
            case "RANDOM_DELAY":
                if not value.isdecimal():
                    raise InvalidInput(f"RANDOM_DELAY takes a number of minutes, not {value!r}.")
                self._jitter = f"{value}m"
            case _ if name in _OF_MAIL:
                self._note(f"{name} is about mail, which is not sent yet.")
            case _:
                self._env[name] = value
                if name == "TZ":
                    self._note("TZ is for the commands alone, as with cron. For the times, say CRON_TZ or --tz.")

    def _add(self, entry: CrontabEntry, comment: str) -> None:
        """Add the schedule of an entry. Raises InvalidInput."""
        if self._tz is None:
            raise InvalidInput("the CRON_TZ above it cannot be read, so its times are unknown.")
        self.imported.add(
            name_of(entry.command),
            entry.command,
            cron(entry.expression, tz=self._tz),
            self._arguments(entry),
            labels=self._labels(entry),
            description=comment or None,
            overlap="allow",
            catchup="none",
            jitter=self._jitter,
            retries=0,
        )
        if "HOME" not in self._env:
            self.imported.note(
                self._file,
                "without HOME= commands start in the worker's folder; cron starts them in the user's home.",
            )
        if entry.user is not None and entry.user not in self._users:
            self._users.add(entry.user)
            self._note(
                f"ran as {entry.user}, and a worker runs commands as its own user: start it as that one, or let the "
                f"command change it. Its schedules have the label user:{entry.user}."
            )

    def _arguments(self, entry: CrontabEntry) -> dict[str, Any]:
        given = {
            "command": entry.command,
            "env": self._env,
            "cwd": self._env.get("HOME"),
            "stdin": entry.stdin,
            "interpreter": self._shell,
        }
        return {name: value for name, value in given.items() if value}

    def _labels(self, entry: CrontabEntry) -> list[str]:
        found = {"user": entry.user, "mailto": self._mailto}
        return [f"{name}:{value}" for name, value in found.items() if value]

    def _note(self, text: str) -> None:
        self.imported.note(self._where, text)
