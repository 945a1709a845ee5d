"""The built-in task `http`, which sends an HTTP request, for work that a server does. Every worker has it.

It connects to public addresses, and to addresses that TICKWORK_HTTP_ALLOW of its worker allows. Secrets are passed in
a separate argument and never appear in its output: errors contain at most the host of a URL.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
from codecs import getincrementaldecoder
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

import msgspec

from tickwork.clock import Clock, SystemClock
from tickwork.context import current_job
from tickwork.core.access.secret_policy import secret_variables
from tickwork.core.arguments import payload
from tickwork.core.job_options import REQUEST_TIMEOUT
from tickwork.core.text.duration import parse_duration
from tickwork.core.web.addresses import read_allowed
from tickwork.core.web.answer import SIGNATURE, WORTH_A_RETRY, is_expected, kept_headers, retry_after, signature
from tickwork.core.web.url import read_url
from tickwork.errors import Fatal, InvalidArguments, InvalidPayload, RequestFailed, Retry
from tickwork.registry import AppRegistry
from tickwork.store.rows.instants import from_us
from tickwork.version import VERSION
from tickwork.worker.run.secrets import masked, revealed
from tickwork.worker.tasks.egress import Egress

if TYPE_CHECKING:
    from tickwork.worker.tasks.http_client import HttpClient, IncomingResponse, OutgoingRequest

NAME = "http"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
TIMEOUT, CONNECT_TIMEOUT = "30s", "10s"
LONGEST = timedelta(hours=1)
QUOTE_LIMIT = 500  # characters of a response that an error quotes
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,200}")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]{0,8000}")
_OURS = frozenset({"host", "content-length", "transfer-encoding", "connection"})


class Hmac(TypedDict):
    """The header in which the body's signature is sent, and the secret to sign with: `t=...,v1=...`."""

    secret: NotRequired[str]
    header: NotRequired[str]


class Auth(TypedDict):
    """The credentials of a request; exactly one of these."""

    basic: NotRequired[str]
    bearer: NotRequired[str]
    hmac: NotRequired[Hmac]


class HttpResponse(TypedDict):
    """A response. `body` is the decoded JSON, otherwise the text, up to 64 KB. `truncated`: the body was longer."""

    status: int
    headers: dict[str, str]
    body: Any
    truncated: bool
    elapsed_ms: int


def add_http(app: AppRegistry) -> None:
    """Add the task to an app, unless the app has a task of that name."""
    if NAME in app.tasks or app.settings.is_off(NAME):
        return
    settings = app.settings

    async def http(
        url: str = "",
        method: str = "GET",
        headers: dict[str, str] | None = None,
        json: Any = None,
        body: str | None = None,
        auth: Auth | None = None,
        expect: list[int | str] | None = None,
        timeout: str = TIMEOUT,
        connect_timeout: str = CONNECT_TIMEOUT,
        secrets: dict[str, str] | None = None,
        origin: str | None = None,
    ) -> HttpResponse:
        """Send a request and return its response. `expect` lists the statuses of success, such as [200, "3xx"].

        `origin` is the origin that the URL must have, such as `https://example.org:8443`. `secrets` override the
        other arguments: {"auth.bearer": "${secret.TOKEN}"}. Any other status fails the job for good, unless a retry
        may succeed.
        """
        from tickwork.worker.tasks.http_client import HttpClient

        clock = SystemClock()
        variables = secret_variables(os.environ, settings.secret_env)
        asked = HttpArguments(url, method, headers or {}, json, body, auth or {}, secrets or {}, variables, origin)
        wanted = (clock, tuple(expect or ()), timeout, connect_timeout)
        # In a thread, because secrets are read from the store, which would block other requests of this event loop.
        outgoing = await asyncio.to_thread(asked.outgoing, *wanted) if secrets else asked.outgoing(*wanted)
        _check_fits(outgoing.whole_s, current_job().timeout)
        client = HttpClient(Egress(read_allowed(settings.http_allow)), settings.http_ca)
        return await answered(client, outgoing, clock)

    app.task(name=NAME, timeout=REQUEST_TIMEOUT)(http)


