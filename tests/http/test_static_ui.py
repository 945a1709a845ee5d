"""The web UI as it is served: what a browser may load, keep and run, and what it may not."""

import gzip
import hashlib
import json
import posixpath
import re

import pytest
from starlette.testclient import TestClient

from tickwork.http.static_ui import UiFiles, loaded_first, pages

FIRST_LOAD_LIMIT = 100_000
PAGE_LIMIT = 250_000
_ICON = re.compile(
    r"""\bname=\$?\{?["']([a-z0-9-]+)["']\}?\s+(?:class="[^"]*"\s+)?/>|icon: ?"([a-z0-9-]+)"|icon="([a-z0-9-]+)\""""
)


@pytest.fixture(scope="module")
def ui() -> UiFiles:
    return pages()


def test_the_page_comes_without_asking_who_looks_and_is_requested_again_each_time(anybody: TestClient) -> None:
    answer = anybody.get("/")

    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["cache-control"] == "no-cache"


def test_the_policy_of_the_page_lets_nothing_run_that_is_not_a_file_of_ours(anybody: TestClient) -> None:
    policy = dict(part.strip().split(" ", 1) for part in anybody.get("/").headers["content-security-policy"].split(";"))

    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert "unsafe" not in " ".join(policy.values())


def test_the_page_has_nothing_inline_and_names_no_host(ui: UiFiles) -> None:
    page = ui.index.decode()

    assert not re.search(r"<script(?![^>]*\bsrc=)", page)
    assert "<style" not in page
    assert not re.search(r"\s(on\w+|style)=", page)
    assert "//" not in page.replace("<!doctype", "")


def test_files_may_be_kept_for_good_because_their_address_changes_with_them(anybody: TestClient, ui: UiFiles) -> None:
    answer = anybody.get(f"/static/{ui.digest}/app.js")

    assert answer.status_code == 200
    assert "immutable" in answer.headers["cache-control"]
    assert answer.headers["content-type"].startswith("text/javascript")
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.content == ui.files["app.js"].data


def test_a_file_of_another_version_is_not_found(anybody: TestClient) -> None:
    assert anybody.get("/static/0123456789abcdef/app.js").status_code == 404


@pytest.mark.parametrize(
    "path", ["../pages.py", "%2e%2e/pages.py", "lib", "lib/", "index.html", "vendor/core.d.ts", ""]
)
def test_only_files_of_the_ui_are_served(anybody: TestClient, ui: UiFiles, path: str) -> None:
    assert anybody.get(f"/static/{ui.digest}/{path}").status_code == 404


def test_a_browser_that_knows_no_compression_gets_plain_files(anybody: TestClient, ui: UiFiles) -> None:
    answer = anybody.get(f"/static/{ui.digest}/app.js", headers={"Accept-Encoding": "identity"})

    assert "content-encoding" not in answer.headers
    assert answer.content == ui.files["app.js"].data


def test_every_file_that_the_page_names_is_there(ui: UiFiles) -> None:
    named = re.findall(rf'(?:href|src)="static/{ui.digest}/([^"]+)"', ui.index.decode())

    assert "app.js" in named
    assert [name for name in named if name not in ui.files] == []


def test_every_module_that_a_module_imports_is_there(ui: UiFiles) -> None:
    missing = []
    for name, file in ui.files.items():
        if name.endswith(".js") and not name.startswith("vendor/"):
            folder = name.rpartition("/")[0]
            for said in re.findall(r"""(?:from|import\()\s*["'](\.[^"']+)["']""", file.data.decode()):
                path = posixpath.normpath(posixpath.join(folder, said))
                if path not in ui.files:
                    missing.append((name, said))

    assert missing == []


def test_the_first_load_is_small(ui: UiFiles) -> None:
    size = len(gzip.compress(ui.index)) + sum(len(ui.files[name].packed) for name in _first(ui))

    assert size <= FIRST_LOAD_LIMIT


