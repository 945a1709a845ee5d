"""Values that nobody may find again: given to a server and a worker in every way there is, looked for everywhere."""

import base64
import hashlib
import hmac
import json
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import psycopg
import pytest

from tests.cli.programs import Program, program
from tests.worker.fixtures import eventually
from tickwork import Tickwork
from tickwork.credentials import create_key
from tickwork.http.table import ROUTES

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]

API = "/api/v1"
CANARIES = {
    "secret": "canary-of-a-secret+/=1",
    "environment": "canary-of-the-environment",
    "store": "canary-of-the-store",
    "key": "c0ffee" * 10 + "c0de",
    "password": "canary-of-a-password",
    "wrong": "canary-of-a-wrong-token",
    "hook": "canary-of-a-hook",
}


class Echo(BaseHTTPRequestHandler):
    """Repeats what it is sent, as some servers do."""

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers.get("content-length", 0)))
        body = json.dumps({"path": self.path, "headers": dict(self.headers), "body": sent.decode()}).encode()
        self.send_response(418 if "teapot" in self.path else 200)
        self.send_header("content-type", "application/json")
        self.send_header("x-repeated", self.headers.get("authorization", ""))
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def echo() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join(10)


class Client(NamedTuple):
    """Calls a server, and keeps all that it answers."""

    address: str
    token: str
    heard: list[str]

    def __call__(self, method: str, path: str, body: Any = None, token: str | None = None, **headers: str) -> Any:
        sent = {"Authorization": f"Bearer {token or self.token}", "Content-Type": "application/json", **headers}
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, sent, method=method)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                status, text, given = answer.status, heard_of(answer), str(answer.headers)
        except urllib.error.HTTPError as error:
            status, text, given = error.code, error.read().decode(), str(error.headers)
        self.heard.append(f"{method} {path}: {given} {text}")
        assert status < 500, self.heard[-1]
        return json.loads(text) if "application/json" in given else text


def heard_of(answer: Any) -> str:
    """All that an answer says; of one that never ends, its first event."""
    is_endless = answer.headers.get_content_type() == "text/event-stream"
    return "".join(line.decode() for line in iter(answer.readline, b"\r\n")) if is_endless else answer.read().decode()


class Scene(NamedTuple):
    call: Client
    server: Program
    worker: Program
    app: Tickwork


@pytest.fixture
def scene(store_url: str, tmp_path: Path, app: Tickwork) -> Iterator[Scene]:
    parts = urlsplit(store_url)
    url = store_url
    if parts.scheme != "sqlite":
        where = parts.netloc.rpartition("@")[2]
        url = parts._replace(netloc=f"{parts.username or 'postgres'}:{CANARIES['store']}@{where}").geturl()
    environment = {
        "TICKWORK_URL": url,
        "TICKWORK_SECRET_KEY": CANARIES["key"],
        "TICKWORK_HTTP_ALLOW": "127.0.0.1",
        "FROM_ENVIRONMENT": CANARIES["environment"],
        "TICKWORK_SECRET_ENV": "FROM_ENVIRONMENT, HOOK",
        "HOOK": CANARIES["hook"],
    }
    token, _ = create_key(app.store, "tests", ["admin", "read", "enqueue", "operate", "work", "metrics"], None, "tests")
    with (
        program(tmp_path, "server", "--port", "0", **environment) as server,
        program(tmp_path, "worker", "--allow-shell", **environment) as worker,
    ):
        server.says("server     http://")
        found = re.search(r"http://127\.0\.0\.1:\d+", server.said)
        assert found
        yield Scene(Client(found[0], token, []), server, worker, app)
        assert (server.end(), worker.end()) == (0, 0)


def forms(value: str) -> set[str]:
    """How a value may be written."""
    plain = {value, quote(value, safe=""), json.dumps(value)[1:-1], base64.b64encode(value.encode()).decode()}
    return {*plain, base64.b64encode(f"user:{value}".encode()).decode(), value.encode().hex()}


def jobs_of(echo: str) -> list[dict[str, Any]]:
    """Jobs that are given secrets, and tell all they know."""
    secret, environment = "${secret.STORED}", "${secret.FROM_ENVIRONMENT}"
    given = {"secrets": {"env.A": secret, "env.B": environment}}
    ours = "env | grep TICKWORK_"
    request = {"url": f"{echo}/x", "method": "POST", "secrets": {"auth.bearer": secret, "headers.X-B": environment}}
    basic = {"url": f"{echo}/x", "method": "POST", "secrets": {"auth.basic": f"user:{secret}"}}
    mail = {"host": "127.0.0.1", "port": 9, "sender": "a@b.example", "to": ["c@d.example"], "subject": "s", "text": "t"}
    return [
        {"task": "shell", "args": {"command": 'echo "$A $B"; echo "$B" >&2; echo "$A"', **given}},
        {"task": "shell", "args": {"command": 'echo "$A"; exit 3', **given}, "retries": 0},
        {"task": "shell", "args": {"command": ["sh", "-c", f"{ours}; exit 4"], **given}, "retries": 0},
        {"task": "shell", "args": {"command": f'echo "$A"; {ours}', **given}},
        {"task": "http", "args": request},
        {"task": "http", "args": {**request, "url": f"{echo}/teapot"}, "retries": 0},
        {"task": "http", "args": basic},
        {"task": "http", "args": {"method": "POST", "secrets": {"url": f"{echo}/{secret}/teapot"}}, "retries": 0},
        {"task": "http", "args": {"method": "POST", "secrets": {"url": f"nonsense:{secret}"}}, "retries": 0},
        {"task": "smtp", "args": {**mail, "user": "u", "secrets": {"password": secret}}, "retries": 0},
    ]


