"""Import crontabs as schedules; the task `shell` runs their commands.

Lines are parsed as cron does: settings, comments, entries, and % as the separator of stdin. A line that cannot be read
is reported as an error, and the other lines are imported. As with cron, runs may overlap, and missed runs are not
caught up. Settings without an equivalent in Tickwork are reported.

The name of a schedule is short, deterministic and derived from its command: `php /srv/app/artisan schedule:run` becomes
php-artisan-schedule-run.
"""

from __future__ import annotations

import re
import shlex
from itertools import groupby
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from tickwork.core.recurrence.cron import cron
from tickwork.core.recurrence.zones import zone_name
from tickwork.errors import InvalidInput
from tickwork.importers.result import ImportResult, check_size

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


_WORDS = 3
_LONGEST = 60
_PUNCTUATION = ";&|(){}<>\n"
_SUBSTITUTION = re.compile(r"\$\([^()]*\)|`[^`]*`")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_UNFIT = re.compile(r"[^A-Za-z0-9._]+")
_KEYWORDS = {"if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "in", "!"}
# Commands that only prepare for the main command.
_PREPARATIONS = {
    "test",
    "[",
    "[[",
    "cd",
    "command",
    "type",
    "which",
    "sleep",
    "exit",
    "export",
    "set",
    ".",
    "source",
    "umask",
}
# Commands that run the main command: the number of their own arguments, and their options that take a value.
_WRAPPERS: dict[str, tuple[int, tuple[str, ...]]] = {
    **dict.fromkeys(("env", "exec", "time", "nohup", "chronic"), (0, ())),
    "sudo": (0, ("-u", "-g")),
    "nice": (0, ("-n",)),
    "ionice": (0, ("-c", "-n")),
    "timeout": (1, ("-s", "-k")),
    "flock": (1, ("-w",)),
}


def name_of(command: str) -> str:
    """Return a name for a command: the first words of its main command, without folders and options."""
    commands = [words for words in map(_unwrapped, _simple_commands(command)) if words]
    chosen = next((words for words in commands if not _prepares(words)), commands[0] if commands else [])
    words = [_short(word) for word in chosen if not word.startswith(("-", "+"))]
    parts = [_UNFIT.sub("-", word).strip("-.") for word in words if not word.startswith("$")]
    return "-".join([part for part in parts if part][:_WORDS])[:_LONGEST].strip("-.") or "command"


def _simple_commands(text: str) -> list[list[str]]:
    """Split a command line at all operators that separate commands, and drop redirections."""
    commands: list[list[str]] = [[]]
    redirected = False
    for is_operator, group in groupby(_tokens(text), key=lambda token: not token.strip(_PUNCTUATION)):
        words = list(group)
        if not is_operator:
            commands[-1] += words[1:] if redirected else words
            continue
        redirected = words[-1][:1] in ("<", ">")
        if redirected:
            commands[-1] = commands[-1][:-1] if commands[-1][-1:] in (["1"], ["2"]) else commands[-1]
        else:
            commands.append([])
    return commands


def _tokens(text: str) -> list[str]:
    lexer = shlex.shlex(_SUBSTITUTION.sub("", text), posix=True, punctuation_chars=_PUNCTUATION)
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    try:
        return [token for token in lexer if token]
    except ValueError:  # an unclosed quote
        return text.split()


def _unwrapped(words: list[str]) -> list[str]:
    """Return the words of the main command, without keywords, assignments and wrapper commands."""
    while words:
        first = _short(words[0])
        if words[0] in _KEYWORDS or _ASSIGNMENT.match(words[0]):
            words = words[1:]
        elif first in _WRAPPERS and len(words) > 1:
            words = _after_wrapper(first, words[1:])
        else:
            break
    return words


def _after_wrapper(wrapper: str, words: list[str]) -> list[str]:
    """Return the words after the options and arguments of a wrapper command."""
    own, wordy = _WRAPPERS[wrapper]
    while words and words[0].startswith("-"):
        words = words[2 if words[0] in wordy else 1 :]
    return words[own:]


def _prepares(words: list[str]) -> bool:
    return words[0] in _PREPARATIONS or any(word.startswith("sleep ") for word in words)


def _short(word: str) -> str:
    return PurePosixPath(word).name or word


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
