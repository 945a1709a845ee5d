"""The task `http`: what it sends, what it keeps, what it tries again, and where it never goes."""

import asyncio
import base64
import hashlib
import hmac
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.certificates import self_signed
from tests.waiting import eventually
from tests.worker.listeners import Answer, Came, listener, says, web
from tickwork import Job, JobFailed, Tickwork, every
from tickwork.clock import SystemClock
from tickwork.core.web.addresses import read_allowed
from tickwork.declare.read_declarations import read_declared
from tickwork.errors import Fatal, InvalidArguments, RequestFailed, Retry
from tickwork.worker.run.capture import OutputSink, attempt_sink
from tickwork.worker.tasks import http_client
from tickwork.worker.tasks.egress import Egress, resolve
from tickwork.worker.tasks.http import HttpArguments, HttpResponse, answered
from tickwork.worker.tasks.http_client import HttpClient

LOOPBACK = "127.0.0.0/8"


def send(
    url: str,
    method: str = "GET",
    *,
    allow: str = LOOPBACK,
    resolver: Callable[[str, int], list[str]] = resolve,
    ca: str | None = None,
    headers: dict[str, str] | None = None,
    body: str | None = None,
    auth: Any = None,
    secrets: dict[str, str] | None = None,
    environ: dict[str, str] | None = None,
    expect: tuple[int | str, ...] = (),
    timeout: str = "5s",
    origin: str | None = None,
    **more: Any,
) -> HttpResponse:
    """Run the task with these arguments and settings; return its result."""
    clock = SystemClock()
    given = (auth or {}, secrets or {}, environ or {}, origin)
    asked = HttpArguments(url, method, headers or {}, more.get("json"), body, *given)
    client = HttpClient(Egress(read_allowed(allow), resolver), ca)
    return asyncio.run(answered(client, asked.outgoing(clock, expect, timeout, "2s"), clock))


def echo(handler: BaseHTTPRequestHandler, came: Came) -> None:
    told = {"method": came.method, "path": came.path, "body": came.body.decode(), "headers": came.headers}
    says(200, json.dumps(told).encode(), Content_Type="application/json")(handler, came)


def test_a_request_goes_to_the_origin_that_was_declared_or_nowhere() -> None:
    given = {"secrets": {"auth.bearer": "${secret.T}"}, "environ": {"T": "hunter2"}}
    with web(echo) as declared, web(echo) as stranger:
        here = declared.url("").rstrip("/")
        assert send(f"{here}/a?b=c", origin=here, **given)["body"]["path"] == "/a?b=c"  # type: ignore[arg-type]
        others = (stranger.url("/a"), f"{here.replace('http', 'https')}/a", "http://localhost/a", "http://127.0.0.2/")
        for other in others:
            with pytest.raises(InvalidArguments, match="does not go to"):
                send(other, origin=here, **given)  # type: ignore[arg-type]
        assert len(declared.came) == 1
        assert stranger.came == []


def test_an_answer_is_kept_with_its_safe_headers() -> None:
    with web(says(200, b'{"a": [1]}', Content_Type="application/json", Set_Cookie="s=1", ETag="x")) as there:
        got = send(there.url("/path?q=1"))
    assert got["status"] == 200
    assert got["body"] == {"a": [1]}
    assert (got["headers"]["etag"], "set-cookie" in got["headers"], got["truncated"]) == ("x", False, False)
    assert 0 <= got["elapsed_ms"] < 5000
    assert there.came[0].path == "/path?q=1"


def test_text_is_kept_as_text_and_what_no_store_can_hold_is_replaced() -> None:
    with web(says(200, "grün\0".encode("iso-8859-1"), Content_Type="text/plain; charset=ISO-8859-1")) as there:
        assert send(there.url())["body"] == "grün\\0"
    with web(says(200, b'{"a": "\\u0000"}', Content_Type="application/json")) as there:
        assert send(there.url())["body"] == '{"a": "\\u0000"}'


def test_bodies_and_headers_are_sent() -> None:
    with web(echo) as there:
        got = send(there.url(), "post", json={"a": 1}, headers={"X-One": "1", "content-type": "application/x+json"})
        assert got["body"]["body"] == '{"a":1}'
        assert got["body"]["headers"]["content-type"] == "application/x+json"
        assert got["body"]["headers"]["X-One"] == "1"
        assert got["body"]["headers"]["Host"] == f"127.0.0.1:{there.port}"
        assert send(there.url(), "PUT", body="as it is")["body"]["body"] == "as it is"


