"""Secrets that are given to a server and a worker in every possible way appear nowhere: logs, store, pages, memory."""

import base64
import hashlib
import hmac
import json
import os
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import psycopg
import pytest
from playwright.sync_api import Page, expect, sync_playwright
from psycopg.conninfo import make_conninfo

from tests.cli.programs import Program, program
from tests.ui.browsing import ARGUMENTS, chromium
from tests.ui.places import patterns
from tests.waiting import eventually
from tickwork import Tickwork
from tickwork.http.routes import ROUTES
from tickwork.security.credentials import create_key

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]

API = "/api/v1"
CANARIES = {
    "secret": "Canary-of-a-Secret+/=1",
    "host": "canary-of-a-host-name",
    "environment": "canary-of-the-environment",
    "store": "canary-of-the-store",
    "listen": "canary of the listen url",
    "libpq": "canary-of-libpq",
    "other": "canary-of-another-service",
    "key": "c0ffee" * 10 + "c0de",
    "password": "canary-of-a-password",
    "wrong": "canary-of-a-wrong-token",
    "hook": "canary-of-a-hook",
}


SHOP = """
import os
from tickwork import Tickwork, batch, current_batch, current_job
app = Tickwork()
ADDRESSES = " ".join(os.environ.get(name, "") for name in ("TICKWORK_URL", "TICKWORK_LISTEN_URL", "PGPASSWORD"))

@app.task(retries=0)
def tells(fails: bool) -> dict[str, str]:
    job = current_job()
    value = job.secret("STORED")
    for form in (value, value.upper(), value.swapcase(), value.encode().hex(), repr(value), ADDRESSES):
        print(form)
        job.logger.warning("told %s", form)
    os.write(2, f"raw {value} {ADDRESSES}".encode())
    job.progress(0.5, f"at {value} {ADDRESSES}")
    job.save([value, ADDRESSES])
    if fails:
        raise ValueError(f"cannot use {value} at {ADDRESSES}")
    return {"given": value, "store": ADDRESSES, value: "name"}

@app.task(retries=0)
async def tells_async() -> str:
    return f"{current_job().secret('FROM_ENVIRONMENT')} {ADDRESSES}"

@app.task(retries=0, batch=batch(max=2, wait="50ms"))
def tells_all(ones: list[int]) -> list[str]:
    return [f"{current_batch()[0].secret('STORED')} {one} {ADDRESSES}" for one in ones]
"""
STRANGERS: list[str] = []  # what a server was told that a redirect led to


