"""Parameters of a run are data: they never choose the command that runs, or where a secret is sent."""

import json
from typing import Any

import msgspec
import pytest

from tickwork.core.dag.graph import Graph, Item, JsonTemplate, Map, Param, Placeholder, Step, Template, Text
from tickwork.core.dag.untrusted_values import misplaced, pinned
from tickwork.core.dag.validate import check
from tickwork.core.web.url import literal_origin

P = Param("p")
SECRET = {"secrets": {"auth.bearer": "${secret.T}"}}
BASIC = {"auth": {"basic": "ada:pass"}}
MAIL = {"secrets": {"password": "${secret.M}"}}
CREDENTIALS: list[dict[str, Any]] = [SECRET, BASIC]


def text(*parts: Any) -> Text:
    return Text(parts)


@pytest.mark.parametrize(
    ("task", "where", "value"),
    [
        ("shell", ("cwd",), P),
        ("shell", ("command",), text("echo ", P)),
        ("shell", ("command", 0), P),
        ("shell", ("interpreter",), P),
        ("shell", ("env",), P),
        ("shell", ("env", "PATH"), P),
        ("shell", ("env", "LD_PRELOAD"), P),
        ("shell", ("env", "BASH_ENV"), text("/x/", P)),
        ("shell", ("env", "PYTHONPATH"), P),
        ("shell", ("env", "https_proxy"), P),
        ("shell", ("env", "npm_config_registry"), P),
        ("shell", ("env", "JDK_JAVA_OPTIONS"), P),
        ("shell", ("env", "SSH_ASKPASS"), P),
        ("shell", ("env", "PGHOST"), P),
        ("shell", ("env", "AWS_ENDPOINT_URL_S3"), P),
        ("shell", ("secrets",), P),
        ("http", ("secrets", "auth.bearer"), P),
        ("http", ("origin",), P),
        ("http", (), P),
        ("smtp", ("secrets", "password"), P),
    ],
)
def test_a_value_cannot_say_what_runs_or_which_secret(task: str, where: tuple[str, ...], value: Any) -> None:
    assert misplaced(task, [Placeholder(where, value)], {}) is not None
    assert misplaced("mine", [Placeholder(where, value)], {}) is None, "a task of the user's own knows what it does"


@pytest.mark.parametrize(
    ("task", "where"),
    [("shell", ("env", "WORD")), ("shell", ("env", "PGDATABASE")), ("shell", ("stdin",)), ("http", ("json", "x"))],
)
def test_a_value_can_be_data(task: str, where: tuple[str, ...]) -> None:
    assert misplaced(task, [Placeholder(where, P)], SECRET) is None


@pytest.mark.parametrize("credentials", CREDENTIALS)
@pytest.mark.parametrize(
    "url",
    [
        P,
        text(P, "/x"),
        text("http://", P, "/x"),
        text("http://host", P),
        text("http://host:", P, "/x"),
        text("http://host.", P, "/x"),
        text("http://ada@host/", P),
        text("http:/", P),
        text("//host/", P),
        text("host/", P),
    ],
)
def test_an_origin_is_written_out_where_credentials_are_sent(url: Any, credentials: dict[str, Any]) -> None:
    flaw = misplaced("http", [Placeholder(("url",), url)], credentials)
    assert flaw is not None
    assert "begins with its host, written out" in flaw
    assert misplaced("http", [Placeholder(("url",), url)], {}) is None, "without credentials, egress alone judges"


@pytest.mark.parametrize("credentials", CREDENTIALS)
@pytest.mark.parametrize(
    ("begins", "origin"),
    [
        ("http://host/", "http://host"),
        ("https://Host:8443/a?b=", "https://host:8443"),
        ("http://host?x=", "http://host"),
        ("http://[::1]:81/", "http://[::1]:81"),
    ],
)
def test_a_path_or_a_query_may_be_filled_in_and_the_origin_is_told_to_the_worker(
    begins: str, origin: str, credentials: dict[str, Any]
) -> None:
    hole = Placeholder(("url",), text(begins, P))
    assert misplaced("http", [hole], credentials) is None
    args = JsonTemplate(msgspec.Raw(json.dumps({"url": None, **credentials}).encode()), (hole,))
    assert msgspec.json.decode(pinned("http", args).json) == {"url": None, **credentials, "origin": origin}
    assert pinned("mine", args) is args


@pytest.mark.parametrize("place", ["host", "port", "tls", "user"])
def test_a_password_goes_to_a_mail_server_that_is_written_out(place: str) -> None:
    assert misplaced("smtp", [Placeholder((place,), P)], MAIL) is not None
    assert misplaced("smtp", [Placeholder((place,), P)], {}) is None
    assert misplaced("smtp", [Placeholder(("subject",), P), Placeholder(("to", 0), P)], MAIL) is None


@pytest.mark.parametrize(
    "text", ["http://", "http://host", "ftp://host/", "http://ho st/", "http://a@host/", "/x/", ""]
)
def test_what_begins_with_no_whole_origin(text: str) -> None:
    assert literal_origin(text) is None


def graph(args: dict[str, Any], *holes: Placeholder, task: str = "shell", over: Any = None) -> Graph:
    filled = JsonTemplate(msgspec.Raw(json.dumps(args).encode()), holes)
    step = Step(name="s", job=Template(task), args=filled, map=over)
    return Graph(name="d", steps=(step,), params={"properties": {"p": {}}})


def test_no_graph_is_stored_that_could_be_led_astray() -> None:
    (problem,) = check(graph({"command": "ls", "cwd": None}, Placeholder(("cwd",), P)))
    assert problem.startswith("step 's': a value may not say what is run, nor in which folder")
    assert check(graph({"command": "ls", "env": {"A": None}}, Placeholder(("env", "A"), P))) == []


def test_a_list_of_commands_that_is_written_out_can_be_mapped_over() -> None:
    hole = Placeholder(("command",), Item("command"))
    assert check(graph({"command": None}, hole, over=Map({"command": ["ls", "df"]}))) == []
    assert len(check(graph({"command": None}, hole, over=Map({"command": P})))) == 1
