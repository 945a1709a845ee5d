"""Notification channels: a webhook, a Slack-compatible webhook, or mail. Built-in tasks send the messages.

Secrets of a channel are stored as references, `${secret.NAME}`, and passed to the job as references.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from tickwork.core.arguments.unstorable import check_text
from tickwork.core.job_options import DEFAULT_QUEUE, read_option
from tickwork.core.notify.rule import checked_name
from tickwork.core.web.url import read_url
from tickwork.errors import InvalidArguments, InvalidInput

Tls = Literal["starttls", "tls", "none"]
PORTS: Mapping[Tls, int] = {"starttls": 587, "tls": 465, "none": 25}
_SECRET = re.compile(r"\$\{\s*secret\.[A-Za-z_][A-Za-z0-9_]*\s*\}")
_ADDRESS = re.compile(r"[^@\s<>,;\x00-\x1f]+@[^@\s<>,;\x00-\x1f]+")


class Webhook(msgspec.Struct, frozen=True, omit_defaults=True, tag="webhook"):
    """A POST of the message as JSON, signed with `secret` if it is set."""

    name: str
    url: str
    secret: str | None = None
    queue: str = DEFAULT_QUEUE


class Slack(msgspec.Struct, frozen=True, omit_defaults=True, tag="slack"):
    """A POST of {"text": ...}, as accepted by Slack, Mattermost and others."""

    name: str
    url: str
    queue: str = DEFAULT_QUEUE


class Mail(msgspec.Struct, frozen=True, omit_defaults=True, tag="smtp"):
    """A mail to all recipients in `to`, through an SMTP server."""

    name: str
    host: str
    sender: str
    to: tuple[str, ...]
    port: int = PORTS["starttls"]
    tls: Tls = "starttls"
    user: str | None = None
    password: str | None = None
    queue: str = DEFAULT_QUEUE


Channel = Webhook | Slack | Mail
_KINDS: dict[str, type[Channel]] = {"webhook": Webhook, "slack": Slack, "smtp": Mail}


def new_channel(name: str, kind: str, **given: Any) -> Channel:
    """Return a channel from the arguments of a caller; None means not given. Raises InvalidInput."""
    made = _KINDS.get(kind)
    if made is None:
        raise InvalidInput(f"there is no kind of channel called {kind!r}; there are {', '.join(_KINDS)}.")
    said = {field: value for field, value in given.items() if value is not None}
    unknown = next((field for field in said if field not in made.__struct_fields__), None)
    if unknown is not None:
        raise InvalidInput(f"a channel of the kind {kind} has no {unknown!r}.")
    said["name"] = checked_name(name, "channel")
    for field, value in said.items():
        if isinstance(value, str):
            check_text(field, value)
    missing = next((one.name for one in msgspec.structs.fields(made) if one.required and one.name not in said), None)
    if missing is not None:
        raise InvalidInput(f"a channel of the kind {kind} needs {missing}.")
    said["queue"] = read_option("queue", said.get("queue", DEFAULT_QUEUE))
    if made is Mail:
        return _mail(said)
    _check_url(said["url"])
    _check_reference(said.get("secret"), "secret")
    return made(**said)


def _mail(said: dict[str, Any]) -> Mail:
    """Return a mail channel. Raises InvalidInput for invalid addresses, ports, or a password without TLS."""
    to = said["to"]
    said["to"] = tuple([to] if isinstance(to, str) else to)
    for address in (said["sender"], *said["to"]):
        if not isinstance(address, str) or not _ADDRESS.fullmatch(address):
            raise InvalidInput(f"{address!r} is no mail address.")
    if said.get("tls", "starttls") not in PORTS:
        raise InvalidInput(f"tls must be one of {', '.join(PORTS)}, not {said['tls']!r}.")
    said.setdefault("port", PORTS[said.get("tls", "starttls")])
    if not isinstance(said["port"], int) or not 0 < said["port"] < 65536:
        raise InvalidInput(f"there is no port {said['port']!r}.")
    _check_reference(said.get("password"), "password")
    if ("user" in said) != ("password" in said):
        raise InvalidInput("user and password go together.")
    if "user" in said and said.get("tls") == "none":
        raise InvalidInput("a password is not sent without TLS: leave tls at starttls, or say tls.")
    return Mail(**said)


def _check_url(url: str) -> None:
    if _SECRET.search(url):
        return
    try:
        read_url(url)
    except InvalidArguments as error:
        raise InvalidInput(str(error)) from None


def _check_reference(text: str | None, what: str) -> None:
    """Raise InvalidInput for a secret that is not given as a reference: it would be stored in clear text."""
    if text is not None and not _SECRET.search(text):
        raise InvalidInput(f"{what} must be a reference to a secret, such as ${{secret.NAME}}: it is stored as it is.")


class Line(msgspec.Struct, frozen=True):
    """One case in a message. `text` quotes data, for example errors of jobs; `link` is a URL of Tickwork's server."""

    text: str
    link: str | None = None