def played(scene: Scene, echo: str) -> list[str]:
    """Everything that has to do with secrets, done once; return the ids of the jobs."""
    call = scene.call
    call("PUT", f"{API}/secrets/STORED", {"value": CANARIES["secret"]})
    call("PUT", f"{API}/secrets/bad-name", {"value": CANARIES["secret"]})
    call("PUT", f"{API}/secrets/STORED2", {"value": [CANARIES["secret"]]})
    call("POST", f"{API}/users", {"name": "ada", "role": "viewer", "password": CANARIES["password"]})
    call("POST", f"{API}/users", {"name": "bob", "role": "x", "password": CANARIES["password"]})
    call("POST", f"{API}/session", {"user": "ada", "password": CANARIES["password"]})
    call("POST", f"{API}/session", {"user": CANARIES["password"], "password": CANARIES["password"]})
    call("POST", f"{API}/session", {"token": CANARIES["wrong"]})
    call("POST", f"{API}/session", {"token": CANARIES["wrong"], "unknown": CANARIES["password"]})
    call("GET", f"{API}/jobs", token=CANARIES["wrong"])
    call("GET", f"{API}/jobs", Cookie=f"tickwork_session={CANARIES['wrong']}")
    call(
        "PUT", f"{API}/hooks/hook", {"style": "github", "secret": "HOOK", "task": "shell", "args": {"command": "true"}}
    )
    for key in (CANARIES["hook"], "wrong"):
        signature = hmac.new(key.encode(), b"{}", hashlib.sha256).hexdigest()
        call("POST", "/hooks/hook", b"{}", **{"X-Hub-Signature-256": f"sha256={signature}"})
    channel = {"kind": "slack", "url": "${secret.STORED}"}
    call("PUT", f"{API}/channels/channel", channel)
    call("PUT", f"{API}/notifications/notification", {"on": "failed", "to": ["channel"]})
    steps = '{a: {shell: "echo $A", env: {A: "${secret.STORED}"}}, b: {needs: a, shell: env | grep TICKWORK_}}'
    call("POST", f"{API}/dags", {"text": f"dags: {{dag: {{steps: {steps}}}}}"})
    run = call("POST", f"{API}/dags/dag/runs", {})["id"]
    ids = [call("POST", f"{API}/jobs", {**job, "key": f"key{at}"})["id"] for at, job in enumerate(jobs_of(echo))]
    for id in (*ids, run):
        eventually(lambda id=id: scene.app.job(id).view.state.ended, 60, id)  # type: ignore[misc,union-attr]
    return [*ids, run]


def asked_for_everything(call: Client, ids: list[str]) -> None:
    """Read by every route there is to read by."""
    names = {"/keys/": "tests", "/secrets/": "STORED", "/users/": "ada"}
    kinds = ("hook", "channel", "notification", "dag")
    for route in ROUTES:
        if route.method != "GET":
            continue
        for id in ids if "{id}" in route.path else [""]:
            name = next((one for one in kinds if f"/{one}s/" in route.path), "default")
            name = next((known for part, known in names.items() if part in route.path), name)
            path = (
                route.path.replace("{id}", id).replace("{name}", name).replace("{version}", "1").replace("{step}", "a")
            )
            call("GET", re.sub(r"{\w+(:path)?}", "x", path))


def rows_of(url: str) -> str:
    """All that a PostgreSQL store holds."""
    with psycopg.connect(url) as connection:
        query = "SELECT tablename FROM pg_tables WHERE schemaname = 'tickwork'"
        tables = [table for (table,) in connection.execute(query).fetchall()]
        found = [connection.execute(f'SELECT t::text FROM tickwork."{table}" t').fetchall() for table in tables]  # type: ignore[arg-type]
    return "\n".join(str(row[0]) for rows in found for row in rows)


def test_no_secret_is_found_again(scene: Scene, echo: str, tmp_path: Path, store_url: str) -> None:
    ids = played(scene, echo)
    asked_for_everything(scene.call, ids)
    states = {id: scene.app.job(id).state for id in ids}  # type: ignore[union-attr]
    assert [*states.values()].count("succeeded") >= 5, states
    places = {"answers": "\n".join(scene.call.heard), "server": scene.server.said, "worker": scene.worker.said}
    if store_url.startswith("sqlite"):
        files = [file for file in tmp_path.glob("tickwork.db*") if file.is_file()]
        places |= {file.name: file.read_bytes().decode("latin-1") for file in files}
        assert len(places) >= 4
    else:
        places["rows"] = rows_of(store_url)
    assert "***" in places["answers"], "what commands and servers told is there, without the secrets"
    values = {**CANARIES, "token": scene.call.token.rpartition("_")[2]}
    hits = [
        f"{name} in {place}: {text[max(0, at - 150) : at + 60]!r}"
        for name, value in values.items()
        for form in forms(value)
        for place, text in places.items()
        if (at := text.find(form)) >= 0
    ]
    assert not hits, "\n".join(hits)
