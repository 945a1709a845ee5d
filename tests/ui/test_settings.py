"""The pages of settings, on a real server: what is done there is in the store, and what is shown comes from there."""

import re

from playwright.sync_api import Browser, Locator, Page, expect

from tests.ui.browsing import watched_page
from tests.ui.hostile import HOSTILE
from tests.ui.pages import show
from tests.ui.serving import PASSWORD, VIEWER, Served


def row(page: Page, table: str, name: str) -> Locator:
    return page.get_by_role("table", name=table).get_by_role("row").filter(has_text=name)


def test_a_key_shows_its_token_once_and_lets_its_holder_in(page: Page, browser: Browser, served: Served) -> None:
    show(page, served.address, "/settings?part=keys")
    page.get_by_role("button", name="New key").click()
    page.get_by_label("Name").fill("made-in-a-browser")
    page.get_by_role("checkbox", name=re.compile("^enqueue")).check()
    page.get_by_role("dialog").get_by_role("button", name="Create").click()
    token = page.locator(".token code").inner_text()
    page.get_by_role("button", name="Done").click()
    expect(row(page, "API keys", "made-in-a-browser")).to_contain_text("live")
    assert token not in page.content()

    (made,) = [key for key in served.get("/keys")["items"] if key["name"] == "made-in-a-browser"]
    assert (made["scopes"], made["state"]) == (["read", "enqueue"], "live")
    assert token.startswith(made["prefix"])
    with watched_page(browser, served.address) as other:
        other.goto(f"{served.address}/#token={token}")
        expect(other.locator(".frame")).to_be_visible()


def test_a_key_is_revoked_after_a_question_alone(page: Page, served: Served) -> None:
    served.post("/keys", {"name": "to-be-revoked", "scopes": ["read"]})
    show(page, served.address, "/settings?part=keys")
    page.get_by_role("button", name="Revoke to-be-revoked").click()
    page.get_by_role("button", name="Cancel").click()
    assert state_of(served, "to-be-revoked") == "live"
    page.get_by_role("button", name="Revoke to-be-revoked").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(row(page, "API keys", "to-be-revoked")).to_contain_text("revoked")
    assert state_of(served, "to-be-revoked") == "revoked"


def state_of(served: Served, name: str) -> str:
    return next(str(key["state"]) for key in served.get("/keys")["items"] if key["name"] == name)


def test_a_user_is_added_logs_in_is_given_a_role_and_removed(page: Page, browser: Browser, served: Served) -> None:
    show(page, served.address, "/settings?part=users")
    page.get_by_role("button", name="New user").click()
    page.get_by_label("Name").fill("nina")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Add user").click()
    expect(row(page, "Users", "nina")).to_contain_text("viewer")

    with watched_page(browser, served.address) as other:
        other.watched.may_answer(401, "/session$")
        other.goto(served.address)
        other.get_by_label("Name", exact=True).fill("nina")
        other.get_by_label("Password").fill("a guess")
        other.get_by_role("button", name="Log in").click()
        expect(other.get_by_role("alert")).to_be_visible()
        other.get_by_label("Password").fill(PASSWORD)
        other.get_by_role("button", name="Log in").click()
        expect(other.locator(".frame")).to_be_visible()

    page.get_by_role("button", name="Actions for nina").click()
    page.get_by_role("menuitem", name="Change role").click()
    page.get_by_role("radio", name=re.compile("^operator")).check()
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(row(page, "Users", "nina")).to_contain_text("operator")
    assert {user["name"]: user["role"] for user in served.get("/users")["items"]}["nina"] == "operator"

    page.get_by_role("button", name="Actions for nina").click()
    page.get_by_role("menuitem", name="Remove").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(row(page, "Users", "nina")).to_have_count(0)
    assert "nina" not in {user["name"] for user in served.get("/users")["items"]}


def test_what_the_server_refuses_is_said_in_the_form_that_asked(page: Page, served: Served) -> None:
    page.watched.may_answer(422, "/api/v1/users$")
    show(page, served.address, "/settings?part=users")
    page.get_by_role("button", name="New user").click()
    page.get_by_label("Name").fill(HOSTILE)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Add user").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text(HOSTILE)


def test_the_value_of_a_secret_is_stored_and_never_shown(page: Page, served: Served) -> None:
    show(page, served.address, "/settings?part=secrets")
    page.get_by_role("button", name="New secret").click()
    page.get_by_label("Name").fill("OF_A_BROWSER")
    page.get_by_label("Value").fill("s3cret of a browser")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(row(page, "Secrets", "OF_A_BROWSER")).to_be_visible()
    assert "s3cret of a browser" not in page.content()
    assert served.app.vault.get("OF_A_BROWSER") == "s3cret of a browser"
    page.get_by_role("button", name="Delete OF_A_BROWSER").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(row(page, "Secrets", "OF_A_BROWSER")).to_have_count(0)
    assert "OF_A_BROWSER" not in {secret["name"] for secret in served.get("/secrets")["items"]}


