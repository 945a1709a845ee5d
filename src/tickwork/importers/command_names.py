"""Derive a short, deterministic schedule name from a shell command.

`php /srv/app/artisan schedule:run` becomes php-artisan-schedule-run.
"""

from __future__ import annotations

import re
import shlex
from itertools import groupby
from pathlib import PurePosixPath

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
