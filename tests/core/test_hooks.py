"""Signatures of messages: those that others publish hold, and nothing else does."""

import hashlib
import hmac
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.hooks import BadSignature, TooOld, check_signature

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)


def sign(secret: bytes, body: bytes, at: datetime) -> str:
    """Return the value of X-Tickwork-Signature that a sender computes."""
    time = str(int(at.timestamp())).encode()
    return f"t={time.decode()},v1={hmac.new(secret, time + b'.' + body, hashlib.sha256).hexdigest()}"


def test_the_example_in_the_documentation_of_github() -> None:
    signature = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    headers = {"x-hub-signature-256": f"sha256={signature}"}
    secret = b"It's a Secret to Everybody"
    assert check_signature("github", secret, headers, b"Hello, World!", NOW) == signature
    with pytest.raises(BadSignature):
        check_signature("github", secret, headers, b"Hello, World?", NOW)


def test_stripe_signs_the_time_a_dot_and_the_body() -> None:
    at = str(int(NOW.timestamp()))
    signature = hmac.new(b"whsec_test", f'{at}.{{"id": 1}}'.encode(), hashlib.sha256).hexdigest()
    headers = {
        "stripe-signature": f"t={at},v1={signature},v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039"
    }
    assert check_signature("stripe", b"whsec_test", headers, b'{"id": 1}', NOW) == signature
    with pytest.raises(BadSignature):
        check_signature("generic", b"whsec_test", headers, b'{"id": 1}', NOW)


@given(st.binary(), st.binary(min_size=1), st.integers(-1000, 1000))
def test_what_we_sign_holds_for_five_minutes(body: bytes, secret: bytes, away_s: int) -> None:
    headers = {"x-tickwork-signature": sign(secret, body, NOW)}
    then = NOW + timedelta(seconds=away_s)
    if abs(away_s) > 300:
        with pytest.raises(TooOld):
            check_signature("generic", secret, headers, body, then)
    else:
        assert check_signature("generic", secret, headers, body, then) in headers["x-tickwork-signature"]
    with pytest.raises(BadSignature):
        check_signature("generic", secret, headers, body + b"x", then)
    with pytest.raises(BadSignature):
        check_signature("generic", secret + b"x", headers, body, then)


@given(st.sampled_from(["github", "stripe", "generic"]), st.text(), st.binary())
def test_no_header_is_a_reason_to_fail_in_another_way(style: str, header: str, body: bytes) -> None:
    names = ("x-hub-signature-256", "stripe-signature", "x-tickwork-signature")
    with pytest.raises(BadSignature):
        check_signature(style, b"secret", dict.fromkeys(names, header), body, NOW)  # type: ignore[arg-type]
