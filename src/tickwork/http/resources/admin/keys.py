"""API keys over REST."""

from __future__ import annotations

from datetime import datetime

import msgspec

from tickwork.http.framework.problems import Problem
from tickwork.http.framework.route import Routes, Scope, Struct
from tickwork.http.request import Call
from tickwork.security.credentials import LASTS, create_key, find_key, read_lasts
from tickwork.store.admin.access import ApiKeyView

routes = Routes("keys")


class NewKeyBody(Struct):
    """A key to create, with scopes of read, enqueue, operate, shell, use-secrets, work, metrics and admin.

    `expires` is a duration, or "never": then the key lasts until it is revoked.
    """

    name: str
    scopes: list[str]
    expires: str = LASTS


class KeyBody(Struct):
    """A key, without its secret. Its token begins with `prefix`."""

    id: str
    name: str
    prefix: str
    scopes: list[str]
    state: str
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    used_at: datetime | None
    revoked_at: datetime | None


class CreatedKeyBody(KeyBody, kw_only=True):
    """A new key, with its token, which is shown only once."""

    token: str


class KeyListBody(Struct):
    """API keys, the newest first."""

    items: list[KeyBody]
    next_cursor: str | None = None


@routes.post("/keys", Scope.ADMIN, status=201, is_repeatable=False)
def create_api_key(call: Call, body: NewKeyBody) -> CreatedKeyBody:
    """Create an API key. Its token is only in this answer."""
    token, made = create_key(call.app.store, body.name, body.scopes, read_lasts(body.expires), call.who.name)
    shown = key_body(made)
    call.changed(f"key:{made.name}", after=shown)
    return CreatedKeyBody(**msgspec.structs.asdict(shown), token=token)


@routes.get("/keys", Scope.ADMIN)
def list_api_keys(call: Call) -> KeyListBody:
    """List API keys, including expired and revoked ones."""
    return KeyListBody([key_body(key) for key in call.app.store.access.list_api_keys()])


@routes.post("/keys/{id}/revoke", Scope.ADMIN)
def revoke_api_key(call: Call, id: str) -> KeyBody:
    """Revoke a key, by its id or its name. Its sessions end with it."""
    key = find_key(call.app.store, id)
    if key is None:
        raise Problem(404, "not-found", f"there is no API key {id!r}.")
    call.app.store.access.revoke_api_key(key.id)
    after = key_body(call.app.store.access.get_api_key(key.id) or key)
    call.changed(f"key:{key.name}", before=key_body(key), after=after)
    return after


def key_body(key: ApiKeyView) -> KeyBody:
    state = "live" if key.is_live else "expired" if key.revoked_at is None else "revoked"
    return KeyBody(
        id=key.id,
        name=key.name,
        prefix=key.prefix,
        scopes=list(key.scopes),
        state=state,
        created_at=key.created_at,
        created_by=key.created_by,
        expires_at=key.expires_at,
        used_at=key.used_at,
        revoked_at=key.revoked_at,
    )