async def answered(client: HttpClient, request: OutgoingRequest, clock: Clock) -> HttpResponse:
    """Send a request and return its response. Raises Fatal or RequestFailed for an unexpected status."""
    began = clock.monotonic()
    answer = _masked(await client.send(request), request.hidden)
    elapsed_ms = round((clock.monotonic() - began) * 1000)
    if not is_expected(answer.status, request.expect):
        raise _unexpected(request, answer, clock)
    return HttpResponse(
        status=answer.status,
        headers={name: payload.storable(value) for name, value in kept_headers(answer.headers).items()},
        body=_body(answer),
        truncated=answer.truncated,
        elapsed_ms=elapsed_ms,
    )


@dataclass(frozen=True, slots=True)
class HttpArguments:
    """The arguments of a job, and the environment for its secrets."""

    url: str
    method: str
    headers: Mapping[str, str]
    json: Any
    body: str | None
    auth: Auth
    secrets: Mapping[str, str]
    environ: Mapping[str, str]
    origin: str | None = None

    def outgoing(
        self, clock: Clock, expect: tuple[int | str, ...], timeout: str, connect_timeout: str
    ) -> OutgoingRequest:
        """Return the request of these arguments, with its secrets. Raises InvalidArguments."""
        from tickwork.worker.tasks.http_client import OutgoingRequest

        method = self.method.upper()
        if method not in METHODS:
            raise InvalidArguments(f"method must be one of {', '.join(METHODS)}, not {self.method!r}.")
        is_expected(200, expect)
        if self.origin is not None and read_url(self.url).origin != read_url(self.origin).origin:
            raise InvalidArguments(f"the url does not go to {self.origin}, as it was declared. Nothing was sent.")
        open_secrets = {place: revealed(text, self.environ) for place, text in self.secrets.items()}
        content, kind = self._content()
        headers = {"User-Agent": f"tickwork/{VERSION}", "Accept": "*/*", "Accept-Encoding": "identity"}
        headers |= {"Content-Type": kind} if kind else {}
        headers = _over(headers, self.headers)
        headers = _over(headers, _below("headers.", open_secrets))
        headers = _over(headers, self._credentials(open_secrets, content or b"", clock))
        return OutgoingRequest(
            method,
            read_url(open_secrets.get("url", self.url)),
            headers,
            content,
            expect,
            connect_s=_seconds(connect_timeout, "connect_timeout"),
            whole_s=_seconds(timeout, "timeout"),
            hidden=_hidden(open_secrets),
        )

    def _content(self) -> tuple[bytes | None, str | None]:
        if self.json is not None and self.body is not None:
            raise InvalidArguments("json is the body already: say one of them.")
        if self.json is not None:
            return msgspec.json.encode(self.json), "application/json"
        return (None, None) if self.body is None else (self.body.encode(), "text/plain; charset=utf-8")

    def _credentials(self, secrets: Mapping[str, str], content: bytes, clock: Clock) -> dict[str, str]:
        """Return the header for basic, bearer or HMAC authentication. Raises InvalidArguments."""
        given: dict[str, Any] = {**self.auth}
        given |= {name: value for name, value in _below("auth.", secrets).items() if "." not in name}
        signed = {**given.pop("hmac", {}), **_below("auth.hmac.", secrets)}
        if len(given) + bool(signed) > 1:
            raise InvalidArguments("auth says more than one of basic, bearer and hmac.")
        if any("${secret." in str(value) for value in (*self.auth.values(), *self.headers.values())):
            raise InvalidArguments(
                'pass a secret in the argument secrets, as in secrets={"auth.bearer": "${secret.TOKEN}"}.'
            )
        if signed:
            if not signed.get("secret"):
                raise InvalidArguments("auth.hmac needs a secret.")
            at_s = clock.wall_us() // 1_000_000
            return {signed.get("header", SIGNATURE): signature(signed["secret"], content, at_s)}
        if "basic" in given:
            if ":" not in given["basic"]:
                raise InvalidArguments("auth.basic must be user:password, and has no colon.")
            return {"Authorization": "Basic " + base64.b64encode(given["basic"].encode()).decode()}
        return {"Authorization": f"Bearer {given['bearer']}"} if "bearer" in given else {}


