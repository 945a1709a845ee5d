"""The server of `tickwork demo`: on localhost, at a free port, with a token of its own."""

from __future__ import annotations

import os
import re
import secrets
import sys
import webbrowser
from contextlib import suppress
from pathlib import Path

from tickwork.cli.processes.child_process import ChildProcess
from tickwork.cli.processes.server import TOKEN

_SAYS = re.compile(r"^server +(http://\S+)$", re.MULTILINE)
_DRAIN_S, _INSIST_S = 1.0, 1.0


class DemoServer:
    """A server process and the address of its web UI, which is opened once in a graphical browser if there is one."""

    def __init__(self, log: Path, *, opens: bool) -> None:
        os.environ[TOKEN] = secrets.token_urlsafe(12)
        self._log = log
        self._opens = opens and _has_browser()
        self._address: str | None = None
        with log.open("wb") as output:
            self._part = ChildProcess(["server", "--dev", "--port", "0"], output=output)

    def look(self) -> str | None:
        """Return the address with the token; None while the server starts."""
        if self._address is None and (said := _SAYS.search(self._log.read_text(errors="replace"))):
            self._address = said[1]
            if self._opens:
                with suppress(webbrowser.Error):
                    webbrowser.open(self._address)
        return self._address

    def ended(self) -> int | None:
        """Return the exit code of the server; None while it runs."""
        return self._part.ended()

    def stop(self) -> None:
        self._part.stop(drain_s=_DRAIN_S, insist_s=_INSIST_S)


def _has_browser() -> bool:
    """Return whether there is a desktop. Without one, Python would start a text browser in our terminal."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
