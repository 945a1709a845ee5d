"""URLs are read once and strictly; what an answer means."""

from datetime import UTC, datetime, timedelta

import pytest

from tickwork.core.web.answer import (
    after_redirect,
    for_another_origin,
    is_expected,
    kept_headers,
    retry_after,
    signature,
)
from tickwork.core.web.url import Url, read_url, redirected
from tickwork.errors import InvalidArguments

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


def test_a_url_is_read() -> None:
    assert read_url("https://Example.org") == Url("https", "example.org", 443, "/")
    assert read_url("http://a.b:8080/c d".replace(" ", "%20") + "?q=1&r=é#f") == Url(
        "http", "a.b", 8080, "/c%20d?q=1&r=%C3%A9"
    )
    assert read_url("http://[::1]:81/").authority == "[::1]:81"
    assert read_url("https://bücher.example/").host == "xn--bcher-kva.example"
    assert read_url("https://x.example/secret?token=1").shown == "https://x.example"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "example.org",
        "ftp://example.org",
        "file:///etc/passwd",
        "http://",
        "http:///x",
        "http://user@host/",
        "http://example.org@127.0.0.1/",
        "http://example.org\\@127.0.0.1/",
        "http://exa mple.org/",
        "http://example.org/\r\nHost: x",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://0177.0.0.1/",
        "http://127.1/",
        "http://[fe80::1%25eth0]/",
        "http://[v1.x]/",
        "http://host:99999/",
        "http://a..b/",
        "http://-a.example/",
        "http://example.org/" + "x" * 9000,
    ],
)
def test_what_is_unusual_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(InvalidArguments) as error:
        read_url(text)
    assert "127" not in str(error.value)


def test_a_redirect_is_read_against_where_it_comes_from() -> None:
    url = read_url("https://a.example/x/y?q=1")
    assert redirected(url, "z").target == "/x/z"
    assert redirected(url, "//b.example/").origin == ("https", "b.example", 443)
    with pytest.raises(InvalidArguments):
        redirected(url, "javascript:alert(1)")


def test_expected_statuses() -> None:
    assert is_expected(204, ())
    assert not is_expected(304, ())
    assert is_expected(404, [200, "4xx"])
    assert is_expected(302, ["301-303"])
    assert not is_expected(304, ["301-303", "200"])
    for wrong in ("ok", "2x", "6xx", 99, "300-200", "2xx-3xx", ""):
        with pytest.raises(InvalidArguments, match="is no status"):
            is_expected(200, [wrong])


def test_retry_after_in_both_forms() -> None:
    assert retry_after("120", NOW) == timedelta(minutes=2)
    assert retry_after("Mon, 16 Nov 2026 12:00:30 GMT", NOW) == timedelta(seconds=30)
    assert retry_after("Mon, 16 Nov 2020 12:00:30 GMT", NOW) == timedelta(0)
    assert retry_after("99999999999999999", NOW) == timedelta(days=1)
    assert retry_after("soon", NOW) is None
    assert retry_after(None, NOW) is None
    assert retry_after("-1", NOW) is None


def test_what_follows_a_redirect() -> None:
    assert [after_redirect(status, "POST") for status in (301, 302, 303, 307, 308)] == ["GET"] * 3 + ["POST"] * 2
    assert after_redirect(303, "HEAD") == "HEAD"
    assert after_redirect(302, "PUT") == "PUT"
    assert for_another_origin({"Accept": "a", "X-Api-Key": "k", "Cookie": "c", "Authorization": "b"}) == {"Accept": "a"}


def test_headers_that_hold_credentials_are_not_kept() -> None:
    given = [
        ("Content-Type", "text/plain"),
        ("Set-Cookie", "s=1"),
        ("X-RateLimit-Left", "3"),
        ("WWW-Authenticate", "x"),
    ]
    assert kept_headers(given) == {"content-type": "text/plain", "x-ratelimit-left": "3"}


def test_a_signature_by_hand() -> None:
    # printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac key
    digest = "a438e398bfafc57e4396bb7fc2304422f0f768e965d073ca313cb52e22e6ad03"
    assert signature("key", b'{"a":1}', 1_700_000_000) == f"t=1700000000,v1={digest}"
