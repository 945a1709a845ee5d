"""Serve the web UI: one page and the static files that it loads, from `tickwork/ui`.

The URL of a file contains a digest of all files, so browsers may cache it forever, and a page never mixes two
versions. All URLs in the page are relative, so it works under any path prefix of a proxy. It has no inline scripts or
styles, and loads nothing from other hosts.
"""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
import posixpath
import re
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from importlib.resources.abc import Traversable

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_INDEX = "index.html"
_FIRST = "app.js"
_IMPORT = re.compile(r"""(?:^import|\bfrom)\s*["'](\.{1,2}/[^"']+)["']""", re.MULTILINE)
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".json": "application/json"}


@dataclass(frozen=True, slots=True)
class File:
    """A file of the UI, plain and compressed."""

    data: bytes
    packed: bytes
    media_type: str


@dataclass(frozen=True, slots=True)
class UiFiles:
    """All files by path, the page that loads them, and the digest of all of them."""

    files: dict[str, File]
    index: bytes
    digest: str


@lru_cache(maxsize=1)
def pages() -> UiFiles:
    """Return the UI files, which are read from the package once per process."""
    found = dict(_files(resources.files("tickwork") / "ui", ""))
    whole = hashlib.sha256(b"".join(name.encode() + data for name, data in sorted(found.items())))
    digest = whole.hexdigest()[:16]
    page = found.pop(_INDEX).decode().replace("{static}", f"static/{digest}")
    preloads = "".join(
        f'<link rel="modulepreload" href="static/{digest}/{name}">\n' for name in loaded_first(found)[1:]
    )
    files = {name: File(data, gzip.compress(data, 9, mtime=0), _media_type(name)) for name, data in found.items()}
    return UiFiles(files, page.replace("{preloads}", preloads).encode(), digest)


def loaded_first(files: dict[str, bytes]) -> list[str]:
    """Return the modules that `app.js` imports, directly or indirectly, beginning with `app.js` itself.

    The page preloads them, so that the browser does not discover them one after another.
    """
    seen = [_FIRST]
    for name in seen:
        folder = name.rpartition("/")[0]
        for said in _IMPORT.findall(files[name].decode()):
            path = posixpath.normpath(posixpath.join(folder, said))
            if path not in seen:
                seen.append(path)
    return seen


def _files(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    """Return the paths and contents of all files below a folder."""
    found: list[tuple[str, bytes]] = []
    for one in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if one.is_dir():
            found += _files(one, f"{prefix}{one.name}/")
        elif not one.name.endswith((".pyc", ".d.ts")):
            found.append((prefix + one.name, one.read_bytes()))
    return found


def _media_type(name: str) -> str:
    ending = name[name.rfind(".") :]
    return _TYPES.get(ending) or mimetypes.guess_type(name)[0] or "application/octet-stream"


async def index(request: Request) -> Response:
    """Return the page."""
    headers = {"Cache-Control": "no-cache", "Content-Security-Policy": POLICY}
    return Response(pages().index, media_type="text/html", headers=headers)


async def static(request: Request) -> Response:
    """Return a file. Raises HTTPException (404) for another digest, too, so that a page does not mix versions."""
    ui = pages()
    file = ui.files.get(request.path_params["path"])
    if file is None or request.path_params["digest"] != ui.digest:
        raise HTTPException(404)
    headers = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(file.data, media_type=file.media_type, headers=headers)
    return Response(file.packed, media_type=file.media_type, headers={**headers, "Content-Encoding": "gzip"})


def routes() -> list[Route]:
    """Return the routes of the web UI, which are not in the table of routes."""
    return [Route("/", index), Route("/static/{digest}/{path:path}", static)]