def test_a_notification_is_made_tested_and_deleted(page: Page, served: Served) -> None:
    show(page, served.address, "/settings?part=notifications")
    page.get_by_role("button", name="New notification").click()
    page.get_by_label("Name").fill("quiet night")
    page.get_by_label(re.compile("^Event")).select_option("silent")
    page.get_by_label("After").fill("1h")
    page.get_by_label("dag").fill("etl")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(row(page, "Notifications", "quiet night")).to_contain_text("of dag etl")
    stored = served.get("/notifications/quiet night")
    assert (stored["on"], stored["after"], stored["dag"], stored["to"]) == ("silent", "1h", "etl", ["ops"])

    page.get_by_role("button", name="Actions for quiet night").click()
    page.get_by_role("menuitem", name="Send test").click()
    sent = page.get_by_role("dialog").get_by_role("link", name="http")
    expect(sent).to_be_visible()
    id = str(sent.get_attribute("href")).rpartition("/")[2]
    assert served.get(f"/jobs/{id}")["task"] == "http"
    page.get_by_role("dialog").get_by_role("button", name="Close").last.click()

    page.get_by_role("button", name="Actions for quiet night").click()
    page.get_by_role("menuitem", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(row(page, "Notifications", "quiet night")).to_have_count(0)


def test_the_audit_log_is_filtered_by_its_address_and_tells_before_and_after(page: Page, served: Served) -> None:
    show(page, served.address, "/settings?part=audit&action=revoke_api_key&target=key:old")
    (change,) = served.get("/audit", action="revoke_api_key", target="key:old")["items"]
    rows = page.get_by_role("table", name="Changes").locator("tbody tr")
    expect(rows).to_have_count(1)
    rows.first.click()
    drawer = page.get_by_role("dialog")
    expect(drawer.locator("del").filter(has_text=change["before"]["state"])).to_be_visible()
    expect(drawer.locator("ins").filter(has_text=change["after"]["state"])).to_be_visible()
    page.go_back()
    expect(drawer).to_have_count(0)
    page.get_by_role("searchbox", name="Action").fill("create_user")
    expect(page).to_have_url(re.compile("action=create_user"))


def test_health_and_configuration_say_what_the_api_says(page: Page, served: Served) -> None:
    health = served.get("/health")
    show(page, served.address, "/settings?part=health")
    services = page.get_by_role("table", name="Services").locator("tbody tr")
    expect(services).to_have_count(len(health["services"]))
    expect(page.locator("#content")).to_contain_text(f"version {health['schema_version']}")
    show(page, served.address, "/settings?part=configuration")
    url = next(one for one in served.get("/config")["items"] if one["name"] == "url")
    expect(row(page, "Settings", "TICKWORK_URL")).to_contain_text(url["value"])


def test_a_viewer_is_shown_no_part_that_they_may_not_see_and_no_change(viewer_page: Page, served: Served) -> None:
    show(viewer_page, served.address, "/settings")
    parts = viewer_page.get_by_role("navigation", name="Settings").get_by_role("link")
    assert parts.all_inner_texts() == ["You", "Notifications", "Health", "About"]
    expect(viewer_page.locator("#content")).to_contain_text(VIEWER)
    show(viewer_page, served.address, "/settings?part=keys")
    expect(viewer_page.get_by_role("alert")).to_contain_text("administrators")
    for path in ("/settings?part=notifications", "/hooks", "/hooks/paid"):
        show(viewer_page, served.address, path)
        expect(viewer_page.locator("#content").get_by_role("button", name=re.compile("New|Edit|Delete"))).to_have_count(
            0
        )


def test_a_user_ends_a_session_from_elsewhere_and_changes_their_password(browser: Browser, served: Served) -> None:
    served.post("/users", {"name": "sina", "role": "viewer", "password": PASSWORD})
    with watched_page(browser, served.address) as here, watched_page(browser, served.address) as there:
        for page in (here, there):
            said = {"user": "sina", "password": PASSWORD}
            assert page.request.post(f"{served.address}/api/v1/session", data=said).ok
        show(here, served.address, "/settings?part=you")
        sessions = here.get_by_role("table", name="Sessions").get_by_role("row")
        expect(sessions).to_have_count(3)
        expect(sessions.filter(has_text="this session")).to_have_count(1)
        here.get_by_role("button", name=re.compile("^End session from")).click()
        here.get_by_role("button", name="End session", exact=True).click()
        expect(sessions).to_have_count(2)
        assert there.request.get(f"{served.address}/api/v1/session").status == 401

        here.watched.may_answer(403, "/session/password")
        here.get_by_role("button", name="Change password").click()
        here.get_by_label("Current password").fill("wrong horse")
        here.get_by_label("New password").fill("another horse")
        here.get_by_role("button", name="Save").click()
        expect(here.get_by_role("alert")).to_contain_text("the old password is not yours")
        here.get_by_label("Current password").fill(PASSWORD)
        here.get_by_role("button", name="Save").click()
        expect(here.get_by_role("dialog")).to_have_count(0)
        assert here.request.get(f"{served.address}/api/v1/session").ok
        said = {"user": "sina", "password": "another horse"}
        assert there.request.post(f"{served.address}/api/v1/session", data=said).ok


def test_an_admin_sees_the_sessions_of_all_and_what_secrets_are_for(page: Page, served: Served) -> None:
    served.put("/secrets/BOUND", {"value": "canary", "uses": ["task:charge"]})
    show(page, served.address, "/settings?part=you")
    expect(page.get_by_role("button", name="Change password")).to_have_count(0)
    page.get_by_role("button", name="All users").click()
    expect(page.get_by_role("table", name="Sessions")).to_contain_text("dev")
    show(page, served.address, "/settings?part=secrets")
    expect(row(page, "Secrets", "BOUND")).to_contain_text("task:charge")
    page.get_by_role("button", name="Replace BOUND").click()
    page.get_by_label("Value").fill("another")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    (bound,) = [one for one in served.get("/secrets")["items"] if one["name"] == "BOUND"]
    assert bound["uses"] == ["task:charge"]