def _masked(answer: IncomingResponse, hidden: Sequence[str]) -> IncomingResponse:
    """Return a response with the request's secrets masked, because some servers echo the request."""
    from tickwork.worker.tasks.http_client import hiding

    content, headers = answer.content, answer.headers
    for text in hidden:
        content = content.replace(text.encode(), b"***")
    headers = [(name, masked(hiding(value, hidden))) for name, value in headers]
    return replace(answer, content=content, headers=headers)


def _below(prefix: str, secrets: Mapping[str, str]) -> dict[str, str]:
    return {place.removeprefix(prefix): text for place, text in secrets.items() if place.startswith(prefix)}


def _hidden(secrets: Mapping[str, str]) -> tuple[str, ...]:
    """Return the secret values to mask, except very short ones, which occur everywhere."""
    packed = [base64.b64encode(text.encode()).decode() for text in secrets.values()]
    return tuple(sorted({text for text in (*secrets.values(), *packed) if len(text) >= 4}, key=len, reverse=True))


def _over(headers: dict[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """Return headers overridden by others. Raises InvalidArguments with a message that contains no value."""
    for name, value in more.items():
        if not _NAME.fullmatch(name) or name.lower() in _OURS:
            raise InvalidArguments(f"there can be no header {name!r} here.")
        if not _VALUE.fullmatch(value):
            raise InvalidArguments(f"the header {name} has a value that no header can have, or too long a one.")
    lower = {name.lower() for name in more}
    return {**{name: value for name, value in headers.items() if name.lower() not in lower}, **more}


def _check_fits(whole_s: float, job_timeout: timedelta | None) -> None:
    """Raise if a request may take longer than its job's timeout, which would interrupt it and send it again."""
    if job_timeout is not None and whole_s >= job_timeout.total_seconds():
        raise InvalidArguments(
            f"the request may take {whole_s:g} s, and its job ends after {job_timeout.total_seconds():g} s. Give the "
            f"job a longer timeout of its own: the option timeout, beside the argument."
        )


def _seconds(text: str, what: str) -> float:
    duration = parse_duration(text, what=what)
    if not timedelta(0) < duration <= LONGEST:
        raise InvalidArguments(f"{what} must be more than nothing and at most an hour, not {text}.")
    return duration.total_seconds()


def _unexpected(request: OutgoingRequest, answer: IncomingResponse, clock: Clock) -> Exception:
    """Return the exception for a response with an unexpected status: retryable or fatal."""
    quoted = payload.storable(_text(answer, "utf-8"))[:QUOTE_LIMIT].strip()
    said = f"{request.method} {request.url.shown} was answered with {answer.status}"
    said += f":\n{quoted}" if quoted else "."
    if answer.status not in WORTH_A_RETRY:
        return Fatal(said)
    after = retry_after(answer.header("retry-after"), from_us(clock.wall_us()))
    return RequestFailed(said, answer.status) if after is None else Retry(said, after=after)


def _body(answer: IncomingResponse) -> Any:
    """Return the body of a response: decoded if it is JSON, otherwise as text."""
    kind, _, parameters = (answer.header("content-type") or "").lower().partition(";")
    kind = kind.strip()
    if (kind == "application/json" or kind.endswith("+json")) and not answer.truncated:
        try:
            value = msgspec.json.decode(answer.content)
            payload.encode(value, what="an answer", limit_bytes=payload.RESULT_LIMIT)
        except (msgspec.DecodeError, InvalidPayload, RecursionError):
            return payload.storable(_text(answer, "utf-8"))
        return value
    return payload.storable(_text(answer, _charset(parameters)))


def _text(answer: IncomingResponse, charset: str) -> str:
    """Return the text of a response, with secrets masked before it is cut; a partial secret at its end is removed."""
    text = getincrementaldecoder(charset)("replace").decode(answer.content, final=not answer.truncated)
    return masked(text, is_cut=answer.truncated)


def _charset(parameters: str) -> str:
    found = re.search(r"charset\s*=\s*\"?(utf-8|us-ascii|iso-8859-1|iso-8859-15|windows-1252)\b", parameters)
    return found[1] if found else "utf-8"
