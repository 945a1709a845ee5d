"""The task `smtp` against a mail server on loopback: what arrives, what is refused, and where it never goes."""

import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.policy import default
from pathlib import Path
from typing import Any

import pytest

from tests.certificates import self_signed
from tests.worker.listeners import listener
from tickwork import Job, JobFailed, Tickwork
from tickwork.errors import InvalidArguments
from tickwork.worker.tasks.smtp import mail_of


@dataclass
class Post:
    """A mail server: what it was told, and the mails that it took. `refuses` are answers to commands."""

    port: int = 0
    lines: list[str] = field(default_factory=list)
    mails: list[bytes] = field(default_factory=list)
    refuses: dict[str, str] = field(default_factory=dict)


@contextmanager
def post(tls: ssl.SSLContext | None = None, **refuses: str) -> Iterator[Post]:
    """Serve SMTP, with STARTTLS where there is a certificate, while the block runs."""
    there = Post(refuses=refuses)

    class Handler(socketserver.StreamRequestHandler):
        def say(self, line: str) -> None:
            self.wfile.write(f"{line}\r\n".encode())

        def handle(self) -> None:
            self.say("220 post")
            while line := self.rfile.readline().decode().strip():
                there.lines.append(line)
                if not self.obey(line.split()[0].upper()):
                    return

        def obey(self, word: str) -> bool:
            if word in there.refuses:
                self.say(there.refuses[word])
            elif word == "EHLO":
                self.say("250-post")
                self.say("250-STARTTLS" if tls and not isinstance(self.connection, ssl.SSLSocket) else "250-AUTH PLAIN")
                self.say("250 8BITMIME")
            elif word == "STARTTLS" and tls is not None:
                self.say("220 go on")
                self.connection = tls.wrap_socket(self.connection, server_side=True)
                self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb", 0)  # type: ignore[assignment]
            elif word == "AUTH":
                self.say("235 welcome")
            elif word == "DATA":
                self.say("354 go on")
                data = b""
                while (one := self.rfile.readline()) != b".\r\n":
                    data += one
                there.mails.append(data)
                self.say("250 taken")
            elif word == "QUIT":
                self.say("221 bye")
                return False
            else:
                self.say("250 fine")
            return True

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A client that goes away is nothing to print."""

    with Server(("127.0.0.1", 0), Handler) as server:
        there.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield there
        finally:
            server.shutdown()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return self_signed(tmp_path_factory.mktemp("tls"), "localhost")


@pytest.fixture
def tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


@pytest.fixture
def app(tmp_path: Path, certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tickwork]:
    """An app whose worker may reach localhost, and trusts the certificate."""
    monkeypatch.setenv("TICKWORK_HTTP_ALLOW", "127.0.0.1, localhost")
    monkeypatch.setenv("TICKWORK_HTTP_CA", str(certificate))
    monkeypatch.setenv("MAIL_SECRET", "p4ss-w0rd")
    monkeypatch.setenv("TICKWORK_SECRET_ENV", "MAIL_SECRET")
    app = Tickwork(f"sqlite:///{tmp_path}/tickwork.db")
    with app.worker():
        yield app
    app.close()


def send(app: Tickwork, there: Post, host: str = "localhost", **more: Any) -> Job:
    given = {
        "host": host,
        "port": there.port,
        "sender": "tick@example.org",
        "to": ["ada@example.org", "bob@example.org"],
    }
    mail = {"subject": "3 jobs failed\r\nBcc: eve@example.org", "text": "- report: no rows\n.\n- grün"}
    return app.named("smtp").options(retries=0).enqueue(**{**given, **mail, **more})


def error_of(job: Job) -> str:
    with pytest.raises(JobFailed):
        job.result(timeout=20)
    return job.view.error or ""


def test_a_mail_arrives_over_tls_with_a_login(app: Tickwork, tls: ssl.SSLContext) -> None:
    with post(tls) as there:
        job = send(app, there, user="tick", secrets={"password": "${secret.MAIL_SECRET}"})
        job.result(timeout=20)
    mail = message_from_bytes(there.mails[0], policy=default)
    assert mail["To"] == "ada@example.org, bob@example.org"
    assert mail["Subject"] == "3 jobs failed Bcc: eve@example.org"
    assert mail["Bcc"] is None
    assert job.id in mail["Message-ID"]
    assert "report: no rows" in there.mails[0].decode()
    verbs = [line.split()[0].upper() for line in there.lines]
    assert verbs == ["EHLO", "STARTTLS", "EHLO", "AUTH", "MAIL", "RCPT", "RCPT", "DATA", "QUIT"]


@pytest.mark.parametrize(
    "subject",
    ["a\r\nBcc: eve@example.org", "a\x00b\x1b[8mc", "a\u2028Bcc: eve@example.org", "a\x85\x0b\x7f", "\u202eb"],
)
def test_a_subject_is_one_header_of_characters_that_print(subject: str) -> None:
    mail = mail_of("tick@example.org", ["ada@example.org"], subject, "text", "job")
    head = mail.as_bytes().split(b"\n\n")[0].decode("ascii")
    assert sorted(mail.keys()) == sorted(set(mail.keys()))
    assert mail["Bcc"] is None
    assert mail["Subject"].isprintable()
    assert all(line.isprintable() for line in head.split("\n"))
    assert mail.get_content_type() == "text/plain"


@pytest.mark.parametrize("address", ["a@example.org\nBcc: eve@example.org", "a@example.org\r\nSubject: x"])
def test_an_address_with_a_line_end_sends_nothing(address: str) -> None:
    with pytest.raises(InvalidArguments):
        mail_of(address, ["ada@example.org"], "s", "text", "job")
    with pytest.raises(InvalidArguments):
        mail_of("tick@example.org", [address], "s", "text", "job")


def test_a_server_without_tls_gets_a_mail_when_that_was_said_and_never_a_password(app: Tickwork) -> None:
    with post() as there:
        send(app, there, tls="none").result(timeout=20)
        assert len(there.mails) == 1
        assert "does not offer what was asked for" in error_of(send(app, there))
        secrets = {"password": "${secret.MAIL_SECRET}"}
        assert "TLS to send it" in error_of(send(app, there, tls="none", user="tick", secrets=secrets))
    assert not any(line.upper().startswith("AUTH") for line in there.lines)


def test_a_certificate_for_another_name_is_not_trusted(app: Tickwork, tls: ssl.SSLContext) -> None:
    with post(tls) as there:
        assert "certificate of the mail server is not trusted" in error_of(send(app, there, host="127.0.0.1"))
        assert there.mails == []


def test_what_a_server_refuses_for_good_is_not_tried_again(app: Tickwork, tls: ssl.SSLContext) -> None:
    login = {"user": "tick", "secrets": {"password": "${secret.MAIL_SECRET}"}}
    with post(tls, AUTH="535 no") as there:
        assert error_of(send(app, there, **login)).endswith("does not accept this user and password.")
    with post(tls, RCPT="550 no such box") as there:
        assert error_of(send(app, there)).endswith("Fatal: the mail server answered 550: no such box")
    with post(tls, MAIL="451 later") as there:
        said = error_of(send(app, there))
    assert said.endswith("RequestFailed: the mail server answered 451: later")
    assert "p4ss" not in said


def test_no_mail_reaches_an_address_that_is_not_allowed(
    app: Tickwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TICKWORK_HTTP_ALLOW")
    strict = Tickwork(f"sqlite:///{tmp_path}/strict.db")
    with strict.worker(), listener() as seen:
        said = error_of(send(strict, Post(seen[0])))
        assert "which is loopback: nothing was sent" in said
        assert len(seen) == 1
    strict.close()