def test_credentials_come_from_secrets_and_are_not_in_what_is_kept() -> None:
    environ = {"LOGIN": "ada:l0vel4ce", "TOKEN": "t0k3n-of-mine", "PLACE": "the-path"}
    with web(echo) as there:
        got = send(there.url(), secrets={"auth.basic": "${secret.LOGIN}"}, environ=environ)
        assert there.came[-1].headers["Authorization"] == "Basic " + base64.b64encode(b"ada:l0vel4ce").decode()
        assert got["body"]["headers"]["Authorization"] == "Basic ***"
        secrets = {"headers.X-Key": "key ${secret.TOKEN}", "url": there.url("/${secret.PLACE}")}
        got = send("", secrets=secrets, environ=environ)
        assert there.came[-1].headers["X-Key"] == "key t0k3n-of-mine"
        assert there.came[-1].path == "/the-path"
        assert "t0k3n" not in json.dumps(got)
        send(there.url(), secrets={"auth.bearer": "${secret.TOKEN}"}, environ=environ)
        assert there.came[-1].headers["Authorization"] == "Bearer t0k3n-of-mine"


def test_a_body_is_signed() -> None:
    with web(echo) as there:
        send(there.url(), "POST", body="hello", secrets={"auth.hmac.secret": "${secret.S}"}, environ={"S": "s3cret"})
    at, _, proof = there.came[0].headers["X-Tickwork-Signature"].removeprefix("t=").partition(",v1=")
    assert proof == hmac.new(b"s3cret", f"{at}.hello".encode(), hashlib.sha256).hexdigest()
    assert abs(int(at) - time.time()) < 60


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"secrets": {"auth.bearer": "${secret.NOWHERE}"}}, "the secret NOWHERE is not set"),
        ({"auth": {"bearer": "${secret.TOKEN}"}}, "pass a secret in the argument secrets"),
        ({"auth": {"basic": "a:b", "bearer": "c"}}, "more than one of basic, bearer and hmac"),
        ({"auth": {"basic": "nocolon"}}, "has no colon"),
        ({"headers": {"X": "a\r\nB: c"}}, "a value that no header can have"),
        ({"headers": {"Host": "other"}}, "there can be no header 'Host'"),
        ({"json": 1, "body": "x"}, "json is the body already"),
        ({"timeout": "2h"}, "at most an hour"),
        ({"expect": ("fine",)}, "is no status"),
        ({"method": "CONNECT"}, "method must be one of"),
        ({"url": "http://user:pw@127.0.0.1/"}, "the url names a user"),
    ],
)
def test_arguments_that_make_no_request_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArguments, match=said) as error:
        send(**{"url": "http://127.0.0.1:1/", **given})
    assert "pw" not in str(error.value)


def test_a_status_that_is_not_expected_fails_at_once_unless_a_retry_may_help() -> None:
    with web(says(404, b"no such thing")) as there:
        with pytest.raises(Fatal, match=r"GET http://127.0.0.1:\d+ was answered with 404:\nno such thing"):
            send(there.url("/secret-path"))
        assert send(there.url(), expect=(200, "4xx"))["status"] == 404
    with web(says(503)) as there, pytest.raises(RequestFailed) as failed:
        send(there.url())
    assert failed.value.status == 503
    with web(says(429, Retry_After="7")) as there, pytest.raises(Retry) as retry:
        send(there.url())
    assert getattr(retry.value.after, "total_seconds", lambda: 0)() == 7


def test_an_error_repeats_no_secret_that_the_server_repeated() -> None:
    def repeat(handler: BaseHTTPRequestHandler, came: Came) -> None:
        says(400, came.headers["Authorization"].encode())(handler, came)

    with web(repeat) as there, pytest.raises(Fatal, match=r"Bearer \*\*\*"):
        send(there.url(), secrets={"auth.bearer": "${secret.T}"}, environ={"T": "v3ry-s3cret"})


class Remembering:
    """Stands in for an attempt."""

    def __init__(self) -> None:
        self.sink = OutputSink(lambda seq, text: None, lambda sink: None, secrets=self)
        self.hide = self.sink.hide

    def stored_secret(self, name: str) -> str | None:
        return None

    def masked(self, text: str, *, is_cut: bool = False) -> str:
        return self.sink.masked_beginning(text) if is_cut else self.sink.masked(text)


