"""Access control on PostgreSQL (see `store.admin.access`). The SQL is in sql/access.sql."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from tickwork.store.postgres import params
from tickwork.store.postgres.connection.session import Session, utc
from tickwork.store.postgres.transactions import PostgresTransactions
from tickwork.store.rows.instants import duration_us

_STALE = {"stale": duration_us(USED_EVERY)}
_KEPT = {"kept": duration_us(ANSWERS_KEPT)}
_FORGOTTEN = {"forgotten": int(FORGOTTEN_S * 1e6)}
_AUDITED = {"audited": duration_us(AUDIT_KEPT)}


@dataclass(eq=False)
class PostgresAccess:
    """API keys, users, sessions, logins, stored HTTP answers and secrets on PostgreSQL."""

    transactions: PostgresTransactions

    # -- API keys

    def put_api_key(
        self, id: str, name: str, digest: str, scopes: Sequence[str], lasts: timedelta | None, by: str
    ) -> ApiKeyView | None:
        values = {"id": id, "name": name, "digest": digest, "scopes": access.encode_names(scopes), "by": by}
        self.transactions.run("put_api_key", **values, lasts=None if lasts is None else duration_us(lasts))
        return self.get_api_key(id)

    def get_api_key(self, id: str) -> ApiKeyView | None:
        row = self.transactions.find("api_key_of_id", id=id, **_STALE)
        return None if row is None else access.key_view(row, utc)

    def list_api_keys(self) -> list[ApiKeyView]:
        return [access.key_view(row, utc) for row in self.transactions.run("api_keys_by_age", **_STALE)]

    def use_api_key(self, id: str) -> None:
        self.transactions.run("use_api_key", id=id, **_STALE)

    def revoke_api_key(self, id: str) -> bool:
        return bool(self.transactions.run("revoke_api_key", id=id))

    # -- users

    def put_user(self, name: str, role: str, password: str) -> bool:
        return bool(self.transactions.run("put_user", name=name, role=role, password=password))

    def get_user(self, name: str) -> UserView | None:
        row = self.transactions.find("get_user", name=name)
        return None if row is None else access.user_view(row, utc)

    def list_users(self) -> list[UserView]:
        return [access.user_view(row, utc) for row in self.transactions.run("users")]

    def change_user(self, name: str, role: str | None = None, password: str | None = None) -> bool:
        def change(session: Session) -> bool:
            found = bool(session.run("change_user", name=name, role=role, password=password))
            # Only now, so that sessions that began while this waited for the row are ended, too.
            if password is not None:
                session.run("end_sessions_of_user", name=name)
            return found

        return self.transactions.perform(change, single=False)

    def remove_user(self, name: str) -> bool:
        def remove(session: Session) -> bool:
            found = bool(session.run("remove_user", name=name))
            session.run("end_sessions_of_user", name=name)
            return found

        return self.transactions.perform(remove, single=False)

    def has_access(self) -> bool:
        ((found,),) = self.transactions.run("has_access")
        return bool(found)

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
        return bool(self.transactions.run("put_session", **values, password=password))

    def get_session(self, digest: str, idle: timedelta) -> SessionView | None:
        row = self.transactions.find("get_session", digest=digest, idle=duration_us(idle), **_STALE)
        return None if row is None else access.session_view(row, utc)

    def open_sessions(self, idle: timedelta, kind: SessionKind | None = None, subject: str = "") -> list[OpenSession]:
        values = {"idle": duration_us(idle), "kind": kind, "subject": subject, "limit": SESSIONS_MOST}
        return [access.open_session(row, utc) for row in self.transactions.run("open_sessions", **values)]

    def use_session(self, digest: str) -> None:
        self.transactions.run("use_session", digest=digest, **_STALE)

    def end_session(self, digest: str) -> bool:
        return bool(self.transactions.run("end_session", digest=digest))

    def admit_login(self, free: Mapping[str, int]) -> float:
        """Lock the rows of all names and addresses, then decide whether the login may be tried, and count it."""
        subjects = params.document(sorted(free))

        def count(session: Session) -> float:
            session.run("know_logins", subjects=subjects)
            session.run("lock_logins", subjects=subjects)
            rows = session.run("tried_logins", subjects=subjects, **_FORGOTTEN)
            wait_s, counted = admit([FailedLogins(*row) for row in rows], free)
            session.run("put_logins", counted=params.document(one._asdict() for one in counted))
            return wait_s

        return self.transactions.perform(count, single=False)

    def forgive_login(self, cleared: Sequence[str], returned: Sequence[str]) -> None:
        def forgive(session: Session) -> None:
            session.run("lock_logins", subjects=params.document(sorted([*cleared, *returned])))
            session.run("clear_logins", subjects=params.document(cleared))
            session.run("return_logins", subjects=params.document(returned))

        self.transactions.perform(forgive, single=False)

    def knows_login(self, subject: str) -> bool:
        ((found,),) = self.transactions.run("knows_login", subject=subject)
        return bool(found)

    def remember_login(self, subject: str, lasts: timedelta) -> None:
        self.transactions.run("remember_login", subject=subject, lasts=duration_us(lasts))

    def hold_keys(self, keys: Sequence[str]) -> None:
        self.transactions.perform(lambda session: session.run("hold_keys", keys=params.text_array(keys)), single=False)

    # -- kept answers

    def begin_answer(self, who: str, key: str, digest: str, given_up: timedelta) -> BegunRequest | KeptAnswer:
        known = {"who": who, "key": key}
        values = {"digest": digest, "given_up": duration_us(given_up), **_KEPT}
        begun = self.transactions.find("begin_answer", **known, **values)
        if begun is not None:
            return BegunRequest(*map(utc, begun))
        kept = self.transactions.find("get_answer", **known)  # No row: the request was dropped meanwhile.
        return KeptAnswer(digest, None, {}, b"") if kept is None else access.kept_answer(kept)

    def keep_answer(
        self, who: str, key: str, began_at: datetime, status: int, headers: Mapping[str, str], body: bytes
    ) -> None:
        answer = {"status": status, "headers": access.encode_headers(headers), "body": body.decode()}
        self.transactions.run("keep_answer", who=who, key=key, began_at=began_at, **answer)

    def drop_answer(self, who: str, key: str, began_at: datetime) -> None:
        self.transactions.run("drop_answer", who=who, key=key, began_at=began_at)

    def release_answer(self, who: str, key: str, began_at: datetime) -> None:
        self.transactions.run("release_answer", who=who, key=key, began_at=began_at)

    # -- secrets

    def store_id(self) -> str:
        for (id,) in self.transactions.run("store_id"):
            return str(id)
        return self.transactions.perform(_make_store_id, single=False)

    def put_secret(self, name: str, sealed: SealedSecret, by: str) -> None:
        self.transactions.run("put_secret", name=name, sealed=sealed.text, uses=access.encode_names(sealed.uses), by=by)

    def get_secret(self, name: str) -> SealedSecret | None:
        row = self.transactions.find("get_secret", name=name)
        return None if row is None else access.sealed(row)

    def list_secrets(self) -> list[SecretView]:
        return [access.secret_view(row, utc) for row in self.transactions.run("secrets")]

    def delete_secret(self, name: str) -> bool:
        return bool(self.transactions.run("delete_secret", name=name))

    # -- services

    def prune_access(self, limit: int) -> int:
        ((count,),) = self.transactions.run("prune_access", limit=limit, **_FORGOTTEN, **_KEPT)
        ((may,),) = self.transactions.run("may_prune_audit")
        ((audited,),) = self.transactions.run("prune_audit", limit=limit, **_AUDITED) if may else ((0,),)
        return max(int(count), int(audited))


def _make_store_id(session: Session) -> str:
    """Create the id of the store under a lock, unless another process has created it; return the id."""
    session.run("lock_store_id")  # several processes can try; the first creates it, the others find it
    for (id,) in session.run("store_id"):
        return str(id)
    new = token_hex(16)
    session.run("put_store_id", id=new)
    return new
