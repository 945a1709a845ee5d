"""The built-in task `smtp`, which sends a mail through a server given in its arguments. Every worker has it.

Notifications are sent by this task. It connects like `http`: a server on a private address must be allowed. The
password is passed in a separate argument, and is sent only over TLS.
"""

from __future__ import annotations

import os
import smtplib
import socket
import ssl
from collections.abc import Callable
from email.message import EmailMessage
from email.utils import format_datetime, make_msgid
from typing import Literal

from tickwork.clock import SystemClock
from tickwork.context import current_job
from tickwork.core.access.secret_policy import secret_variables
from tickwork.core.job_options import REQUEST_TIMEOUT
from tickwork.core.web.addresses import read_allowed
from tickwork.errors import Fatal, InvalidArguments, RequestFailed
from tickwork.registry import AppRegistry
from tickwork.store.rows.instants import from_us
from tickwork.worker.run.secrets import revealed
from tickwork.worker.tasks.egress import Egress

NAME = "smtp"
WAIT_S = 20.0  # the timeout of each reply of the server
TEXT_LIMIT = 100_000
_FOR_GOOD = 500  # reply codes from here on are permanent errors


def add_smtp(app: AppRegistry) -> None:
    """Add the task to an app, unless the app has a task of that name."""
    if NAME in app.tasks or app.settings.is_off(NAME):
        return
    settings = app.settings

    def smtp(
        host: str,
        sender: str,
        to: list[str],
        subject: str,
        text: str,
        port: int = 587,
        tls: Literal["starttls", "tls", "none"] = "starttls",
        user: str | None = None,
        secrets: dict[str, str] | None = None,
    ) -> None:
        """Send a mail. `secrets` contains the password: {"password": "${secret.MAIL}"}.

        Raises Fatal for permanent errors of the server, RequestFailed if a retry may succeed.
        """
        variables = secret_variables(os.environ, settings.secret_env)
        password = revealed((secrets or {}).get("password", ""), variables)
        if user and (not password or tls == "none"):
            raise InvalidArguments("a user needs a password among the secrets, and TLS to send it.")
        mail = mail_of(sender, to, subject, text, current_job().id)
        egress = Egress(read_allowed(settings.http_allow))
        trust = ssl.create_default_context(cafile=settings.http_ca)
        send(mail, lambda: _server(egress, host, port, tls, trust), tls, trust, (user, password) if user else None)

    app.task(name=NAME, timeout=REQUEST_TIMEOUT)(smtp)


def mail_of(sender: str, to: list[str], subject: str, text: str, job_id: str) -> EmailMessage:
    """Return a mail. Its Message-ID is derived from the job id, so that a repeated mail can be recognized."""
    mail = EmailMessage()
    try:
        mail["From"], mail["To"] = sender, ", ".join(to)
        mail["Subject"] = " ".join("".join(one if one.isprintable() else " " for one in subject).split())[:200]
        mail["Date"] = format_datetime(from_us(SystemClock().wall_us()))
        mail["Message-ID"] = make_msgid(job_id, domain=sender.rpartition("@")[2] or "tickwork")
        mail["Auto-Submitted"] = "auto-generated"
    except ValueError:
        raise InvalidArguments("sender or to is no mail address.") from None
    mail.set_content(text[:TEXT_LIMIT])
    return mail


def send(
    mail: EmailMessage,
    connect: Callable[[], smtplib.SMTP],
    tls: str,
    trust: ssl.SSLContext,
    login: tuple[str, str] | None,
) -> None:
    """Send a mail. Errors contain the server's reply, but nothing that was sent to the server."""
    try:
        with connect() as server:
            if tls == "starttls":
                server.starttls(context=trust)
            if login is not None:
                server.login(*login)
            server.send_message(mail)
    except smtplib.SMTPAuthenticationError:
        raise Fatal("the mail server does not accept this user and password.") from None
    except smtplib.SMTPResponseException as error:
        raise _refused(error.smtp_code, error.smtp_error) from None
    except smtplib.SMTPRecipientsRefused as error:
        raise _refused(*next(iter(error.recipients.values()))) from None
    except smtplib.SMTPNotSupportedError:
        raise Fatal("the mail server does not offer what was asked for: STARTTLS, or a login.") from None
    except ssl.SSLCertVerificationError as error:
        raise RequestFailed(f"the certificate of the mail server is not trusted ({error.verify_message}).") from None
    except (smtplib.SMTPException, OSError):
        raise RequestFailed("the connection to the mail server ended early.") from None


def _refused(code: int, said: bytes | str) -> Exception:
    text = f"the mail server answered {code}: {said.decode('utf-8', 'replace') if isinstance(said, bytes) else said}"
    return Fatal(text) if code >= _FOR_GOOD else RequestFailed(text, code)


def _server(egress: Egress, host: str, port: int, tls: str, trust: ssl.SSLContext) -> smtplib.SMTP:
    """Connect to a mail server through the `Egress`; its certificate must match the host name."""

    class Dialled(smtplib.SMTP):
        def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
            made = egress.dial(host, port, timeout)
            return trust.wrap_socket(made, server_hostname=host) if tls == "tls" else made

    return Dialled(host, port, local_hostname="tickwork", timeout=WAIT_S)