@pytest.mark.parametrize(("status", "before"), [(400, 480), (400, 65_516), (200, 65_516)])
@pytest.mark.parametrize("write", [quote, str.upper, str])
def test_no_part_of_a_secret_is_left_where_an_answer_is_cut(
    status: int, before: int, write: Callable[[str], str]
) -> None:
    value = "\u00e4 canary that is long enough to be cut"
    body = ("\u00e4" + "." * (before - 2) + write(value)).encode() + b"." * 1000
    attempt_sink.set(Remembering().sink)
    try:
        with web(says(status, body)) as there:
            told = str(send(there.url(), secrets={"auth.bearer": "${secret.T}"}, environ={"T": value[2:]}))
    except Fatal as error:
        told = str(error)
    finally:
        attempt_sink.set(None)
    assert "canary" not in told.lower()


# -- bodies that do not end


def test_a_long_body_is_cut_off() -> None:
    with web(says(200, b"x" * 200_000, Content_Type="application/json")) as there:
        got = send(there.url())
    assert (len(got["body"]), got["truncated"]) == (64 * 1024, True)


def test_an_endless_body_is_ended() -> None:
    ended = threading.Event()

    def endless(handler: BaseHTTPRequestHandler, came: Came) -> None:
        handler.send_response(200)
        handler.end_headers()
        try:
            while True:
                handler.wfile.write(b"y" * 4096)
        except OSError:
            ended.set()

    with web(endless) as there:
        assert send(there.url())["truncated"]
        assert ended.wait(5)


def drip(handler: BaseHTTPRequestHandler, came: Came) -> None:
    handler.send_response(200)
    handler.end_headers()
    for _ in range(200):
        handler.wfile.write(b".")
        time.sleep(0.05)


def silence(handler: BaseHTTPRequestHandler, came: Came) -> None:
    time.sleep(3)


@pytest.mark.parametrize("slow", [drip, silence])
def test_a_slow_answer_is_ended_in_time(slow: Answer) -> None:
    with web(slow) as there:
        began = time.monotonic()
        with pytest.raises(RequestFailed, match=r"took longer than 0.4 s"):
            send(there.url(), timeout="400ms")
        assert time.monotonic() - began < 2


# -- where it never goes


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "[::1]", "0.0.0.0"])
def test_no_request_reaches_loopback(host: str) -> None:
    with listener() as seen:
        with pytest.raises(Fatal, match=r"nothing was sent. TICKWORK_HTTP_ALLOW"):
            send(f"http://{host}:{seen[0]}/", allow="")
        assert len(seen) == 1


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "0177.0.0.1", "127.1", "127.0.0.1.", "x@127.0.0.1"])
def test_no_request_reaches_loopback_in_disguise(host: str) -> None:
    with listener() as seen:
        with pytest.raises(InvalidArguments):
            send(f"http://{host}:{seen[0]}/", allow="")
        with pytest.raises(Fatal):
            Egress(read_allowed("")).dial(host.rpartition("@")[2], seen[0], 1)
        assert len(seen) == 1


def test_one_forbidden_address_among_several_is_enough() -> None:
    with listener() as seen, pytest.raises(Fatal, match=r"two.example is 127.0.0.1, which is loopback"):
        send(f"http://two.example:{seen[0]}/", allow="", resolver=lambda host, port: ["192.0.2.1", "127.0.0.1"][::-1])
    assert len(seen) == 1


def test_a_name_that_resolves_to_something_else_the_second_time_gains_nothing() -> None:
    """The checked address is the one that is dialled: one lookup for each connection, and none by a library."""
    answers = iter([["127.0.0.2"], ["127.0.0.1"]])
    asked: list[str] = []

    def rebinding(host: str, port: int) -> list[str]:
        asked.append(host)
        return next(answers)

    with listener() as seen:
        with pytest.raises(RequestFailed, match="Connection refused"):  # nothing listens at 127.0.0.2
            send(f"http://rebinding.example:{seen[0]}/", allow="127.0.0.2", resolver=rebinding)
        assert asked == ["rebinding.example"]
        with pytest.raises(Fatal, match=r"rebinding.example is 127.0.0.1"):
            send(f"http://rebinding.example:{seen[0]}/", allow="127.0.0.2", resolver=rebinding)
        assert len(seen) == 1


def test_a_redirect_is_judged_like_a_request() -> None:
    with listener() as seen:
        target = f"http://inside.example:{seen[0]}/"
        with web(says(302, Location=target)) as there, pytest.raises(Fatal, match=r"inside.example is 127.0.0.1"):
            send(
                there.url(host="outside.example"),
                allow="outside.example",
                resolver=lambda host, port: ["127.0.0.1"],
            )
        assert len(there.came) == 1
        assert len(seen) == 1