class Stranger(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        STRANGERS.append(f"{self.path} {self.headers}")
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class Echo(BaseHTTPRequestHandler):
    """Repeats what it is sent, as some servers do, or sends it on to a stranger."""

    stranger = ""

    def do_POST(self) -> None:
        if "away" in self.path:
            self.send_response(302)
            self.send_header("location", f"{self.stranger}/came")
            self.send_header("content-length", "0")
            self.end_headers()
            return
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


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join(10)


@pytest.fixture
def echo() -> Iterator[str]:
    STRANGERS.clear()
    with serving(Stranger) as stranger, serving(Echo) as echo:
        Echo.stranger = stranger
        yield echo


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
    url, listen = store_url, f"host=x password='{CANARIES['listen']}'"
    if parts.scheme != "sqlite":
        where, user = parts.netloc.rpartition("@")[2], parts.username or "postgres"
        url = parts._replace(netloc=f"{user}:{CANARIES['store']}@{where}").geturl()
        listen = make_conninfo(store_url, password=CANARIES["listen"])
    (tmp_path / "shop.py").write_text(SHOP)
    environment = {
        "TICKWORK_URL": url,
        "TICKWORK_SECRET_KEY": CANARIES["key"],
        "TICKWORK_HTTP_ALLOW": "127.0.0.1",
        "TICKWORK_LISTEN_URL": listen,
        "PGPASSWORD": CANARIES["libpq"],
        "OTHER_SERVICE": CANARIES["other"],
        "FROM_ENVIRONMENT": CANARIES["environment"],
        "TICKWORK_SECRET_ENV": "FROM_ENVIRONMENT, HOOK",
        "HOOK": CANARIES["hook"],
    }
    token, _ = create_key(app.store, "tests", ["admin", "read", "enqueue", "operate", "work", "metrics"], None, "tests")
    with (
        program(tmp_path, "server", "--port", "0", **environment) as server,
        program(tmp_path, "worker", "shop.py", "--allow-shell", "--processes", "2", **environment) as worker,
    ):
        server.says("server     http://")
        found = re.search(r"http://127\.0\.0\.1:\d+", server.said)
        assert found
        yield Scene(Client(found[0], token, []), server, worker, app)
        worker.says("slots")
        assert (server.end(), worker.end()) == (0, 0)


def forms(value: str) -> set[str]:
    """Return the encodings of a value, in lower case."""
    return {form.lower() for form in written(value)}


def written(value: str) -> set[str]:
    plain = {value, quote(value, safe=""), json.dumps(value)[1:-1], base64.b64encode(value.encode()).decode()}
    return {*plain, base64.b64encode(f"user:{value}".encode()).decode(), value.encode().hex()}


def jobs_of(echo: str) -> list[dict[str, Any]]:
    """Jobs that are given secrets, and tell all they know."""
    secret, environment = "${secret.STORED}", "${secret.FROM_ENVIRONMENT}"
    given = {"secrets": {"env.A": secret, "env.B": environment}}
    ours = "env; tr '\\0' '\\n' </proc/$PPID/environ"
    packed = 'echo "$A" | base64; printf "user:%s" "$A" | base64; echo "$A" | tr a-z A-Z; '
    packed += 'echo "$A" | od -An -tx1 | tr -d " \\n"'
    request = {"url": f"{echo}/x", "method": "POST", "secrets": {"auth.bearer": secret, "headers.X-B": environment}}
    basic = {"url": f"{echo}/x", "method": "POST", "secrets": {"auth.basic": f"user:{secret}"}}
    mail = {"host": "127.0.0.1", "port": 9, "sender": "a@b.example", "to": ["c@d.example"], "subject": "s", "text": "t"}
    return [
        {"task": "shell", "args": {"command": 'echo "$A $B"; echo "$B" >&2; echo "$A"', **given}},
        {"task": "shell", "args": {"command": 'echo "$A"; exit 3', **given}, "retries": 0},
        {"task": "shell", "args": {"command": ["sh", "-c", f"{ours}; exit 4"], **given}, "retries": 0},
        {"task": "shell", "args": {"command": f'echo "$A"; {ours}', **given}},
        {"task": "shell", "args": {"command": packed, **given}},
        {"task": "tells", "args": {"fails": False}},
        {"task": "tells", "args": {"fails": True}},
        {"task": "tells_async", "args": {}},
        {"task": "tells_all", "args": {"ones": 1}},
        {"task": "tells_all", "args": {"ones": 2}},
        {"task": "http", "args": {**request, "url": f"{echo}/away"}},
        {"task": "http", "args": {"secrets": {"url": "http://${secret.HOST}.invalid/"}}, "retries": 0},
        {"task": "http", "args": {"secrets": {"url": "http://${secret.HOST}:99999999/"}}, "retries": 0},
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
    call("PUT", f"{API}/secrets/HOST", {"value": CANARIES["host"].title()})
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


def shown(call: Client, ids: list[str]) -> str:
    """Return the DOM of each page of the web UI, and of the page of each job and run."""
    *jobs, run = ids
    leaves = [pattern for pattern in patterns() if "/:" not in pattern]
    places = [*leaves, *(f"/jobs/{id}" for id in jobs), f"/runs/{run}", "/dags/dag", "/hooks/hook"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        page = browser.new_page()
        page.goto(f"{call.address}/#token={call.token}")
        page.wait_for_selector(".frame")
        found = [dom_of(page, f"{call.address}/#{place}") for place in places]
        browser.close()
    return "\n".join(found)


def dom_of(page: Page, address: str) -> str:
    """Go to a page and return its elements and the values of its fields once it has loaded."""
    page.goto(address)
    expect(page.locator("#content h1, #content .empty h2").first).to_be_visible()
    expect(page.locator("#content .loading")).to_have_count(0)
    fields = page.locator("input, textarea, select").evaluate_all("(all) => all.map((one) => one.value)")
    return f"{address} {page.content()} {fields}"


def rows_of(url: str) -> str:
    """All that a PostgreSQL store holds."""
    with psycopg.connect(url) as connection:
        query = "SELECT tablename FROM pg_tables WHERE schemaname = 'tickwork'"
        tables = [table for (table,) in connection.execute(query).fetchall()]
        found = [connection.execute(f'SELECT t::text FROM tickwork."{table}" t').fetchall() for table in tables]  # type: ignore[arg-type]
    return "\n".join(str(row[0]) for rows in found for row in rows)


def files_of(url: str) -> dict[str, str]:
    """The files of a database and its WAL, in lower case, as far as these tests may read them."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
        (folder,) = connection.execute("SHOW data_directory").fetchone() or ("",)
        (oid,) = connection.execute("SELECT oid FROM pg_database WHERE datname = current_database()").fetchone() or (0,)
    found = [
        *Path(folder, "base", str(oid)).glob("*"),
        *Path(folder, "pg_wal").glob("0*"),
        Path(folder, "../server.log"),
    ]
    return {str(file): file.read_bytes().lower().decode("latin-1") for file in found if os.access(file, os.R_OK)}


def test_no_secret_is_found_again(scene: Scene, echo: str, tmp_path: Path, store_url: str) -> None:
    ids = played(scene, echo)
    asked_for_everything(scene.call, ids)
    states = {id: scene.app.job(id).state for id in ids}  # type: ignore[union-attr]
    views = [scene.app.job(id).view for id in ids]  # type: ignore[union-attr]
    assert [*states.values()].count("succeeded") == 11, [(view.task, view.state, view.error) for view in views]
    places = {"answers": "\n".join(scene.call.heard), "server": scene.server.said, "worker": scene.worker.said}
    if store_url.startswith("sqlite"):
        files = [file for file in tmp_path.glob("tickwork.db*") if file.is_file()]
        places |= {file.name: file.read_bytes().decode("latin-1") for file in files}
        assert len(places) >= 4
    else:
        places |= {"rows": rows_of(store_url), **files_of(store_url)}
    places |= {"stranger": "\n".join(STRANGERS), "pages": shown(scene.call, ids)}
    places = {name: text.lower() for name, text in places.items()}
    assert "/came" in places["stranger"], "a redirect was followed"
    for place in ("answers", "pages"):
        assert "***" in places[place], "what commands and servers told is there, without the secrets"
    assert any("user-agent" in text for name, text in places.items() if name not in ("answers", "stranger")), "it finds"
    values = {**CANARIES, "token": scene.call.token.split("_", 2)[2]}  # which may have a _ itself
    hits = [
        f"{name} in {place}: {text[max(0, at - 150) : at + 60]!r}"
        for name, value in values.items()
        for form in forms(value)
        for place, text in places.items()
        if (at := text.find(form)) >= 0
    ]
    assert not hits, "\n".join(hits)
