"""Secrets over REST: set, list by name and delete them. Their values are never returned."""

from __future__ import annotations

from datetime import datetime

from tickwork.core.access.scopes import is_secret_name
from tickwork.http.framework.problems import Problem
from tickwork.http.framework.route import ListBody, Routes, Scope, Struct
from tickwork.http.request import Call

routes = Routes("secrets")


class NewSecretBody(Struct):
    """The value of a secret, and what may use it: `task:NAME`, `dag:NAME`, `queue:NAME`; an empty list means any job.

    Without `uses`, an existing secret keeps its list, and every job may use a new secret.
    """

    value: str
    uses: list[str] | None = None


class SecretBody(Struct):
    """A secret without its value: what may use it (empty: every job), when it was set, and by whom."""

    name: str
    uses: list[str]
    set_at: datetime
    set_by: str


class SecretListBody(ListBody[SecretBody]):
    """Secrets, by name."""


@routes.put("/secrets/{name}", Scope.ADMIN)
def set_secret(call: Call, name: str, body: NewSecretBody) -> SecretBody:
    """Set a secret. Jobs that start from now on read this value as `${secret.NAME}`."""
    before = _of(call).get(name)
    call.app.vault.put(name, body.value, call.who.name, uses=body.uses)
    after = _of(call)[name]
    call.changed(f"secret:{name}", before=before, after=after)
    return after


@routes.get("/secrets", Scope.ADMIN)
def list_secrets(call: Call) -> SecretListBody:
    """List secrets by name, without their values."""
    return SecretListBody(list(_of(call).values()), None)


@routes.delete("/secrets/{name}", Scope.ADMIN)
def delete_secret(call: Call, name: str) -> None:
    """Delete a secret."""
    before = _of(call).get(name)
    if not is_secret_name(name) or not call.app.store.access.delete_secret(name):
        raise Problem(404, "not-found", f"there is no secret {name!r}.")
    call.changed(f"secret:{name}", before=before)


def _of(call: Call) -> dict[str, SecretBody]:
    return {
        one.name: SecretBody(one.name, list(one.uses), one.set_at, one.set_by)
        for one in call.app.store.access.list_secrets()
    }
