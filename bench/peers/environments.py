"""An environment for each peer, with exactly the versions that its requirements name. Made once and kept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bench.peers.catalog import REQUIREMENTS, VENVS
from bench.worker import BenchFailed

INSTALL_LIMIT_S = 600.0


def pins(name: str) -> list[str]:
    """What is installed for a peer; the first is the peer itself."""
    return (REQUIREMENTS / f"{name}.txt").read_text().split()


def is_installed(name: str) -> bool:
    """Whether what stands there is all of what the requirements say now."""
    stamp = _stamp(name)
    return stamp.exists() and stamp.read_text().split() == pins(name)


def install(name: str) -> None:
    """Make the environment of a peer, from nothing. Raises BenchFailed with what pip said."""
    folder = VENVS / name
    _run([sys.executable, "-m", "venv", "--clear", str(folder)])
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"]
    _run([*pip, "install", "--require-hashes", "--no-deps", "--requirement", str(REQUIREMENTS / f"{name}.lock")])
    _stamp(name).write_text("\n".join(pins(name)))


def _stamp(name: str) -> Path:
    """Written last: an installation that was interrupted is done again."""
    return VENVS / name / ".installed"


def _run(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=INSTALL_LIMIT_S)
    except subprocess.CalledProcessError as error:
        raise BenchFailed(f"It could not be installed. {(error.stderr.splitlines() or [''])[-1]}") from None
    except subprocess.TimeoutExpired:
        raise BenchFailed(f"It was not installed within {INSTALL_LIMIT_S:.0f} s.") from None
