"""TLS of the server itself, and what it believes of proxies in front of it."""

import json
import socket
import ssl
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest
from starlette.testclient import TestClient

from tests.certificates import self_signed
from tests.cli.programs import program
from tickwork import Tickwork
from tickwork.config import load_settings
from tickwork.errors import InvalidInput
from tickwork.http.server import ServerOptions, Tls, check_tls, uvicorn_config
from tickwork.http.server_context import ServerContext
from tickwork.security.credentials import add_user
from tickwork.store.admin.audit import AuditFilter

SESSION = "/api/v1/session"
LOGIN = {"user": "ada", "password": "correct horse"}
FORWARDED = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "https"}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return self_signed(tmp_path_factory.mktemp("tls"), "localhost")


def client_from(app: Tickwork, parts: ServerContext, address: str, trusted: str | None = None) -> TestClient:
    """Calls the server as uvicorn would serve it, from an address."""
    given = {} if trusted is None else {"TICKWORK_TRUSTED_PROXIES": trusted}
    app.settings = load_settings({"url": app.url}, given)
    config = uvicorn_config(app, parts, ServerOptions())
    config.load()
    return TestClient(config.loaded_app, client=(address, 50000))


def logged_in_from(app: Tickwork, client: TestClient) -> tuple[str, bool]:
    """The address that the audit log has of a login, and whether its cookie is for https alone."""
    answer = client.post(SESSION, json=LOGIN, headers=FORWARDED)
    assert answer.status_code == 201
    row = app.store.audit.list_changes(AuditFilter(action="create_session"), 1)[0]
    return row.change.address, "; Secure" in answer.headers["set-cookie"]


@pytest.fixture(autouse=True)
def ada(app: Tickwork) -> None:
    add_user(app.store, "ada", "viewer", "correct horse")


@pytest.mark.parametrize(
    ("address", "trusted", "found"),
    [
        ("127.0.0.1", None, ("203.0.113.9", True)),
        ("192.0.2.1", None, ("192.0.2.1", False)),
        ("127.0.0.1", "none", ("127.0.0.1", False)),
        ("192.0.2.1", "192.0.2.0/24", ("203.0.113.9", True)),
        ("127.0.0.1", "192.0.2.0/24", ("127.0.0.1", False)),
    ],
)
def test_only_trusted_proxies_say_who_a_client_is_and_that_it_speaks_https(
    app: Tickwork, parts: ServerContext, address: str, trusted: str | None, found: tuple[str, bool]
) -> None:
    assert logged_in_from(app, client_from(app, parts, address, trusted)) == found


def test_a_client_behind_a_trusted_proxy_cannot_name_itself_another_address(
    app: Tickwork, parts: ServerContext
) -> None:
    client = client_from(app, parts, "127.0.0.1")
    made_up = {"X-Forwarded-For": "198.51.100.1, 127.0.0.1, 203.0.113.9"}
    client.post(SESSION, json={**LOGIN, "password": "wrong horse"}, headers=made_up)
    assert app.store.audit.list_changes(AuditFilter(action="failed_login"), 1)[0].change.address == "203.0.113.9"


def test_behind_a_trusted_proxy_each_client_is_throttled_by_itself(app: Tickwork, parts: ServerContext) -> None:
    client = client_from(app, parts, "127.0.0.1")

    def tried(address: str) -> int:
        return client.post(SESSION, json={"token": "x"}, headers={"X-Forwarded-For": address}).status_code

    assert [tried("203.0.113.9") for _ in range(21)] == [401] * 20 + [429]
    assert tried("203.0.113.10") == 401


def test_ipv4_clients_of_a_server_that_listens_on_both_protocols_are_told_apart(
    app: Tickwork, parts: ServerContext
) -> None:
    def tried(address: str, forwarded: str = "") -> int:
        client = client_from(app, parts, address)
        return client.post(SESSION, json={"token": "x"}, headers={"X-Forwarded-For": forwarded}).status_code

    assert [tried("::ffff:203.0.113.9") for _ in range(21)] == [401] * 20 + [429]
    assert tried("203.0.113.9") == 429, "it is the same client"
    assert tried("127.0.0.1", "::ffff:203.0.113.9") == 429
    assert tried("::ffff:203.0.113.10") == 401
    assert [tried(f"2001:db8::{host:x}") for host in range(1, 22)] == [401] * 20 + [429]


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_a_server_that_listens_on_both_protocols_trusts_a_proxy_that_came_by_ipv4(
    app: Tickwork, tmp_path: Path
) -> None:
    given = {"TICKWORK_URL": app.url, "TICKWORK_TRUSTED_PROXIES": "127.0.0.1"}
    both = "::ffff:127.0.0.1"  # as :: does it, for this machine alone
    with program(tmp_path, "server", "--host", both, "--port", "0", **given) as server:
        server.says(f"server     http://[{both}]:")
        port = server.said.partition(f"http://[{both}]:")[2].split()[0]
        url = f"http://127.0.0.1:{port}{SESSION}"
        wrong = {**LOGIN, "password": "wrong horse"}
        for headers, address in (({}, "127.0.0.1"), (FORWARDED, "203.0.113.9")):
            assert httpx2.post(url, json=wrong, headers=headers, timeout=10).status_code == 401
            assert app.store.audit.list_changes(AuditFilter(action="failed_login"), 1)[0].change.address == address


