"""Keys, users, secrets and the audit log over REST, on both stores."""

from datetime import timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient

from tickwork import Tickwork
from tickwork.core.access.scopes import digest_of, read_token
from tickwork.core.access.secret_policy import SecretUse
from tickwork.security.credentials import hash_password, is_password
from tickwork.store.admin.audit import AuditFilter

KEYS, USERS, SECRETS, AUDIT = (f"/api/v1/{name}" for name in ("keys", "users", "secrets", "audit"))
CANARY = "canary-b1946ac9-value"


@pytest.fixture(autouse=True)
def secret_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TICKWORK_SECRET_KEY", "ab" * 32)


def audit(admin: TestClient, **which: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = admin.get(AUDIT, params=which).json()["items"]
    return found


class TestKeys:
    def test_a_key_is_shown_once_and_stored_as_a_digest(self, app: Tickwork, admin: TestClient) -> None:
        answer = admin.post(KEYS, json={"name": "deploy", "scopes": ["enqueue", "read"], "expires": "90d"})
        assert answer.status_code == 201
        made = answer.json()
        token = read_token(made["token"])
        assert token is not None
        assert (made["prefix"], made["scopes"], made["state"]) == (f"twk_{token.id}", ["read", "enqueue"], "live")
        assert made["created_by"] == "dev"
        (listed,) = admin.get(KEYS).json()["items"]
        assert "token" not in listed
        assert token.secret not in admin.get(KEYS).text
        stored = app.store.access.get_api_key(token.id)
        assert stored is not None
        assert stored.digest == digest_of(token.secret.encode())
        (row,) = audit(admin, action="create_api_key")
        assert (row["who"], row["target"], row["after"]["name"]) == ("dev", "key:deploy", "deploy")
        assert token.secret not in str(audit(admin))

    def test_a_key_expires_after_90_days_unless_it_is_said_otherwise(self, app: Tickwork, admin: TestClient) -> None:
        def lasts_days(**expires: str) -> float | None:
            name = f"k{len(app.store.access.list_api_keys())}"
            admin.post(KEYS, json={"name": name, "scopes": ["read"], **expires}).raise_for_status()
            (made,) = [key for key in app.store.access.list_api_keys() if key.name == name]
            return None if made.expires_at is None else (made.expires_at - made.created_at) / timedelta(days=1)

        assert [lasts_days(), lasts_days(expires="12h"), lasts_days(expires="never")] == [90, 0.5, None]

    def test_a_key_works_with_its_scopes_and_notes_when_it_was_used(self, app: Tickwork, admin: TestClient) -> None:
        token = admin.post(KEYS, json={"name": "deploy", "scopes": ["enqueue"]}).json()["token"]
        bearer = {"Authorization": f"Bearer {token}"}
        assert admin.post("/api/v1/jobs", json={"task": "mail"}, headers=bearer).status_code == 201
        assert admin.get(KEYS, headers=bearer).status_code == 403
        assert app.store.access.list_api_keys()[0].used_at is not None

    @pytest.mark.parametrize(
        "body",
        [
            {"name": "deploy", "scopes": []},
            {"name": "deploy", "scopes": ["everything"]},
            {"name": "", "scopes": ["read"]},
            {"name": "a\u0000b", "scopes": ["read"]},
            {"name": "x", "scopes": ["read"], "expires": "0s"},
            {"name": "x", "scopes": ["read"], "expires": "99999999d"},
            {"name": "x", "scopes": ["read"], "expires": "soon"},
            {"name": "x", "scopes": ["read"], "expires": None},
        ],
    )
    def test_what_cannot_be_is_refused(self, app: Tickwork, admin: TestClient, body: dict[str, Any]) -> None:
        assert admin.post(KEYS, json=body).status_code == 422
        assert app.store.access.list_api_keys() == []

    def test_a_key_is_revoked_by_name_or_id(self, admin: TestClient) -> None:
        made = [admin.post(KEYS, json={"name": name, "scopes": ["read"]}).json() for name in ("a", "b")]
        assert admin.post(KEYS, json={"name": "a", "scopes": ["read"]}).status_code == 422
        assert admin.post(f"{KEYS}/a/revoke").json()["state"] == "revoked"
        assert admin.post(f"{KEYS}/{made[1]['id']}/revoke").json()["state"] == "revoked"
        assert admin.post(f"{KEYS}/nothing/revoke").status_code == 404
        assert {row["target"] for row in audit(admin, action="revoke_api_key")} == {"key:a", "key:b"}


class TestUsers:
    def test_a_user_is_made_changed_and_removed(self, app: Tickwork, admin: TestClient) -> None:
        made = admin.post(USERS, json={"name": "ada", "role": "viewer", "password": CANARY})
        assert (made.status_code, made.json()["role"]) == (201, "viewer")
        assert admin.patch(f"{USERS}/ada", json={"role": "operator"}).json()["role"] == "operator"
        assert admin.patch(f"{USERS}/ada", json={"password": CANARY + "2"}).status_code == 200
        user = app.store.access.get_user("ada")
        assert user is not None
        assert is_password(CANARY + "2", user.password)
        assert [one["name"] for one in admin.get(USERS).json()["items"]] == ["ada"]
        assert "password" not in admin.get(USERS).text
        assert admin.delete(f"{USERS}/ada").status_code == 204
        assert admin.delete(f"{USERS}/ada").status_code == 404
        rows = audit(admin, target="user:ada")
        assert [row["action"] for row in rows] == ["remove_user", "change_user", "change_user", "create_user"]
        assert (rows[2]["before"]["role"], rows[2]["after"]["role"]) == ("viewer", "operator")
        assert CANARY not in str(rows)

    @pytest.mark.parametrize(
        "body",
        [
            {"name": "ada", "role": "god", "password": CANARY},
            {"name": "ada", "role": "admin", "password": "short"},
            {"name": "ada", "role": "admin", "password": "x" * 1025},
            {"name": "-", "role": "admin", "password": CANARY},
        ],
    )
    def test_what_cannot_be_is_refused(self, app: Tickwork, admin: TestClient, body: dict[str, Any]) -> None:
        assert admin.post(USERS, json=body).status_code == 422
        assert app.store.access.list_users() == []

    def test_a_name_is_taken_once(self, admin: TestClient) -> None:
        body = {"name": "ada", "role": "admin", "password": CANARY}
        assert [admin.post(USERS, json=body).status_code for _ in range(2)] == [201, 422]

    @pytest.mark.parametrize("name", ["nobody", "%00", "a%20b"])
    def test_a_missing_user_is_404(self, admin: TestClient, name: str) -> None:
        assert admin.patch(f"{USERS}/{name}", json={"role": "admin"}).status_code == 404
        assert admin.delete(f"{USERS}/{name}").status_code == 404

    def test_equal_passwords_are_stored_as_unequal_texts(self) -> None:
        one, other = hash_password(CANARY), hash_password(CANARY)
        assert one != other
        assert is_password(CANARY, one)
        assert is_password(CANARY, other)
        assert not is_password(CANARY + "x", one)


class TestSecrets:
    def test_a_secret_is_set_listed_and_deleted_and_never_shown(self, app: Tickwork, admin: TestClient) -> None:
        answers = [
            admin.put(f"{SECRETS}/TOKEN", json={"value": CANARY}),
            admin.get(SECRETS),
            admin.delete(f"{SECRETS}/TOKEN"),
            admin.delete(f"{SECRETS}/TOKEN"),
        ]
        assert [answer.status_code for answer in answers] == [200, 200, 204, 404]
        assert answers[1].json()["items"][0]["set_by"] == "dev"
        rows = audit(admin, target="secret:TOKEN")
        assert [row["action"] for row in rows] == ["delete_secret", "set_secret"]
        assert CANARY not in "".join(answer.text for answer in answers) + str(rows)

    def test_a_secret_is_set_for_some_tasks_and_says_so(self, app: Tickwork, admin: TestClient) -> None:
        body = {"value": CANARY, "uses": ["task:charge", "dag:pay"]}
        assert admin.put(f"{SECRETS}/TOKEN", json=body).json()["uses"] == ["dag:pay", "task:charge"]
        assert admin.get(SECRETS).json()["items"][0]["uses"] == ["dag:pay", "task:charge"]
        assert admin.put(f"{SECRETS}/TOKEN", json={"value": CANARY, "uses": ["charge"]}).status_code == 422
        assert app.vault.get("TOKEN", SecretUse("charge", "default")) == CANARY

    def test_what_was_set_is_what_jobs_find(self, app: Tickwork, admin: TestClient) -> None:
        admin.put(f"{SECRETS}/TOKEN", json={"value": CANARY})
        assert app.vault.get("TOKEN") == CANARY

    @pytest.mark.parametrize(("name", "value"), [("1x", CANARY), ("a%00", CANARY), ("TOKEN", ""), ("TOKEN", "a\0")])
    def test_what_cannot_be_is_refused(self, admin: TestClient, name: str, value: str) -> None:
        answer = admin.put(f"{SECRETS}/{name}", json={"value": value})
        assert answer.status_code == 422
        assert admin.delete(f"{SECRETS}/{name}").status_code == 404

    def test_without_a_key_nothing_is_stored(
        self, app: Tickwork, admin: TestClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TICKWORK_SECRET_KEY", "no key")
        answer = admin.put(f"{SECRETS}/TOKEN", json={"value": CANARY})
        assert (answer.status_code, answer.json()["code"]) == (503, "secrets-unavailable")
        assert app.store.access.list_secrets() == []


class TestAudit:
    def test_it_is_read_by_pages(self, admin: TestClient) -> None:
        for number in range(5):
            admin.post(KEYS, json={"name": f"k{number}", "scopes": ["read"]})
        page = admin.get(AUDIT, params={"limit": 2}).json()
        assert [row["target"] for row in page["items"]] == ["key:k4", "key:k3"]
        page = admin.get(AUDIT, params={"limit": 3, "cursor": page["next_cursor"]}).json()
        assert ([row["target"] for row in page["items"]], page["next_cursor"]) == (["key:k2", "key:k1", "key:k0"], None)
        row = page["items"][0]
        assert row["address"] == "testclient"
        assert len(row["request_id"]) == 16
        assert len(audit(admin, since=row["at"])) == 3

    def test_what_was_refused_is_not_in_it(self, app: Tickwork, admin: TestClient) -> None:
        admin.post(KEYS, json={"name": "", "scopes": []})
        admin.post(KEYS, json={"nam": "x"})
        admin.delete(f"{USERS}/nobody")
        assert app.store.audit.list_changes(AuditFilter(), 9) == []

    @pytest.mark.parametrize(
        "which",
        [{"limit": "0"}, {"limit": "9999"}, {"cursor": "x"}, {"cursor": "-1"}, {"since": "2026-01-01T00:00:00"}],
    )
    def test_what_names_no_page_is_refused(self, admin: TestClient, which: dict[str, str]) -> None:
        assert admin.get(AUDIT, params=which).status_code == 422

    def test_any_text_may_be_looked_for(self, admin: TestClient) -> None:
        assert audit(admin, who="\0", target="é\ud7ff", action="'") == []