def test_redirects_are_followed_and_strangers_are_told_nothing() -> None:
    with web(echo) as stranger:

        def move(handler: BaseHTTPRequestHandler, came: Came) -> None:
            step = {"/one": "/two", "/two": stranger.url("/three")}[came.path]
            says(307, Location=step)(handler, came)

        with web(move) as there:
            headers = {"X-Api-Key": "k3y", "Accept-Language": "de"}
            got = send(there.url("/one"), "POST", body="b", headers=headers, auth={"bearer": "mine"})
    assert (got["body"]["method"], got["body"]["path"], got["body"]["body"]) == ("POST", "/three", "b")
    assert there.came[1].headers["Authorization"] == "Bearer mine"
    told = {name.lower() for name in got["body"]["headers"]}
    assert told == {"host", "user-agent", "accept", "accept-language", "content-type", "content-length", "connection"}


def test_a_secret_in_a_header_that_strangers_may_see_is_not_passed_on() -> None:
    with web(says(200, b"ok")) as stranger, web(says(302, b"", Location=stranger.url())) as there:
        send(there.url(), secrets={"headers.User-Agent": "key ${secret.T}"}, environ={"T": "v3ry-s3cret"})
    assert there.came[0].headers["User-Agent"] == "key v3ry-s3cret"
    assert "v3ry-s3cret" not in str(stranger.came[0].headers)


def test_a_circle_of_redirects_ends() -> None:
    with web(says(302, Location="/again")) as there:
        with pytest.raises(Fatal, match="sent on more than 5 times"):
            send(there.url())
        assert len(there.came) == 6
        assert send(there.url(), expect=(302,))["headers"]["location"] == "/again"


def test_proxies_and_netrc_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login ada password x\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    with web(echo) as there:
        assert "Authorization" not in send(there.url())["body"]["headers"]


# -- TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return self_signed(tmp_path_factory.mktemp("tls"), "tls.example")


@pytest.fixture
def tls(certificate: Path) -> Iterator[ssl.SSLContext]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    yield context
    # Trusted certificates are cached for the life of a process.
    http_client._trust.cache_clear()


def test_certificates_are_checked_by_the_name_and_not_by_the_address(tls: ssl.SSLContext, certificate: Path) -> None:
    loopback: Callable[[str, int], list[str]] = lambda host, port: ["127.0.0.1"]  # noqa: E731
    with web(echo, tls) as there:
        url = there.url("/x", host="tls.example", scheme="https")
        with pytest.raises(RequestFailed, match="its certificate is not trusted"):
            send(url, resolver=loopback)
        other = there.url("/x", host="other.example", scheme="https")
        with pytest.raises(RequestFailed, match="its certificate is not trusted"):
            send(other, resolver=loopback, ca=str(certificate))
        assert send(url, resolver=loopback, ca=str(certificate))["body"]["headers"]["Host"].startswith("tls.example:")
        assert len(there.came) == 1


def test_a_redirect_from_https_to_http_is_not_followed(tls: ssl.SSLContext, certificate: Path) -> None:
    with web(says(302, Location="http://tls.example/"), tls) as there:
        url = there.url(host="tls.example", scheme="https")
        with pytest.raises(Fatal, match="not encrypted"):
            send(url, resolver=lambda host, port: ["127.0.0.1"], ca=str(certificate))


# -- on a worker


@pytest.fixture
def working(app: Tickwork, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tickwork]:
    """An app whose worker may reach 127.0.0.1."""
    monkeypatch.setenv("TICKWORK_HTTP_ALLOW", "127.0.0.1")
    monkeypatch.setenv("TICKWORK_SECRET_ENV", "CANARY_SECRET")
    reaching = Tickwork(app.url)
    with reaching.worker(concurrency=4):
        yield reaching
    reaching.close()


def error_of(job: Job) -> str:
    with pytest.raises(JobFailed):
        job.result(timeout=20)
    return job.view.error or ""


def test_every_worker_has_it_and_each_caller_who_knows_its_name_can_ask_for_it(
    app: Tickwork, working: Tickwork
) -> None:
    with web(echo) as there:
        job = app.enqueue("http", url=there.url("/x"), method="POST", json={"n": 1}, expect=[200])
        assert job.result(timeout=20)["body"]["body"] == '{"n":1}'


def test_retry_after_is_heeded_and_retries_are_counted(app: Tickwork, working: Tickwork) -> None:
    def once(handler: BaseHTTPRequestHandler, came: Came) -> None:
        (says(503, Retry_After="0") if len(there.came) == 1 else says(200, b"fine"))(handler, came)

    with web(once) as there:
        job = app.enqueue("http", url=there.url())
        assert job.result(timeout=20)["body"] == "fine"
    assert [attempt.state for attempt in job.attempts()] == ["failed", "succeeded"]


