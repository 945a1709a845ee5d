"""Logging in and out, what a session is worth, and what pages of other sites cannot do with it."""

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.http.conftest import TOKEN
from tickwork import Tickwork
from tickwork.core.access.scopes import digest_of
from tickwork.http.asgi import asgi
from tickwork.http.auth.access import COOKIE, StoreAccess, TokenAccess
from tickwork.http.resources.admin import login
from tickwork.http.routes import ROUTES
from tickwork.http.server_context import ServerContext
from tickwork.security.credentials import add_user, create_key, hash_password, is_password
from tickwork.store.admin.audit import AuditFilter

SESSION = "/api/v1/session"
KEYS = "/api/v1/keys"
OWN = {"Origin": "http://testserver"}
PASSWORD = "correct horse"


@pytest.fixture
def ada(app: Tickwork) -> str:
    add_user(app.store, "ada", "admin", PASSWORD)
    return "ada"


def log_in(client: TestClient, **body: Any) -> Any:
    return client.post(SESSION, json=body or {"user": "ada", "password": PASSWORD})


@pytest.fixture
def browser(anybody: TestClient, ada: str) -> TestClient:
    assert log_in(anybody).status_code == 201
    return anybody


def create(client: TestClient, headers: dict[str, str], name: str = "k") -> Any:
    return client.post(KEYS, json={"name": name, "scopes": ["read"]}, headers=headers)


