"""The OpenAPI 3.1 document, generated from the table of routes."""

from __future__ import annotations

import types
import typing
from collections.abc import Sequence
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

    None means that it has no JSON body, or builds its response itself.
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


_TEXT = {"type": "string"}
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