@pytest.mark.parametrize("said", ["*", "everybody", "10.0.0.0/33", "0.0.0.0/0", "::/0", "10.1.2.3/16"])
def test_what_names_no_proxy_or_all_of_them_is_refused(said: str) -> None:
    with pytest.raises(InvalidInput, match="trusted_proxies has"):
        load_settings({}, {"TICKWORK_TRUSTED_PROXIES": said})


def test_a_cookie_is_secure_where_the_public_url_is_https_and_only_there(app: Tickwork, parts: ServerContext) -> None:
    client = client_from(app, parts, "192.0.2.1")
    app.settings = load_settings({"url": app.url}, {"TICKWORK_PUBLIC_URL": "https://jobs.example/x"})
    for host, is_secure in (("jobs.example", True), ("testserver", False)):
        cookie = client.post(SESSION, json=LOGIN, headers={"Host": host}).headers["set-cookie"]
        assert ("; Secure" in cookie) is is_secure


def test_files_that_are_no_certificate_are_refused(tmp_path: Path, certificate: Path) -> None:
    check_tls(Tls(str(certificate), str(certificate)))
    (tmp_path / "empty.pem").write_text("")
    for tls in (Tls(str(certificate), str(tmp_path / "empty.pem")), Tls(str(tmp_path / "none"), str(certificate))):
        with pytest.raises(InvalidInput, match="cannot be used for TLS"):
            check_tls(tls)


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_a_server_with_a_certificate_speaks_https(app: Tickwork, tmp_path: Path, certificate: Path) -> None:
    tls = ("--tls-cert", str(certificate), "--tls-key", str(certificate))
    with program(tmp_path, "server", "--port", "0", *tls, TICKWORK_URL=app.url) as server:
        server.says("server     https://127.0.0.1:")
        address = server.said.partition("server     ")[2].split()[0].replace("127.0.0.1", "localhost")
        trust = ssl.create_default_context(cafile=str(certificate))
        answer = httpx2.post(f"{address}{SESSION}", json=LOGIN, verify=trust, timeout=10)
        assert (answer.status_code, "; Secure" in answer.headers["set-cookie"]) == (201, True)
        with pytest.raises(httpx2.HTTPError):
            httpx2.get(address.replace("https", "http"), timeout=10)
        assert server.end() == 0


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_a_body_in_a_tls_record_of_its_own_is_read_whole(app: Tickwork, tmp_path: Path, certificate: Path) -> None:
    """The records of the head and of the body arrive together, as one piece of TCP."""
    tls = ("--tls-cert", str(certificate), "--tls-key", str(certificate))
    with program(tmp_path, "server", "--port", "0", *tls, TICKWORK_URL=app.url) as server:
        server.says("server     https://127.0.0.1:")
        port = int(server.said.partition("server     ")[2].split()[0].rpartition(":")[2])
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tunnel = ssl.create_default_context(cafile=str(certificate)).wrap_bio(
            incoming, outgoing, server_hostname="localhost"
        )
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            while True:
                try:
                    tunnel.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    connection.sendall(outgoing.read())
                    incoming.write(connection.recv(65536))
            body = json.dumps(LOGIN).encode()
            head = f"POST {SESSION} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            tunnel.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode())
            tunnel.write(body)
            connection.sendall(outgoing.read())
            answer = b""
            while b"\r\n" not in answer:
                incoming.write(connection.recv(65536))
                with suppress(ssl.SSLWantReadError):
                    answer += tunnel.read(65536)
        assert answer.startswith(b"HTTP/1.1 201"), answer
        assert server.end() == 0


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_a_key_that_others_can_read_is_named_at_the_start(tmp_path: Path, certificate: Path, mode: int) -> None:
    files = {name: tmp_path / name for name in ("cert.pem", "key.pem")}
    for file in files.values():
        file.write_bytes(certificate.read_bytes())
    files["key.pem"].chmod(mode)
    arguments = ("--port", "0", "--tls-cert", str(files["cert.pem"]), "--tls-key", str(files["key.pem"]))
    with program(tmp_path, "server", *arguments, TICKWORK_URL=f"sqlite:///{tmp_path}/t.db") as server:
        server.says("server     https://")
        assert (f"chmod 600 {files['key.pem']}" in server.said) == (mode == 0o644)


def test_a_certificate_goes_with_its_key(tmp_path: Path) -> None:
    with program(tmp_path, "server", "--tls-cert", "x.pem") as server:
        assert server.process.wait(20) == 2
        assert "--tls-cert and --tls-key go together" in server.said
