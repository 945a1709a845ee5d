"""The OpenAPI 3.1 document, generated from the table of routes, and its HTML page without scripts or external parts."""

from __future__ import annotations

import base64
import hashlib
import types
import typing
from collections.abc import Sequence
from html import escape
from typing import Any

import msgspec
from starlette.responses import Response

from tickwork.http.framework.conditional import has_etag
from tickwork.http.framework.problems import TYPE, ProblemBody
from tickwork.http.framework.route import (
    IDEMPOTENCY_HEADER,
    IDEMPOTENCY_KEY_LIMIT,
    HandlerResult,
    NoCredentials,
    Route,
    Scope,
)
from tickwork.version import VERSION

_REFERENCE = "#/components/schemas/{name}"
_TEXT = {"type": "string"}
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


def document(routes: Sequence[Route]) -> dict[str, Any]:
    """Return the OpenAPI document of routes. Each body is a named schema that refuses unknown fields."""
    kinds = _kinds(routes)
    schemas, components = msgspec.json.schema_components([*kinds, ProblemBody], ref_template=_REFERENCE)
    by_kind = {id(kind): schema for kind, schema in zip([*kinds, ProblemBody], schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, by_kind)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Tickwork",
            "version": VERSION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": "tickwork_session"},
            },
        },
    }


def body_kind(returns: Any) -> Any:
    """Return the JSON type of a handler's answer, from its return hint.

    Returns None if the handler has no JSON body, or builds its response itself.
    """
    if returns in (None, type(None), HandlerResult) or (
        isinstance(returns, type) and not issubclass(returns, msgspec.Struct)
    ):
        return None
    if isinstance(returns, types.UnionType):
        kinds = [kind for kind in typing.get_args(returns) if kind not in (HandlerResult, Response)]
        return kinds[0] if len(kinds) == 1 else returns
    return returns


def _kinds(routes: Sequence[Route]) -> list[Any]:
    """Return the distinct types of all bodies and answers."""
    found: dict[int, Any] = {}
    for route in routes:
        for kind in (route.body, body_kind(route.returns), *route.also.values()):
            if kind is not None:
                found[id(kind)] = kind
    return list(found.values())


def _operation(route: Route, schemas: dict[int, Any]) -> dict[str, Any]:
    """Return the operation object of a route."""
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary.partition("\n")[0],
        "tags": [route.group],
        "parameters": [*_path_parameters(route), *_query_parameters(route), *_header_parameters(route)],
        "responses": _responses(route, schemas),
        "security": [] if isinstance(route.access, NoCredentials) else [{"bearer": []}, {"session": []}],
    }
    if isinstance(route.access, Scope):
        operation["x-scope"] = route.access.value
    rest = route.summary.partition("\n")[2].strip()
    if rest:
        operation["description"] = rest
    if route.body is not None:
        content = {"application/json": {"schema": schemas[id(route.body)]}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in route.names
    ]


def _query_parameters(route: Route) -> list[dict[str, Any]]:
    """Return the parameter objects of the query Struct of a route."""
    if route.query is None:
        return []
    _, components = msgspec.json.schema_components([route.query], ref_template=_REFERENCE)
    fields = components[route.query.__name__]["properties"]
    return [
        {
            "name": one.encode_name,
            "in": "query",
            "required": one.required,
            "schema": _inlined(fields[one.encode_name], components),
        }
        for one in msgspec.structs.fields(route.query)
    ]


def _header_parameters(route: Route) -> list[dict[str, Any]]:
    if not route.takes_idempotency_key:
        return []
    schema = {"type": "string", "minLength": 1, "maxLength": IDEMPOTENCY_KEY_LIMIT, "pattern": "^[ -~]*$"}
    said = "Sent again with the same key and body, the request is not carried out again: its answer is, for 24 hours."
    return [{"name": IDEMPOTENCY_HEADER, "in": "header", "required": False, "description": said, "schema": schema}]


def _inlined(schema: Any, components: dict[str, Any]) -> Any:
    """Return a parameter's schema without references: tools follow references in bodies only."""
    if isinstance(schema, dict):
        if "$ref" in schema:
            return _inlined(components[schema["$ref"].rpartition("/")[2]], components)
        return {name: _inlined(value, components) for name, value in schema.items()}
    return [_inlined(one, components) for one in schema] if isinstance(schema, list) else schema


def _responses(route: Route, schemas: dict[int, Any]) -> dict[str, Any]:
    """Return the response objects of a route, by status."""
    problem = {"description": "Refused, or failed.", "content": {TYPE: {"schema": schemas[id(ProblemBody)]}}}
    answers = {route.status: body_kind(route.returns), **route.also}
    return {
        **{str(status): _response(route, kind, schemas) for status, kind in answers.items()},
        **({"304": {"description": "It is as `If-None-Match` says."}} if has_etag(route) else {}),
        "4XX": problem,
        "5XX": problem,
    }


_STREAMED: dict[str, dict[str, Any]] = {
    "application/json": {},
    "text/event-stream": {"type": "object", "properties": {"event": _TEXT, "id": _TEXT, "data": _TEXT}},
}


def _response(route: Route, kind: Any, schemas: dict[int, Any]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if route.streams is not None and kind is body_kind(route.returns):
        content[route.streams] = {"schema": _STREAMED.get(route.streams, {"type": "string"})}
    if kind is not None:
        content["application/json"] = {"schema": schemas[id(kind)]}
    return {"description": "Done.", "content": content} if content else {"description": "Done."}


_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'sha256-{_HASH}'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"


def page(document: dict[str, Any], prefix: str) -> str:
    """Return the page: all operations by group, with inputs and outputs. `prefix` is the path prefix of a proxy."""
    groups: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            shown = _operation_html(prefix + path, method.upper(), operation)
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


def _operation_html(path: str, method: str, operation: dict[str, Any]) -> str:
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
