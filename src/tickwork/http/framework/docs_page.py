"""The API documentation as one HTML page, made from the OpenAPI document, without scripts or external resources."""

from __future__ import annotations

import base64
import hashlib
from html import escape
from typing import Any

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --dim: #777; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { margin-top: 2.5rem; font-size: 1.15rem; text-transform: capitalize; }
code, pre { font: 13px/1.5 ui-monospace, monospace; }
details { border: 1px solid var(--line); border-radius: 6px; margin: .4rem 0; padding: .35rem .7rem; }
summary { cursor: pointer; } summary b { display: inline-block; min-width: 4.2rem; }
summary span { color: var(--dim); } nav a { margin-right: .8rem; }
table { border-collapse: collapse; margin: .5rem 0; } td, th { text-align: left; padding: .15rem 1rem .15rem 0; }
th { font-weight: 600; } pre { background: var(--soft); padding: .6rem; overflow-x: auto; border-radius: 4px; }
.dim { color: var(--dim); }
"""
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'sha256-{_HASH}'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"


def page(document: dict[str, Any], prefix: str) -> str:
    """Return the page: all operations by group, with inputs and outputs. `prefix` is the path prefix of a proxy."""
    groups: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            shown = _operation(prefix + path, method.upper(), operation)
            groups.setdefault(operation["tags"][0], []).append(shown)
    links = " ".join(f'<a href="#{escape(_anchor(name))}">{escape(name)}</a>' for name in groups)
    parts = "".join(
        f'<h2 id="{escape(_anchor(name))}">{escape(name)}</h2>{"".join(all)}' for name, all in groups.items()
    )
    schemas = "".join(_schema(name, schema) for name, schema in sorted(document["components"]["schemas"].items()))
    info = document["info"]
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(info['title'])} API</title><style>{_STYLE}</style>"
        f"<h1>{escape(info['title'])} {escape(info['version'])}: the API</h1>"
        f'<p>The same as a document for programs: <a href="{escape(prefix)}/api/v1/openapi.json">openapi.json</a>. '
        f"Callers say who they are with <code>Authorization: Bearer KEY</code>.</p><nav>{links}</nav>{parts}"
        f'<h2 id="schemas">Bodies</h2>{schemas}</html>'
    )


def _anchor(name: str) -> str:
    return name.replace(" ", "-")


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    """Return the HTML of an operation."""
    scope = operation.get("x-scope")
    access = f"scope {scope}" if scope else "any caller" if not operation["security"] else "any caller with credentials"
    body = operation.get("requestBody", {}).get("content", {})
    rows = [
        *((f"{one['name']} ({one['in']})", _kind(one["schema"])) for one in operation["parameters"]),
        *(("body", _kind(content["schema"])) for content in body.values()),
        *((f"answers {status}", _answer(answer)) for status, answer in operation["responses"].items()),
    ]
    table = "".join(f"<tr><th>{escape(name)}</th><td>{kind}</td></tr>" for name, kind in rows)
    said = escape(operation["summary"])
    more = f"<p>{escape(operation['description'])}</p>" if "description" in operation else ""
    return (
        f"<details><summary><b>{method}</b> <code>{escape(path)}</code> <span>{said}</span></summary>"
        f'{more}<p class="dim">{escape(access)}</p><table>{table}</table></details>'
    )


def _answer(answer: dict[str, Any]) -> str:
    kinds = [f"{escape(media)}: {_kind(content['schema'])}" for media, content in answer.get("content", {}).items()]
    return "; ".join(kinds) or "nothing"


def _kind(schema: dict[str, Any]) -> str:
    """Return a type in a few words, with links to named types."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f'<a href="#{escape(name)}">{escape(name)}</a>'
    if "anyOf" in schema:
        return " or ".join(_kind(one) for one in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    if "enum" in schema:
        return escape(", ".join(map(str, schema["enum"])))
    return escape(str(schema.get("format") or schema.get("type") or "anything"))


def _schema(name: str, schema: dict[str, Any]) -> str:
    """Return the HTML of a named schema."""
    needed = set(schema.get("required", ()))
    rows = "".join(
        f"<tr><th><code>{escape(field)}</code></th><td>{_kind(kind)}</td>"
        f'<td class="dim">{"required" if field in needed else ""}</td></tr>'
        for field, kind in schema.get("properties", {}).items()
    )
    about = escape(schema.get("description", ""))
    return (
        f'<details id="{escape(name)}"><summary><b>{escape(name)}</b></summary><p>{about}</p>'
        f"<table>{rows}</table></details>"
    )
