"""The vault: secrets encrypted with AES-256-GCM before they are stored, and decrypted when a job asks for them.

An encrypted value is bound to its name, its store, its namespace and its list of allowed users: if it is moved to
another place, or another list is stored with it, it does not decrypt.

The key is TICKWORK_SECRET_KEY (or the file that TICKWORK_SECRET_KEY_FILE names). A SQLite store without this setting
has a key file beside the database, created with the first secret and readable by its owner only.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from tickwork.config import from_environment, sqlite_path
from tickwork.core.access.scopes import digest_of, read_secret_name
from tickwork.core.access.secret_policy import SecretUse, is_open_to, read_uses
from tickwork.core.ids import JobId
from tickwork.errors import InvalidInput, SecretError
from tickwork.file_modes import exposed
from tickwork.store.admin.access import SealedSecret
from tickwork.store.base import Store

KEY = "TICKWORK_SECRET_KEY"
VALUE_LIMIT = 64 * 1024  # bytes
_VERSION = "1"
_KEY_SIZE, _NONCE_SIZE = 32, 12
_HOW = "32 random bytes, in hexadecimal or Base64: openssl rand -hex 32"


class Vault:
    """Encrypts and decrypts the secrets of a store.

    `is_closed` is set in child processes, which run code of tasks: the vault then asks the worker, which masks what
    it returns.
    """

    is_closed: ClassVar[bool] = False

    def __init__(
        self,
        store: Callable[[], Store],
        url: str,
        environ: Mapping[str, str] | None = None,
        *,
        namespace: str | None = None,
    ) -> None:
        self._store = store
        self._namespace = namespace or ""
        self._environ = os.environ if environ is None else environ
        path = sqlite_path(url)
        self._file = None if path is None else Path(f"{Path(path).absolute()}-secret-key")

    def put(self, name: str, value: str, by: str, *, uses: Iterable[str] | None = None) -> None:
        """Store a secret for the tasks, dags and queues in `uses`. Without it, an existing secret keeps its list.

        An empty list means all jobs. Raises InvalidInput for an invalid name, value or list, SecretError without a key.
        """
        _check_open(name)
        read_secret_name(name)
        uses = self._uses(name) if uses is None else read_uses(uses)
        data = value.encode("utf-8", "surrogatepass")
        if not data or len(data) > VALUE_LIMIT or "\0" in value:
            raise InvalidInput(
                f"the value of a secret is 1 to {VALUE_LIMIT:,} bytes of text, without zero bytes. Nothing was stored."
            )
        key = self._key(make=True)
        self._store().access.put_secret(name, SealedSecret(_sealed(key, data, self._bound_to(name, uses)), uses), by)

    def _uses(self, name: str) -> tuple[str, ...]:
        """Return the list of what may use an existing secret.

        Raises SecretError if that list was changed in the store.
        """
        sealed = self._store().access.get_secret(name)
        if sealed is None or not sealed.uses:
            return ()
        self.get(name)  # decrypts only with the list it was stored with
        return sealed.uses

    def get(self, name: str, use: SecretUse | None = None) -> str | None:
        """Return the value of a secret; None if there is none. Raises SecretError if it does not decrypt.

        Also raises SecretError if the job in `use` may not use it.
        """
        _check_open(name)
        sealed = self._store().access.get_secret(name)
        if sealed is None:
            return None
        value = _opened(self._key(make=False), name, sealed.text, self._bound_to(name, sealed.uses))
        if use is not None and not is_open_to(sealed.uses, use, self._dag(use, sealed.uses)):
            raise SecretError(
                f"the secret {name} is not for task {use.task!r} in queue {use.queue!r}: it was set for "
                f"{', '.join(sealed.uses)}."
            )
        return value

    def _dag(self, use: SecretUse, uses: Sequence[str]) -> str | None:
        """Return the dag whose run a job is a step of. It is looked up only if `uses` names a dag."""
        if use.run is None or not any(one.startswith("dag:") for one in uses):
            return None
        run = self._store().reads.get_jobs([JobId(use.run)]).get(JobId(use.run))
        return None if run is None else run.task

    def _bound_to(self, name: str, uses: Sequence[str]) -> bytes:
        """Return the data that an encrypted value is bound to."""
        return json.dumps(["tickwork secret", name, self._store().access.store_id(), self._namespace, *uses]).encode()

    def get_evenly(self, name: str) -> str | None:
        """Return what `get` returns, with the same work for a missing secret, for which a dummy value is encrypted."""
        value = self.get(name)
        if value is None:
            with suppress(SecretError):  # `get` raises SecretError only if the secret exists
                _sealed(self._key(make=False), bytes(_KEY_SIZE), self._bound_to(name, ()))
        return value

    def exposed_file(self) -> Path | None:
        """Return the key file beside the store if group or others have permissions on it; None otherwise."""
        return next(iter(exposed([] if self._file is None else [self._file])), None)

    def _key(self, *, make: bool) -> bytes:
        """Return the key. Raises SecretError if there is none; with `make`, a key file is created."""
        given = from_environment(KEY, self._environ)
        if given is not None:
            return _decoded(given, KEY)
        if self._file is None:
            raise SecretError(
                f"secrets in PostgreSQL are sealed with {KEY}, which is not set here. Set it to {_HOW}. A task asks "
                f"its worker, which has it: current_job().secret(NAME)."
            )
        if make and not self._file.exists():
            _make_file(self._file)
        return _decoded(_read_file(self._file), str(self._file))


def _check_open(name: str) -> None:
    """Raise SecretError in a process that runs code of tasks."""
    if Vault.is_closed:
        raise SecretError(
            f"code of a task does not use the vault: its worker has the key. Get a secret with "
            f"current_job().secret({name!r}), and set secrets outside of tasks."
        )


def _sealed(key: bytes, data: bytes, bound_to: bytes) -> str:
    """Return data encrypted, with a version and the fingerprint of the key."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = secrets.token_bytes(_NONCE_SIZE)
    text = base64.b64encode(nonce + AESGCM(key).encrypt(nonce, data, bound_to)).decode()
    return f"{_VERSION}:{_fingerprint(key)}:{text}"