def test_no_page_is_large(ui: UiFiles) -> None:
    """With everything that it may load later: dialogs, graphs, colours for code."""
    code = {name: file.data for name, file in ui.files.items()}
    first = _first(ui)
    sizes = {}
    for page in re.findall(r'import\("\./(pages/[^"]+)"\)', code["routes.js"].decode()):
        sizes[page] = sum(len(ui.files[name].packed) for name in first | _reached(code, page))

    assert len(sizes) > 10
    assert {page: size for page, size in sizes.items() if size > PAGE_LIMIT} == {}


def _first(ui: UiFiles) -> set[str]:
    code = {name: file.data for name, file in ui.files.items()}
    styles = (name for name in ui.files if name.startswith("style/"))
    return {*loaded_first(code), *styles, "vendor/icons.svg", "icon.svg"}


def _reached(code: dict[str, bytes], page: str) -> set[str]:
    """Every module that a page leads to, also those that are loaded when they are needed."""
    seen = [page]
    for name in seen:
        folder = name.rpartition("/")[0]
        for said in re.findall(r"""(?:from|import\()\s*["'](\.[^"']+)["']""", code[name].decode()):
            path = posixpath.normpath(posixpath.join(folder, said))
            if path not in seen and path != "routes.js":
                seen.append(path)
    return set(seen)


def test_what_others_wrote_is_what_was_recorded(ui: UiFiles) -> None:
    record = json.loads(ui.files["vendor/vendor.json"].data)

    assert {f"vendor/{name}" for name in record} | {"vendor/vendor.json"} == {
        name for name in ui.files if name.startswith("vendor/")
    }
    for name, about in record.items():
        assert hashlib.sha256(ui.files[f"vendor/{name}"].data).hexdigest() == about["sha256"]


def test_every_icon_that_is_named_is_in_the_sprite(ui: UiFiles) -> None:
    known = set(re.findall(r'<symbol id="([^"]+)"', ui.files["vendor/icons.svg"].data.decode()))
    named = {
        next(filter(None, found))
        for name, file in ui.files.items()
        if name.endswith(".js") and not name.startswith("vendor/")
        for found in _ICON.findall(file.data.decode())
    }

    assert "x" in named
    assert named - known == set()


@pytest.mark.parametrize(
    "sink", ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"]
)
def test_no_module_of_ours_can_turn_text_into_code(ui: UiFiles, sink: str) -> None:
    users = [name for name, file in ui.files.items() if not name.startswith("vendor/") and sink in file.data.decode()]

    assert users == []


# ---- the source, which is served as it is -------------------------------------------------------------------------


def test_no_line_of_the_source_is_longer_than_120_columns(ui: UiFiles) -> None:
    long = [
        f"{name}:{number}"
        for name, text in _source(ui, (".js", ".css")).items()
        for number, line in enumerate(text.splitlines(), 1)
        if len(line) > 120
    ]

    assert long == []


def test_each_module_begins_with_a_sentence_about_it(ui: UiFiles) -> None:
    heads = {name: re.match(r"(?:// .*\n)+", text) for name, text in _source(ui, (".js",)).items()}

    assert [name for name, head in heads.items() if head is None or not re.search(r"[.)]\n", head[0])] == []


def test_every_text_is_used_in_a_module_of_its_area(ui: UiFiles) -> None:
    source = _source(ui, (".js",))
    used: dict[str, set[str]] = {}
    for text in source.values():
        for area in re.findall(r'from "\.\.?/texts/(\w+)\.js"', text):
            used.setdefault(f"texts/{area}.js", set()).update(re.findall(r"\bTEXTS\.(\w+)", text))
    texts = {
        name: set(re.findall(r"^  (\w+):", text, re.MULTILINE)) for name, text in source.items() if "texts/" in name
    }

    assert len(texts) > 5
    assert {name: keys - used.get(name, set()) for name, keys in texts.items() if keys - used.get(name, set())} == {}


def _source(ui: UiFiles, endings: tuple[str, ...]) -> dict[str, str]:
    return {
        name: file.data.decode()
        for name, file in ui.files.items()
        if name.endswith(endings) and not name.startswith("vendor/")
    }