def test_a_failure_is_told_in_one_sentence_without_frames(
    app: Tickwork, working: Tickwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY_SECRET", "c4n4ry-v4lue")
    with web(says(404)) as there:
        secrets = {"url": there.url("/${secret.CANARY_SECRET}"), "headers.X-Key": "${secret.CANARY_SECRET}"}
        job = app.enqueue("http", secrets=secrets)
        assert error_of(job) == f"tickwork.errors.Fatal: GET http://127.0.0.1:{there.port} was answered with 404."
    unset = app.enqueue("http", url="http://127.0.0.1:1/", secrets={"auth.basic": "${secret.NOWHERE_SET}"})
    assert "the secret NOWHERE_SET is not set: neither in the store" in error_of(unset)
    refused = app.enqueue("http", url="http://10.0.0.1/")
    assert error_of(refused).splitlines() == [
        "tickwork.errors.Fatal: 10.0.0.1 is private: nothing was sent. TICKWORK_HTTP_ALLOW of a worker names what else "
        "it may reach."
    ]
    assert len(refused.attempts()) == 1
    assert b"c4n4ry" not in b"".join([job.view.args, unset.view.args])


def test_an_app_that_has_a_task_of_that_name_keeps_its_own(app: Tickwork) -> None:
    @app.task
    def http(x: int) -> int:
        return x

    with app.worker():
        assert http.enqueue(3).result(timeout=20) == 3


def test_a_cancelled_one_ends_at_once(app: Tickwork, working: Tickwork) -> None:
    with web(silence) as there:
        job = app.enqueue("http", url=there.url())
        eventually(lambda: there.came)
        began = time.monotonic()
        app.cancel(job.id)
        with pytest.raises(Exception, match="cancelled"):
            job.result(timeout=20)
        assert time.monotonic() - began < 2


def test_settings_of_the_worker_are_no_secrets_to_ask_for(
    app: Tickwork, working: Tickwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TICKWORK_URL", "postgresql://ada:pw@db/x")
    with web(echo) as there:
        job = app.enqueue("http", url=there.url(), secrets={"headers.X": "${secret.TICKWORK_URL}"})
        assert "the secret TICKWORK_URL is not set" in error_of(job)
        assert there.came == []


def test_a_job_ends_after_five_minutes_unless_it_says_otherwise(app: Tickwork, working: Tickwork) -> None:
    for task in ("http", "smtp"):
        eventually(lambda task=task: app.store.reads.task_definition(task))  # type: ignore[misc]
        definition = app.store.reads.task_definition(task)
        assert definition is not None and definition.policy.timeout == timedelta(minutes=5)  # noqa: PT018
    assert app.enqueue("http", url="http://127.0.0.1:1/").view.policy.timeout == timedelta(minutes=5)
    longer = app.named("http").options(timeout="20m", retries=0)
    assert longer.enqueue(url="http://127.0.0.1:1/", timeout="10m").view.policy.timeout == timedelta(minutes=20)


def test_before_the_first_worker_has_started_they_end_after_five_minutes_too(app: Tickwork) -> None:
    limit = timedelta(minutes=5)
    assert app.store.reads.task_definition("http") is None
    assert app.enqueue("http", url="http://127.0.0.1:1/").view.policy.timeout == limit
    assert app.enqueue("smtp", host="127.0.0.1").view.policy.timeout == limit
    assert app.enqueue("other").view.policy.timeout is None
    longer = app.named("http").options(timeout="20m").enqueue(url="http://127.0.0.1:1/", timeout="10m")
    assert longer.view.policy.timeout == timedelta(minutes=20)
    app.schedule("call", "http", every("1h"), kwargs={"url": "http://127.0.0.1:1/"})
    assert app.schedules["call"].run().view.policy.timeout == limit
    text = "dags: {d: {steps: {call: {http: {url: 'http://127.0.0.1:1/'}}}}}"
    (step,) = read_declared(text, lambda name: None, file="d.yaml").dags["d"].graph.steps
    assert step.job is not None
    assert step.job.policy.timeout == limit


def test_a_request_that_may_take_longer_than_its_job_is_not_begun(app: Tickwork, working: Tickwork) -> None:
    eventually(lambda: app.store.reads.task_definition("http"))
    with web(says(200)) as there:
        error = error_of(app.enqueue("http", url=there.url(), timeout="10m"))
        assert "the request may take 600 s, and its job ends after 300 s" in error
        assert there.came == []
        job = app.named("http").options(timeout="20m").enqueue(url=there.url(), timeout="10m")
        assert job.result(timeout=20)["status"] == 200