def _opened(key: bytes, name: str, sealed: str, bound_to: bytes) -> str:
    """Return the decrypted text. Raises SecretError for another key, or a value that was changed."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    version, fingerprint, text = sealed.split(":")
    if version != _VERSION or fingerprint != _fingerprint(key):
        raise SecretError(
            f"the secret {name} was sealed with another key than this process has. Set it again, or {KEY}."
        )
    data = base64.b64decode(text)
    try:
        return AESGCM(key).decrypt(data[:_NONCE_SIZE], data[_NONCE_SIZE:], bound_to).decode("utf-8", "surrogatepass")
    except InvalidTag:
        raise SecretError(
            f"the secret {name} was changed in the store without the key, or copied from another store or "
            f"namespace. Set it again."
        ) from None


def _fingerprint(key: bytes) -> str:
    """Return a fingerprint that distinguishes keys and reveals nothing else: keys are random."""
    return digest_of(b"tickwork key " + key)[:16]


def _decoded(text: str, where: str) -> bytes:
    """Return a key given in hexadecimal or Base64. Raises SecretError."""
    for decode in (bytes.fromhex, lambda given: base64.b64decode(given, altchars=b"-_", validate=True)):
        try:
            key: bytes = decode(text.strip())
        except (ValueError, binascii.Error):
            continue
        if len(key) == _KEY_SIZE:
            return key
    raise SecretError(f"{where} is no key. A key is {_HOW}")


def _make_file(path: Path) -> None:
    """Create the key file, complete and private from the start, unless another process just did."""
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
    """Return the content of the key file. Raises SecretError if others can read it."""
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
