"""The page on security says what the code says, and what it promises is tested."""

import re
from pathlib import Path

import pytest

from tickwork.core.access.scopes import ROLES, Scope
from tickwork.http.framework.route import NO_CREDENTIALS
from tickwork.http.routes import ROUTES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/security.md").read_text()
POLICY = (ROOT / "SECURITY.md").read_text()


def section(title: str) -> str:
    """The text under a heading, up to the next one of its level or above."""
    level = title.partition(" ")[0]
    found = re.search(rf"^{re.escape(title)}\n(.*?)(?=^#{{1,{len(level)}}} |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    assert found is not None, title
    return found[1]


def tables(text: str) -> list[list[list[str]]]:
    """The tables of a text: rows of cells, without their heads."""
    blocks = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    return [[[cell.strip() for cell in row.strip("|").split("|")] for row in one.splitlines()[2:]] for one in blocks]


def test_the_table_of_scopes_is_that_of_the_code() -> None:
    scopes, _ = tables(section("## Scopes"))
    assert [row[0] for row in scopes] == [f"`{scope.value}`" for scope in Scope]


def test_the_table_of_roles_is_that_of_the_code() -> None:
    _, roles = tables(section("## Scopes"))
    written = {name.strip("`"): {one.strip("` ") for one in scopes.split(",")} for name, scopes in roles}
    assert written == {name: {scope.value for scope in scopes} for name, scopes in ROLES.items()}


def test_what_is_open_without_credentials_is_named() -> None:
    opened = {(route.method, route.path) for route in ROUTES if route.access is NO_CREDENTIALS}
    assert opened == {
        ("GET", "/healthz"),
        ("GET", "/readyz"),
        ("GET", "/api/v1/openapi.json"),
        ("GET", "/api/v1/docs"),
        ("POST", "/api/v1/session"),
        ("POST", "/hooks/{name}"),
    }
    (trust,) = tables(section("## Who is trusted with what"))
    (nobody,) = [row[1] for row in trust if row[0] == "A caller without credentials"]
    for said in ("`/healthz`", "`/readyz`", "`/api/v1/docs`", "`/api/v1/openapi.json`", "login", "hook"):
        assert said in nobody, said


def test_every_promise_names_tests_that_are_there() -> None:
    (promises,) = tables(section("## What is promised and tested").partition("\n### ")[0])
    assert promises
    for promise, tests in promises:
        paths = re.findall(r"\]\(([^)]+)\)", tests)
        assert paths, promise
        for path in paths:
            assert "def test" in (ROOT / "docs" / path).read_text(), path


def test_links_to_tests_are_labelled_with_their_names() -> None:
    links = re.findall(r"\[([^\]]+)\]\((\.\./tests/[^)]+)\)", PAGE)
    assert len(links) > 20
    for label, path in links:
        assert label == path.rpartition("/")[2]
        assert "def test" in (ROOT / "docs" / path).read_text(), path


@pytest.mark.parametrize(
    "said",
    [
        "Masking is a seat belt",
        "Code of tasks is trusted",
        "Tenants are not isolated",
        "CVEs) of dependencies were not",
    ],
)
def test_what_is_not_promised_is_said(said: str) -> None:
    assert said in section("## What is not promised")


def test_the_policy_names_no_address_and_says_where_to_report() -> None:
    assert "private security advisory of this repository" in POLICY
    assert re.search(r"[\w.+-]+@[\w-]+\.[\w.]+", POLICY + PAGE) is None, "a mail address that nobody reads"
    assert "://" not in POLICY
    assert "CVEs) of dependencies were not checked" in POLICY


def test_the_page_and_the_policy_can_be_found() -> None:
    assert "](docs/security.md)" in (ROOT / "README.md").read_text()
    assert "](docs/security.md)" in POLICY
    assert "](SECURITY.md)" in (ROOT / "README.md").read_text()
    assert "](security.md)" in (ROOT / "docs/server.md").read_text()
