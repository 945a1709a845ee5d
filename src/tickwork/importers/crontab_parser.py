"""Parse the lines of a crontab as cron does: settings, comments, entries, and % as the separator of stdin."""

from __future__ import annotations

import re
from typing import NamedTuple

from tickwork.errors import InvalidInput

_SETTING = re.compile(r"""("[^"]*"|'[^']*'|[^\s='"#@*]+)\s*=(.*)""", re.DOTALL)
_USER = re.compile(r"[A-Za-z_][\w.-]*\$?(?:[:/][\w.:/-]+)?")
_RANDOM = re.compile(r"(?:(\d{1,2})~(\d{1,2})|~)(?=[,/]|$)")
_SIXTH = re.compile(r"[*?\d][-,/*\dL#]*(\s|$)|(MON|TUE|WED|THU|FRI|SAT|SUN)([-,][A-Z]{3})*\s", re.IGNORECASE)
# Comments that do not describe a command: "m h dom mon dow command", diagrams of the fields, disabled lines.
_NO_PROSE = re.compile(r"m(in(ute)?s?)?\s+h|[\d*@|.+<-]|\W*$", re.IGNORECASE)


class CrontabEntry(NamedTuple):
    """A line that runs a command. `stdin` is None if the command has no input."""

    expression: str
    user: str | None
    command: str
    stdin: str | None


def read_setting(line: str) -> tuple[str, str] | None:
    """Return the name and the value of a line such as `PATH = "/usr/bin:/bin"`; None if the line is no setting."""
    found = _SETTING.fullmatch(line.strip())
    if found is None:
        return None
    return _unquoted(found[1]), _unquoted(found[2].strip())


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] in "\"'" and text[-1] == text[0] else text


def read_comment(line: str) -> str | None:
    """Return the text of a comment; None if it does not describe a command."""
    text = line.strip().lstrip("#").strip()
    return None if _NO_PROSE.match(text) else text


def read_entry(line: str, *, system: bool) -> CrontabEntry:
    """Parse a line with a time, a user if `system`, and a command. Raises InvalidInput."""
    expression, rest = _split_time(line.strip().removeprefix("-"))  # cronie: "-" disables syslog for a line
    user = None
    if system:
        user, rest = (*rest.split(None, 1), "", "")[:2]
        if not _USER.fullmatch(user):
            raise InvalidInput(f"{user!r} is not a user; in the system form one stands before the command.")
    elif rest.split(None, 1)[:1] == ["root"]:
        raise InvalidInput("'root' looks like the user of a system crontab. If this is one, say --system.")
    command, stdin = split_percent(rest.strip())
    if not command:
        raise InvalidInput("there is no command after the time" + (" and the user." if system else "."))
    return CrontabEntry(expression, user, command, stdin)


def _split_time(line: str) -> tuple[str, str]:
    """Split a line into its cron expression and the rest. Raises InvalidInput."""
    count = 1 if line.startswith("@") else 5
    parts = line.split(None, count)
    if len(parts) < count:
        raise InvalidInput(
            "it is neither NAME=VALUE nor a time (minute hour day month weekday, or @daily and the like) and a command."
        )
    if count == 5 and len(parts) > count and _SIXTH.match(parts[count]):
        raise InvalidInput(
            "it has six fields before the command, and a crontab has five: minute hour day month weekday. If the first "
            "are seconds, or the last are years, write it as a schedule in YAML."
        )
    fields = [_RANDOM.sub(_spread, field) for field in parts[:count]]
    return " ".join(fields), parts[count] if len(parts) > count else ""


def _spread(found: re.Match[str]) -> str:
    """Convert a random time of cronie, `~` or `10~20`, to H, which is also spread but never changes.

    cronie draws random times again at each start.
    """
    return "H" if found[1] is None else f"H({found[1]}-{found[2]})"


def split_percent(text: str) -> tuple[str, str | None]:
    """Split a command from its stdin at the first unescaped %; each further unescaped % is a line end of stdin."""
    pieces = [piece.replace("\\%", "%") for piece in _cut(text)]
    if len(pieces) == 1:
        return pieces[0], None
    stdin = "\n".join(pieces[1:])
    return pieces[0], stdin if stdin.endswith("\n") or not stdin else f"{stdin}\n"


def _cut(text: str) -> list[str]:
    """Split at every unescaped %. A backslash escapes the next character, including another backslash."""
    pieces, start, at = [], 0, 0
    while at < len(text):
        if text[at] == "%":
            pieces.append(text[start:at])
            start = at + 1
        at += 2 if text[at] == "\\" else 1
    return [*pieces, text[start:]]