class Message(msgspec.Struct, frozen=True):
    """A message, as text and as a value. `more` is the number of cases that have no line of their own."""

    subject: str
    body: dict[str, Any]
    lines: tuple[Line, ...] = ()
    more: str | None = None

    @property
    def text(self) -> str:
        """The message as plain text, a line for each case."""
        return self._laid_out(str, _one_line)

    @property
    def markup(self) -> str:
        """The message as Slack markup that is also valid Markdown, which other services accept at the same endpoint.

        Quoted text can neither notify people nor show a link under another name: it is escaped, and formatted as code.
        """
        return self._laid_out(_escaped, _literal)

    def _laid_out(self, plain: Callable[[str], str], quoted: Callable[[str], str]) -> str:
        told = [f"- {quoted(one.text)}" + (f" {plain(one.link)}" if one.link else "") for one in self.lines]
        return "\n".join([plain(self.subject), *told, *([f"- {self.more}"] if self.more else [])])


def job_of(channel: Channel, message: Message) -> tuple[str, dict[str, Any]]:
    """Return the task that sends a message to a channel, and its arguments."""
    match channel:
        case Webhook():
            secrets = {} if channel.secret is None else {"auth.hmac.secret": channel.secret}
            return "http", _post(channel.url, message.body, secrets)
        case Slack():
            return "http", _post(channel.url, {"text": message.markup}, {})
        case Mail():
            given = msgspec.structs.asdict(channel)
            kept = {name: given[name] for name in ("host", "port", "tls", "sender", "to", "user") if given[name]}
            secrets = {} if channel.password is None else {"password": channel.password}
            return "smtp", {**kept, "subject": message.subject, "text": message.text, **_secrets(secrets)}


def _escaped(text: str) -> str:
    """Escape Slack markup, which is between < and >: <!channel> and <https://x.example|a name>."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _literal(text: str) -> str:
    """Return a text as code, where the Markdown forms @channel and [a name](https://x.example) have no effect."""
    plain = _escaped(_one_line(text)).replace("`", "'")
    return f"`{plain}`"


def _one_line(text: str) -> str:
    """Return a text on one line, without characters that could hide or reverse other text."""
    return " ".join("".join(one if one.isprintable() else " " for one in text).split())


def _post(url: str, body: Mapping[str, Any], secrets: dict[str, str]) -> dict[str, Any]:
    """Return the arguments of the task `http` for a POST. A URL that contains a secret is passed as a secret."""
    given: dict[str, Any] = {"method": "POST", "json": body}
    if _SECRET.search(url):
        secrets = {**secrets, "url": url}
    else:
        given["url"] = url
    return {**given, **_secrets(secrets)}


def _secrets(secrets: Mapping[str, str]) -> dict[str, Any]:
    return {"secrets": dict(secrets)} if secrets else {}


def encode_channel(channel: Channel) -> str:
    return msgspec.json.encode(channel).decode()


def decode_channel(text: str) -> Channel:
    made: Channel = msgspec.json.decode(text, type=Channel)
    return made
