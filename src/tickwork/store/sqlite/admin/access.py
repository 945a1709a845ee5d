"""Access control on one SQLite file (see `store.admin.access`). The SQL is in sql/access.sql."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from secrets import token_hex

from tickwork.core.access.login_backoff import FORGOTTEN_S, FailedLogins, admit
from tickwork.store.admin import access
from tickwork.store.admin.access import (
    ANSWERS_KEPT,
    NOWHERE,
    SESSIONS_MOST,
    USED_EVERY,
    ApiKeyView,
    BegunRequest,
    KeptAnswer,
    OpenSession,
    SealedSecret,
    SecretView,
    SessionKind,
    SessionOrigin,
    SessionView,
    UserView,
)
from tickwork.store.admin.audit import AUDIT_KEPT
from tickwork.store.rows.instants import duration_us, from_us, to_us
from tickwork.store.sqlite.transactions import SQL, SqliteTransactions, Transaction, as_json

_STALE = {"stale": duration_us(USED_EVERY)}
_KEPT = {"kept": duration_us(ANSWERS_KEPT)}
_FORGOTTEN = {"forgotten": int(FORGOTTEN_S * 1e6)}
_AUDITED = {"audited": duration_us(AUDIT_KEPT)}


class SqliteAccess:
    """API keys, users, sessions, logins, stored HTTP answers and secrets on a SQLite file."""

    def __init__(self, transactions: SqliteTransactions) -> None:
        self._transactions = transactions

    # -- API keys

    def put_api_key(
        self, id: str, name: str, digest: str, scopes: Sequence[str], lasts: timedelta | None, by: str
    ) -> ApiKeyView | None:
        values = {"id": id, "name": name, "digest": digest, "scopes": access.encode_names(scopes), "by": by}
        with self._transactions.write() as transaction:
            lasts_us = None if lasts is None else duration_us(lasts)
            transaction.run("put_api_key", {**values, "lasts": lasts_us, "now": transaction.now})
            return next(iter(_keys(transaction, "api_key_of_id", id=id)), None)

    def get_api_key(self, id: str) -> ApiKeyView | None:
        with self._transactions.read() as transaction:
            return next(iter(_keys(transaction, "api_key_of_id", id=id)), None)

    def list_api_keys(self) -> list[ApiKeyView]:
        with self._transactions.read() as transaction:
            return _keys(transaction, "api_keys_by_age")

    def use_api_key(self, id: str) -> None:
        with self._transactions.write() as transaction:
            transaction.run("use_api_key", {"id": id, "now": transaction.now, **_STALE})

    def revoke_api_key(self, id: str) -> bool:
        with self._transactions.write() as transaction:
            return bool(transaction.run("revoke_api_key", {"id": id, "now": transaction.now}))

    # -- users

    def put_user(self, name: str, role: str, password: str) -> bool:
        with self._transactions.write() as transaction:
            values = {"name": name, "role": role, "password": password, "now": transaction.now}
            return bool(transaction.run("put_user", values))

    def get_user(self, name: str) -> UserView | None:
        with self._transactions.read() as transaction:
            row = transaction.first("get_user", (name,))
        return None if row is None else access.user_view(row, from_us)

    def list_users(self) -> list[UserView]:
        with self._transactions.read() as transaction:
            return [access.user_view(row, from_us) for row in transaction.run("users")]

    def change_user(self, name: str, role: str | None = None, password: str | None = None) -> bool:
        with self._transactions.write() as transaction:
            values = {"name": name, "role": role, "password": password, "now": transaction.now}
            if password is not None:
                transaction.run("end_sessions_of_user", (name,))
            return bool(transaction.run("change_user", values))

    def remove_user(self, name: str) -> bool:
        with self._transactions.write() as transaction:
            transaction.run("end_sessions_of_user", (name,))
            return bool(transaction.run("remove_user", (name,)))

    def has_access(self) -> bool:
        with self._transactions.read() as transaction:
            return bool(transaction.value("has_access", {"now": transaction.now}))

    # -- sessions and logins

    def put_session(
        self,
        digest: str,
        kind: SessionKind,
        subject: str,
        lasts: timedelta,
        password: str | None = None,
        *,
        origin: SessionOrigin = NOWHERE,
    ) -> bool:
        values = {"digest": digest, "kind": kind, "subject": subject, "lasts": duration_us(lasts), **origin._asdict()}
        with self._transactions.write() as transaction:
            return bool(transaction.run("put_session", {**values, "password": password, "now": transaction.now}))

    def get_session(self, digest: str, idle: timedelta) -> SessionView | None:
        with self._transactions.read() as transaction:
            values = {"digest": digest, "idle": duration_us(idle), "now": transaction.now, **_STALE}
            row = transaction.first("get_session", values)
        return None if row is None else access.session_view(row, from_us)

    def open_sessions(self, idle: timedelta, kind: SessionKind | None = None, subject: str = "") -> list[OpenSession]:
        values = {"idle": duration_us(idle), "kind": kind, "subject": subject, "limit": SESSIONS_MOST}
        with self._transactions.read() as transaction:
            rows = transaction.run("open_sessions", {**values, "now": transaction.now})
        return [access.open_session(row, from_us) for row in rows]

    def use_session(self, digest: str) -> None:
        with self._transactions.write() as transaction:
            transaction.run("use_session", {"digest": digest, "now": transaction.now, **_STALE})

    def end_session(self, digest: str) -> bool:
        with self._transactions.write() as transaction:
            return bool(transaction.run("end_session", (digest,)))

    def admit_login(self, free: Mapping[str, int]) -> float:
        with self._transactions.write() as transaction:
            now = transaction.now
            asked = {"subjects": as_json(list(free)), "now": now, **_FORGOTTEN}
            wait_s, counted = admit([FailedLogins(*row) for row in transaction.run("tried_logins", asked)], free)
            for one in counted:
                values = {"subject": one.subject, "failures": one.failures, "pause": int(one.pause_s * 1e6)}
                transaction.run("put_login", {**values, "now": now})
        return wait_s

    def forgive_login(self, cleared: Sequence[str], returned: Sequence[str]) -> None:
        with self._transactions.write() as transaction:
            transaction.run("clear_logins", (as_json(list(cleared)),))
            transaction.run("return_logins", (as_json(list(returned)),))

    def knows_login(self, subject: str) -> bool:
        with self._transactions.read() as transaction:
            return bool(transaction.value("knows_login", {"subject": subject, "now": transaction.now}))

    def remember_login(self, subject: str, lasts: timedelta) -> None:
        with self._transactions.write() as transaction:
            values = {"subject": subject, "lasts": duration_us(lasts), "now": transaction.now}
            transaction.run("remember_login", values)

    # -- the audit log

    def hold_keys(self, keys: Sequence[str]) -> None:
        """Begin the write transaction, which excludes all other writers until it ends."""
        with self._transactions.write():  # A write transaction excludes all others from here on.
            return

    # -- kept answers

    def begin_answer(self, who: str, key: str, digest: str, given_up: timedelta) -> BegunRequest | KeptAnswer:
        known = {"who": who, "key": key}
        with self._transactions.write() as transaction:
            values = {"digest": digest, "given_up": duration_us(given_up), "now": transaction.now, **_KEPT}
            begun = transaction.first("begin_answer", {**known, **values})
            if begun is not None:
                return BegunRequest(*map(from_us, begun))
            return access.kept_answer(transaction.first("get_answer", known))

    def keep_answer(
        self, who: str, key: str, began_at: datetime, status: int, headers: Mapping[str, str], body: bytes
    ) -> None:
        values = {"who": who, "key": key, "began_at": to_us(began_at)}
        answer = {"status": status, "headers": access.encode_headers(headers), "body": body.decode()}
        with self._transactions.write() as transaction:
            transaction.run("keep_answer", {**values, **answer})

    def drop_answer(self, who: str, key: str, began_at: datetime) -> None:
        with self._transactions.write() as transaction:
            transaction.run("drop_answer", {"who": who, "key": key, "began_at": to_us(began_at)})

    def release_answer(self, who: str, key: str, began_at: datetime) -> None:
        with self._transactions.write() as transaction:
            transaction.run("release_answer", {"who": who, "key": key, "began_at": to_us(began_at)})

    # -- secrets

    def store_id(self) -> str:
        with self._transactions.read() as transaction:
            id = transaction.value("store_id")
        if id is not None:
            return str(id)
        with self._transactions.write() as transaction:
            id = transaction.value("store_id")  # Another process may have created it first.
            if id is None:
                id = token_hex(16)
                transaction.run("put_store_id", (id,))
        return str(id)

    def put_secret(self, name: str, sealed: SealedSecret, by: str) -> None:
        values = {"name": name, "sealed": sealed.text, "uses": access.encode_names(sealed.uses), "by": by}
        with self._transactions.write() as transaction:
            transaction.run("put_secret", {**values, "now": transaction.now})

    def get_secret(self, name: str) -> SealedSecret | None:
        with self._transactions.read() as transaction:
            row = transaction.first("get_secret", (name,))
        return None if row is None else access.sealed(row)

    def list_secrets(self) -> list[SecretView]:
        with self._transactions.read() as transaction:
            return [access.secret_view(row, from_us) for row in transaction.run("secrets")]

    def delete_secret(self, name: str) -> bool:
        with self._transactions.write() as transaction:
            return bool(transaction.run("delete_secret", (name,)))

    # -- services

    def prune_access(self, limit: int) -> int:
        with self._transactions.write() as transaction:
            values = {"now": transaction.now, "limit": limit}
            gone = [
                transaction.run("prune_sessions", values),
                transaction.run("prune_logins", {**values, **_FORGOTTEN}),
                transaction.run("prune_known_logins", values),
                transaction.run("prune_answers", {**values, **_KEPT}),
                transaction.run("prune_audit", {**values, **_AUDITED}),
            ]
            transaction.run("prune_links", {**values, **_AUDITED})
        return max(map(len, gone))


def _keys(transaction: Transaction, which: str, **values: str) -> list[ApiKeyView]:
    """Return the API keys that a statement selects."""
    sql = SQL["api_key_columns"] + SQL[which]
    rows = transaction.connection.run(sql, {**values, "now": transaction.now, **_STALE})
    return [access.key_view(row, from_us) for row in rows]
