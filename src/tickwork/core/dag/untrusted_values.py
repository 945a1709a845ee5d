"""Check where untrusted values may be used in arguments: results of steps, parameters of runs, data of messages.

Any caller with permission to start a run or send a message can choose these values. In the arguments of a built-in
task they may be data, but they may not decide which program runs, which secret a task gets, or where a secret is
sent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from tickwork.core.dag.graph import Item, JsonTemplate, Placeholder, Step, Text
from tickwork.core.web.url import literal_origin

SHELL, HTTP, SMTP = "shell", "http", "smtp"
_SECRETS = "secrets"
_OF_SMTP = ("host", "port", "tls", "user")  # they decide which server gets the password, and how
# Environment variables that decide which code interpreters, loaders and common programs run, or where they send
# credentials.
_LOADING = frozenset(
    {
        *("PATH", "ENV", "IFS", "SHELLOPTS", "BASHOPTS", "CDPATH", "HOME", "PS4", "PROMPT_COMMAND", "ZDOTDIR", "FPATH"),
        *("CLASSPATH", "JDK_JAVA_OPTIONS", "MAVEN_OPTS", "NODE_PATH", "PHPRC", "PHP_INI_SCAN_DIR", "GCONV_PATH"),
        *("EDITOR", "VISUAL", "PAGER", "BROWSER", "LESSOPEN", "LESSCLOSE", "MAKEFLAGS", "TAR_OPTIONS", "RSYNC_RSH"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_HOME", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "HOSTALIASES"),
        *("PGHOST", "PGHOSTADDR", "PGPORT", "PGOPTIONS", "MYSQL_HOST", "MYSQL_TCP_PORT", "MYSQL_UNIX_PORT"),
        *("DOCKER_HOST", "KUBECONFIG", "VAULT_ADDR", "GH_HOST", "TICKWORK_URL", "TICKWORK_LISTEN_URL"),
    }
)
_LOADING_BEGINNINGS = (
    *("LD_", "DYLD_", "BASH_", "PYTHON", "PERL", "RUBY", "LUA_", "JAVA_", "_JAVA_", "DOTNET_", "OPENSSL_", "SUDO_"),
    *("NODE_OPTIONS", "NPM_CONFIG_", "npm_config_", "PIP_", "CARGO_", "GIT_", "SSH_", "XDG_CONFIG_"),
    *("AWS_ENDPOINT_URL", "AWS_CONFIG_", "PGSERVICE", "PGSSL", "PGPASSFILE"),
)


def misplaced(task: str, holes: Iterable[Placeholder], arguments: Any) -> str | None:
    """Return what is wrong with the places of untrusted values in the arguments of a task; None if nothing is."""
    if task not in (SHELL, HTTP, SMTP):
        return None
    holes = list(holes)
    if any(not hole.where or hole.where[0] == _SECRETS for hole in holes):
        return "a value may not say which secret is given to a task: write ${secret.NAME} itself."
    flaws = (_flaw(task, hole, _has_credentials(arguments)) for hole in holes)
    return next((flaw for flaw in flaws if flaw is not None), None)


def misplaced_in(step: Step) -> str | None:
    """Return what is wrong with the places of untrusted values in the arguments of a step; None if nothing is.

    Mapped elements are trusted if the definition of the dag lists them all.
    """
    if step.job is None or not step.args.holes or step.job.task not in (SHELL, HTTP, SMTP):
        return None
    over = {} if step.map is None else step.map.over
    literal = {name for name, elements in over.items() if isinstance(elements, list)}
    holes = [hole for hole in step.args.holes if not _is_element(hole, literal)]
    return misplaced(step.job.task, holes, msgspec.json.decode(step.args.json))


def pinned(task: str, args: JsonTemplate) -> JsonTemplate:
    """Return arguments to which, for a request with credentials, the origin written in the definition is added.

    The http task checks that origin again before it sends the request.
    """
    origin = next((_origin(hole) for hole in args.holes if hole.where == ("url",)), None)
    if task != HTTP or origin is None:
        return args
    given = msgspec.json.decode(args.json)
    if not _has_credentials(given):
        return args
    return JsonTemplate(msgspec.Raw(msgspec.json.encode({**given, "origin": origin})), args.holes)


def _is_element(hole: Placeholder, mapped: Collection[str]) -> bool:
    return isinstance(hole.value, Item) and hole.where == (hole.value.name,) and hole.value.name in mapped


def _has_credentials(arguments: Any) -> bool:
    return isinstance(arguments, dict) and any(arguments.get(name) for name in (_SECRETS, "auth"))


def _flaw(task: str, hole: Placeholder, has_credentials: bool) -> str | None:
    """Return what is wrong with a placeholder in an argument of a built-in task; None if nothing is."""
    place, inside = str(hole.where[0]), hole.where[1:]
    if task == SHELL:
        return _flaw_of_shell(place, [str(part) for part in inside])
    if task == HTTP and place == "origin":
        return "a value may not say which origin a request goes to."
    if task == HTTP and place == "url" and has_credentials and _origin(hole) is None:
        return (
            "a url that is used with a secret begins with its host, written out to the / after it, as in "
            "https://example.org/${params.path}: a value may not say where the secret is sent."
        )
    if task == SMTP and place in _OF_SMTP and has_credentials:
        return f"a value may not say the {place} of a mail server that is given a password."
    return None


def _flaw_of_shell(place: str, inside: list[str]) -> str | None:
    if place == "env" and not inside:
        return "a value may not say which variables a command has: name each of them in env."
    if place == "env" and _is_loading(inside[0]):
        return f"a value may not say {inside[0]}, by which a command finds what it runs, or whom it talks to."
    if place not in ("env", "stdin"):
        return "a value may not say what is run, nor in which folder: pass it to the command through env or stdin."
    return None


def _is_loading(name: str) -> bool:
    return name in _LOADING or name.startswith(_LOADING_BEGINNINGS) or name.lower().endswith("_proxy")


def _origin(hole: Placeholder) -> str | None:
    """Return the origin that a definition gives literally in a URL; None if a value may change any part of it."""
    first = hole.value.parts[0] if isinstance(hole.value, Text) else None
    return literal_origin(first) if isinstance(first, str) else None
