"""Secrets at rest: sealed with AES-256-GCM before the store sees them, opened where a job asks for them.

The key is TICKWORK_SECRET_KEY (or the file that TICKWORK_SECRET_KEY_FILE names). A SQLite store without it has a file
of its own beside the database, made with the first secret and readable by its owner alone.
"""

from __future__ import annotations

import base64
import binascii
import os
import secrets
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from tickwork.config import from_environment, sqlite_path
from tickwork.core.access import digest_of, read_secret_name
from tickwork.errors import InvalidInput, SecretError
from tickwork.store.base import Store

KEY = "TICKWORK_SECRET_KEY"
VALUE_LIMIT = 64 * 1024  # bytes
_VERSION = "1"
_KEY_SIZE, _NONCE_SIZE = 32, 12
_HOW = "32 random bytes, in hexadecimal or Base64: openssl rand -hex 32"


class Vault:
    """Seals and opens the secrets of a store."""

    def __init__(self, store: Callable[[], Store], url: str, environ: Mapping[str, str] | None = None) -> None:
        self._store = store
        self._environ = os.environ if environ is None else environ
        path = sqlite_path(url)
        self._file = None if path is None else Path(f"{Path(path).absolute()}-secret-key")

    def put(self, name: str, value: str, by: str) -> None:
        """Store a secret. Raises InvalidInput for a name or value that cannot be, SecretError without a key."""
        read_secret_name(name)
        data = value.encode("utf-8", "surrogatepass")
        if not data or len(data) > VALUE_LIMIT or "\0" in value:
            raise InvalidInput(
                f"the value of a secret is 1 to {VALUE_LIMIT:,} bytes of text, without zero bytes. Nothing was stored."
            )
        self._store().put_secret(name, _sealed(self._key(make=True), name, data), by)

    def get(self, name: str) -> str | None:
        """The value of a secret; None when there is none. Raises SecretError when there is one and it does not open."""
        sealed = self._store().get_secret(name)
        return None if sealed is None else _opened(self._key(make=False), name, sealed)

    def _key(self, *, make: bool) -> bytes:
        given = from_environment(KEY, self._environ)
        if given is not None:
            return _decoded(given, KEY)
        if self._file is None:
            raise SecretError(f"secrets in PostgreSQL are sealed with {KEY}, which is not set here. Set it to {_HOW}")
        if make and not self._file.exists():
            _make_file(self._file)
        return _decoded(_read_file(self._file), str(self._file))


def _sealed(key: bytes, name: str, data: bytes) -> str:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = secrets.token_bytes(_NONCE_SIZE)
    text = base64.b64encode(nonce + AESGCM(key).encrypt(nonce, data, _bound_to(name))).decode()
    return f"{_VERSION}:{_fingerprint(key)}:{text}"


def _opened(key: bytes, name: str, sealed: str) -> str:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    version, fingerprint, text = sealed.split(":")
    if version != _VERSION or fingerprint != _fingerprint(key):
        raise SecretError(
            f"the secret {name} was sealed with another key than this process has. Set it anew, or {KEY}."
        )
    data = base64.b64decode(text)
    try:
        return (
            AESGCM(key)
            .decrypt(data[:_NONCE_SIZE], data[_NONCE_SIZE:], _bound_to(name))
            .decode("utf-8", "surrogatepass")
        )
    except InvalidTag:
        raise SecretError(
            f"the secret {name} was changed in the store by somebody without the key. Set it anew."
        ) from None


def _bound_to(name: str) -> bytes:
    """What a sealed value is bound to: copied to another name it does not open."""
    return f"tickwork secret {name}".encode()


def _fingerprint(key: bytes) -> str:
    """Tells keys from one another, and nothing else of them: they are random."""
    return digest_of(b"tickwork key " + key)[:16]


def _decoded(text: str, where: str) -> bytes:
    for decode in (bytes.fromhex, lambda given: base64.b64decode(given, altchars=b"-_", validate=True)):
        try:
            key: bytes = decode(text.strip())
        except (ValueError, binascii.Error):
            continue
        if len(key) == _KEY_SIZE:
            return key
    raise SecretError(f"{where} is no key. A key is {_HOW}")


def _make_file(path: Path) -> None:
    """Make the file, whole and private from its first moment, unless somebody else just did."""
    partial = path.with_name(f"{path.name}~{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_hex(_KEY_SIZE) + "\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(partial, path)
        except FileExistsError:
            return
        finally:
            os.unlink(partial)
    except OSError as error:
        raise SecretError(f"{path}, the key to the secrets, cannot be made: {error.strerror}.") from None


def _read_file(path: Path) -> str:
    try:
        with path.open() as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(1024)
    except FileNotFoundError:
        raise SecretError(
            f"{path}, the key to the secrets, is not here. Copy it from where it is, or set {KEY}."
        ) from None
    except OSError as error:
        raise SecretError(f"{path}, the key to the secrets, cannot be read: {error.strerror}.") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise SecretError(
            f"{path}, the key to the secrets, can be read by others. Make it yours alone: chmod 600 {path}"
        )
    return text