class TestLogin:
    def test_a_user_gets_a_cookie_that_pages_cannot_read(self, anybody: TestClient, ada: str) -> None:
        answer = log_in(anybody)
        assert answer.status_code == 201
        assert (answer.json()["who"], "admin" in answer.json()["scopes"]) == ("user:ada", True)
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith(f"{COOKIE}=")
        for said in ("Path=/", "Max-Age=604800", "HttpOnly", "SameSite=Lax"):
            assert f"; {said}" in cookie
        assert "Secure" not in cookie
        who = anybody.get(SESSION).json()
        assert who["who"] == "user:ada"
        assert who["expires_at"].endswith("Z")

    def test_under_https_and_a_prefix_the_cookie_says_so(self, app: Tickwork, parts: ServerContext, ada: str) -> None:
        served = asgi(app, parts, ROUTES)
        with TestClient(served, base_url="https://testserver", root_path="/jobs") as client:
            cookie = log_in(client).headers["set-cookie"]
        assert "; Secure" in cookie
        assert "; Path=/jobs;" in cookie

    def test_an_api_key_and_the_token_of_dev_log_in_too(self, app: Tickwork, anybody: TestClient) -> None:
        token, _ = create_key(app.store, "ui", ["read"], None, "test")
        assert log_in(anybody, token=token).json() | {"expires_at": None} == {
            "who": "key:ui",
            "scopes": ["read"],
            "expires_at": None,
        }
        assert anybody.get(KEYS).status_code == 403
        assert log_in(anybody, token=TOKEN).json()["who"] == "dev"
        assert anybody.get(KEYS).status_code == 200

    @pytest.mark.parametrize(
        "body",
        [
            {"user": "ada", "password": "wrong horse"},
            {"user": "bob", "password": PASSWORD},
            {"user": "ad\0a", "password": PASSWORD},
            {"user": "ada" * 1000, "password": "é" * 5000},
            {"token": "twk_x_y"},
            {"token": "\u00e9\u0000"},
            {"token": ""},
        ],
    )
    def test_what_is_wrong_is_401_and_written_down_without_a_password(
        self, app: Tickwork, anybody: TestClient, ada: str, body: dict[str, str]
    ) -> None:
        answer = log_in(anybody, **body)
        assert (answer.status_code, answer.json()["code"]) == (401, "wrong-credentials")
        assert "set-cookie" not in answer.headers
        (row,) = app.store.audit.list_changes(AuditFilter(action="failed_login"), 9)
        assert (row.change.who, row.change.after) == ("nobody", None)
        assert row.change.target == ("user:ada" if body.get("user") == "ada" else "unknown")
        assert row.change.address == "testclient"

    @pytest.mark.parametrize("body", [{}, {"user": "ada"}, {"token": "x", "user": "ada", "password": "y"}])
    def test_half_a_login_is_refused(self, anybody: TestClient, body: dict[str, str]) -> None:
        assert anybody.post(SESSION, json=body).status_code == 422

    def test_after_some_failures_a_name_has_to_wait(self, anybody: TestClient, ada: str) -> None:
        for _ in range(5):
            assert log_in(anybody, user="ada", password="wrong horse").status_code == 401
        answer = log_in(anybody)
        assert (answer.status_code, answer.json()["code"]) == (429, "too-many-logins")
        assert answer.headers["retry-after"] == "1"

    def test_failures_of_others_do_not_keep_a_user_out_at_an_address_that_they_came_from(
        self, app: Tickwork, parts: ServerContext, ada: str
    ) -> None:
        served = asgi(app, parts, ROUTES)
        home, stranger, abroad = (TestClient(served, client=(f"192.0.2.{number}", 1)) for number in (1, 2, 3))
        assert log_in(home).status_code == 201
        guesses = [log_in(stranger, user="ada", password="wrong horse").status_code for _ in range(6)]
        assert guesses == [401] * 5 + [429]
        assert log_in(abroad).status_code == 429
        assert log_in(home).status_code == 201
        guesses = [log_in(home, user="ada", password="wrong horse").status_code for _ in range(6)]
        assert guesses == [401] * 5 + [429], "there failures count as well, by themselves"

    def test_logins_leave_threads_to_other_calls(
        self, anybody: TestClient, ada: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        full = threading.BoundedSemaphore(1)
        # The limit of logins at once is no setting.
        monkeypatch.setattr(login, "_LOGINS", full)
        with full:
            answer = log_in(anybody)
            assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
        assert log_in(anybody).status_code == 201

    def test_a_good_login_forgives(self, anybody: TestClient, ada: str) -> None:
        for _ in range(4):
            log_in(anybody, user="ada", password="wrong horse")
        assert log_in(anybody).status_code == 201
        for _ in range(4):
            assert log_in(anybody, user="ada", password="wrong horse").status_code == 401

    def test_an_address_has_to_wait_whatever_it_tries(self, anybody: TestClient) -> None:
        codes = [log_in(anybody, token=f"guess {number}").status_code for number in range(21)]
        assert codes == [401] * 20 + [429]


class TestEnd:
    def test_logging_out_ends_the_session_itself(self, browser: TestClient) -> None:
        token = browser.cookies[COOKIE]
        answer = browser.delete(SESSION, headers=OWN)
        assert answer.status_code == 204
        assert "Max-Age=0" in answer.headers["set-cookie"]
        assert browser.get(SESSION, headers={"Cookie": f"{COOKIE}={token}"}).status_code == 401

    @pytest.mark.parametrize(
        "end",
        [
            lambda store: store.access.remove_user("ada"),
            lambda store: store.access.change_user("ada", password=hash_password("another horse")),
        ],
    )
    def test_the_next_request_of_a_user_who_was_removed_is_401(
        self, app: Tickwork, browser: TestClient, end: Callable[[Any], object]
    ) -> None:
        assert browser.get(KEYS).status_code == 200
        end(app.store)
        assert browser.get(KEYS).status_code == 401

    def test_the_next_request_of_a_user_with_another_role_is_judged_by_it(
        self, app: Tickwork, browser: TestClient
    ) -> None:
        app.store.access.change_user("ada", role="viewer")
        assert browser.get(KEYS).status_code == 403

    def test_the_next_request_of_a_revoked_key_is_401_by_bearer_and_by_cookie(
        self, app: Tickwork, anybody: TestClient
    ) -> None:
        token, key = create_key(app.store, "ui", ["admin"], None, "test")
        log_in(anybody, token=token)
        bearer = {"Authorization": f"Bearer {token}"}
        assert (anybody.get(KEYS).status_code, anybody.get(KEYS, headers=bearer).status_code) == (200, 200)
        app.store.access.revoke_api_key(key.id)
        assert (anybody.get(KEYS).status_code, anybody.get(KEYS, headers=bearer).status_code) == (401, 401)

    def test_a_bad_bearer_is_not_made_good_by_a_cookie(self, browser: TestClient) -> None:
        for header in ("Bearer wrong", "Bearer ", "Basic YTpi"):
            assert browser.get(KEYS, headers={"Authorization": header}).status_code == 401

    def test_a_new_login_ends_the_session_before(self, browser: TestClient) -> None:
        former = browser.cookies[COOKIE]
        assert log_in(browser).status_code == 201
        browser.cookies.clear()
        assert browser.get(SESSION, headers={"Cookie": f"{COOKIE}={former}"}).status_code == 401

    def test_a_session_of_dev_ends_with_its_token(
        self, app: Tickwork, anybody: TestClient, parts: ServerContext
    ) -> None:
        log_in(anybody, token=TOKEN)
        cookies = dict(anybody.cookies)
        for access in (StoreAccess(app, TokenAccess("of the next start")), StoreAccess(app)):
            with TestClient(asgi(app, replace(parts, access=access), ROUTES), cookies=cookies) as client:
                assert client.get(SESSION).status_code == 401

    def test_the_cookie_of_one_installation_is_refused_by_another(
        self, browser: TestClient, parts: ServerContext, tmp_path: Path
    ) -> None:
        other = Tickwork(f"sqlite:///{tmp_path}/other.db")
        add_user(other.store, "ada", "admin", PASSWORD)
        access = StoreAccess(other, TokenAccess(TOKEN))
        with TestClient(asgi(other, replace(parts, access=access), ROUTES), cookies=dict(browser.cookies)) as client:
            assert client.get(SESSION).status_code == 401
        other.close()

    @pytest.mark.parametrize("value", ["", "x", "é", "\x7f", "a" * 10_000])
    def test_a_cookie_that_is_none_is_401(self, anybody: TestClient, value: str) -> None:
        headers = [(b"cookie", f"{COOKIE}={value}".encode())]
        assert anybody.get(SESSION, headers=headers).status_code == 401  # type: ignore[arg-type]

    def test_the_store_has_no_token_only_digests(self, app: Tickwork, browser: TestClient) -> None:
        token = browser.cookies[COOKIE]
        assert app.store.access.get_session(token, timedelta(hours=1)) is None


class TestOtherSites:
    @pytest.mark.parametrize(
        "headers",
        [
            {"Origin": "http://evil.example"},
            {"Origin": "http://testserver:8701"},
            {"Origin": "http://testserver.evil.example"},
            {"Origin": "http://evil.example/http://testserver"},
            {"Origin": "http://testserver@evil.example"},
            {"Origin": "null"},
            {"Origin": ""},
            {"Sec-Fetch-Site": "cross-site", "Origin": "http://testserver"},
            {"Sec-Fetch-Site": "same-site"},
            {"Sec-Fetch-Site": "none"},
            {},
        ],
    )
    def test_a_change_with_a_cookie_from_elsewhere_is_refused(
        self, app: Tickwork, browser: TestClient, headers: dict[str, str]
    ) -> None:
        answer = create(browser, headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "cross-origin")
        assert browser.delete(SESSION, headers=headers).status_code == 403
        assert app.store.access.list_api_keys() == []

    @pytest.mark.parametrize("headers", [OWN, {"Sec-Fetch-Site": "same-origin"}])
    def test_a_change_from_our_own_pages_is_not(self, browser: TestClient, headers: dict[str, str]) -> None:
        assert create(browser, headers).status_code == 201

    def test_reading_needs_no_origin_and_a_key_never_does(self, admin: TestClient, browser: TestClient) -> None:
        assert browser.get(KEYS).status_code == 200
        assert create(admin, {"Origin": "http://evil.example"}).status_code == 201

    @pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
    def test_what_a_form_can_send_is_refused(self, app: Tickwork, browser: TestClient, kind: str) -> None:
        body = b'{"name": "k", "scopes": ["read"]}'
        assert browser.post(KEYS, content=body, headers={**OWN, "content-type": kind}).status_code == 415
        foreign = {"Origin": "http://evil.example", "content-type": kind}
        assert browser.post(KEYS, content=body, headers=foreign).status_code == 403
        assert app.store.access.list_api_keys() == []

    def test_a_login_from_another_site_is_refused(self, anybody: TestClient, ada: str) -> None:
        body = {"user": "ada", "password": PASSWORD}
        for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
            assert anybody.post(SESSION, json=body, headers=headers).status_code == 403
        assert anybody.post(SESSION, json=body, headers=OWN).status_code == 201

    def test_no_response_lets_other_sites_read(self, anybody: TestClient) -> None:
        asked = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
        answer = anybody.options(KEYS, headers=asked)
        assert answer.status_code == 405
        assert not [name for name in answer.headers if name.startswith("access-control")]


class TestSessions:
    URL = "/api/v1/sessions"

    @pytest.fixture
    def two(self, app: Tickwork, parts: ServerContext, ada: str) -> tuple[TestClient, TestClient]:
        """A desk and a phone, at which the same user is logged in."""
        served = asgi(app, parts, ROUTES)
        desk = TestClient(served, client=("192.0.2.1", 1), headers={"User-Agent": "a desk"})
        phone = TestClient(served, client=("192.0.2.2", 1), headers={"User-Agent": "a phone"})
        for client in (desk, phone):
            assert log_in(client).status_code == 201
        return desk, phone

    def test_a_user_sees_their_sessions_and_ends_one_from_elsewhere(
        self, app: Tickwork, two: tuple[TestClient, TestClient]
    ) -> None:
        desk, phone = two
        items = desk.get(self.URL).json()["items"]
        assert {(one["who"], one["address"], one["agent"], one["is_this"]) for one in items} == {
            ("user:ada", "192.0.2.1", "a desk", True),
            ("user:ada", "192.0.2.2", "a phone", False),
        }
        (other,) = [one for one in items if not one["is_this"]]
        assert desk.delete(f"{self.URL}/{other['id']}", headers=OWN).status_code == 204
        assert (phone.get(SESSION).status_code, desk.get(SESSION).status_code) == (401, 200)
        assert desk.delete(f"{self.URL}/{other['id']}", headers=OWN).status_code == 404
        (row,) = app.store.audit.list_changes(AuditFilter(action="end_session"), 9)
        assert (row.change.who, row.change.target) == ("user:ada", "session of user:ada")

    def test_no_answer_has_what_a_cookie_could_be_made_of(self, two: tuple[TestClient, TestClient]) -> None:
        desk, phone = two
        told = desk.get(self.URL).text
        assert phone.cookies[COOKIE] not in told
        assert digest_of(phone.cookies[COOKIE].encode()) not in told

    def test_others_see_and_end_nothing_of_it_unless_they_are_admins(
        self, app: Tickwork, parts: ServerContext, two: tuple[TestClient, TestClient]
    ) -> None:
        add_user(app.store, "bob", "operator", PASSWORD)
        bob = TestClient(asgi(app, parts, ROUTES))
        assert log_in(bob, user="bob", password=PASSWORD).status_code == 201
        assert [one["who"] for one in bob.get(self.URL).json()["items"]] == ["user:bob"]
        assert bob.get(self.URL, params={"all": "true"}).status_code == 403
        of_all = two[0].get(self.URL, params={"all": "true"}).json()["items"]
        assert sorted(one["who"] for one in of_all) == ["user:ada", "user:ada", "user:bob"]
        ids = {one["who"]: one["id"] for one in of_all}
        assert bob.delete(f"{self.URL}/{ids['user:ada']}", headers=OWN).status_code == 404
        assert two[0].delete(f"{self.URL}/{ids['user:bob']}", headers=OWN).status_code == 204
        assert bob.get(SESSION).status_code == 401


class TestOwnPassword:
    URL = f"{SESSION}/password"

    def test_a_user_changes_their_password_goes_on_and_ends_all_other_sessions(
        self, app: Tickwork, parts: ServerContext, browser: TestClient
    ) -> None:
        other = TestClient(asgi(app, parts, ROUTES))
        assert log_in(other).status_code == 201
        answer = browser.post(self.URL, json={"old": PASSWORD, "new": "another horse"}, headers=OWN)
        assert (answer.status_code, answer.json()["who"]) == (200, "user:ada")
        assert (browser.get(SESSION).status_code, other.get(SESSION).status_code) == (200, 401)
        assert log_in(other).status_code == 401
        assert log_in(other, user="ada", password="another horse").status_code == 201
        (row,) = app.store.audit.list_changes(AuditFilter(action="change_own_password"), 9)
        assert (row.change.who, row.change.target) == ("user:ada", "user:ada")
        assert "horse" not in str(row)

    def test_a_viewer_may_as_well(self, app: Tickwork, anybody: TestClient) -> None:
        add_user(app.store, "vic", "viewer", PASSWORD)
        log_in(anybody, user="vic", password=PASSWORD)
        changed = anybody.post(self.URL, json={"old": PASSWORD, "new": "another horse"}, headers=OWN)
        assert changed.status_code == 200

    def test_a_wrong_or_a_bad_password_changes_nothing_and_guesses_are_throttled(
        self, app: Tickwork, browser: TestClient
    ) -> None:
        assert browser.post(self.URL, json={"old": PASSWORD, "new": "short"}, headers=OWN).status_code == 422
        body = {"old": "wrong horse", "new": "another horse"}
        codes = [browser.post(self.URL, json=body, headers=OWN).status_code for _ in range(6)]
        assert codes == [403] * 5 + [429]
        assert browser.get(SESSION).status_code == 200
        user = app.store.access.get_user("ada")
        assert user is not None
        assert is_password(PASSWORD, user.password)
        assert browser.post(self.URL, json=body).status_code == 403, "from no page of ours"

    def test_a_key_has_no_password(self, admin: TestClient) -> None:
        assert admin.post(self.URL, json={"old": PASSWORD, "new": "another horse"}).status_code == 409
