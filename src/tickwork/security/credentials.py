"""API keys, users and passwords: creation and verification.

Tokens are long and random, so their SHA-256 is stored; a slow hash would only make every call slow. Passwords are
chosen by people, so they are hashed with scrypt.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import threading
from datetime import timedelta

from tickwork.core.access.scopes import Token, is_name, read_name, read_role, read_scopes
from tickwork.core.text.duration import parse_duration
from tickwork.errors import InvalidInput
from tickwork.store.admin.access import ApiKeyView, UserView
from tickwork.store.base import Store

LASTS = "90d"  # keys expire by default, so that forgotten keys do not stay valid
NEVER = "never"
LASTS_MOST = timedelta(days=3653)
PASSWORD_LEAST, PASSWORD_MOST = 8, 1024  # characters
_COST, _BLOCK, _PARALLEL = 1 << 15, 8, 3  # 32 MiB, and at least a tenth of a second
_MEMORY = 64 * 1024 * 1024
_AT_ONCE = threading.BoundedSemaphore(2)  # bounds the memory of password checks, however many users log in at once


def new_token() -> str:
    """Return 256 random bits as text."""
    return secrets.token_urlsafe(32)


def read_lasts(text: str) -> timedelta | None:
    """Return the lifetime of a key, or None for `never`. Raises InvalidInput."""
    return None if text == NEVER else parse_duration(text, what="expires")


def create_key(store: Store, name: str, scopes: list[str], lasts: timedelta | None, by: str) -> tuple[str, ApiKeyView]:
    """Create an API key; return its token, which is shown only this once, and its stored facts.

    Raises InvalidInput for a name that is taken, and for an invalid name, scope or lifetime.
    """
    if lasts is not None and not timedelta(0) < lasts <= LASTS_MOST:
        raise InvalidInput("a key expires after it is made, and within ten years, or never. Nothing was stored.")
    token = Token(secrets.token_hex(6), new_token())
    known = (read_name("an API key", name), token.digest, read_scopes(scopes))
    made = store.access.put_api_key(token.id, *known, lasts, by)
    if made is None:
        raise InvalidInput(
            f"there is an API key named {name!r} already. Nothing was stored. Revoke it first, or choose another name."
        )
    return token.text, made


def find_key(store: Store, which: str) -> ApiKeyView | None:
    """Return the key with this id, or else the key of this name that is not revoked; None if there is none."""
    keys = store.access.list_api_keys()
    named = (key for key in keys if key.name == which and key.revoked_at is None)
    return next((key for key in keys if key.id == which), None) or next(named, None)


def add_user(store: Store, name: str, role: str, password: str) -> None:
    """Create a user. Raises InvalidInput for a name that is taken, and for an invalid name, role or password."""
    if not store.access.put_user(read_name("a user", name), read_role(role), hash_password(password)):
        raise InvalidInput(f"there is a user named {name!r} already. Nothing was stored.")


def check_user(store: Store, name: str, password: str) -> UserView | None:
    """Return the user if the password is right, otherwise None. An unknown user takes as long as a wrong password.

    For an unknown user the password is compared with an all-zero hash, which no known password has.
    """
    user = store.access.get_user(name) if is_name(name) else None
    right = is_password(password, _stored(bytes(16), bytes(32)) if user is None else user.password)
    return user if right else None


def hash_password(password: str) -> str:
    """Return the hash to store for a password. Raises InvalidInput if it is too short or too long."""
    if not PASSWORD_LEAST <= len(password) <= PASSWORD_MOST:
        raise InvalidInput(f"a password has {PASSWORD_LEAST} to {PASSWORD_MOST} characters. Nothing was stored.")
    salt = secrets.token_bytes(16)
    return _stored(salt, _scrypt(password, salt, _COST, _BLOCK, _PARALLEL))


def _stored(salt: bytes, digest: bytes) -> str:
    parts = (base64.b64encode(part).decode() for part in (salt, digest))
    return f"scrypt${_COST}${_BLOCK}${_PARALLEL}${'$'.join(parts)}"


def is_password(password: str, stored: str) -> bool:
    """Return whether a password matches a stored hash."""
    _, cost, block, parallel, salt, digest = stored.split("$")
    found = _scrypt(password[: PASSWORD_MOST + 1], base64.b64decode(salt), int(cost), int(block), int(parallel))
    return hmac.compare_digest(found, base64.b64decode(digest))


def _scrypt(password: str, salt: bytes, cost: int, block: int, parallel: int) -> bytes:
    data = password.encode("utf-8", "surrogatepass")
    with _AT_ONCE:
        return hashlib.scrypt(data, salt=salt, n=cost, r=block, p=parallel, maxmem=_MEMORY, dklen=32)
