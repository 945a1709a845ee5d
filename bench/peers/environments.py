"""Create a virtual environment for each peer, with the exact versions of its requirements file. They are kept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bench.peers.catalog import REQUIREMENTS, VENVS
from bench.worker import BenchFailed

INSTALL_LIMIT_S = 600.0


def pins(name: str) -> list[str]:
    """Return the pinned requirements of a peer; the first is the peer itself."""
    return (REQUIREMENTS / f"{name}.txt").read_text().split()


def is_installed(name: str) -> bool:
    """Return whether the environment matches the current requirements."""
    stamp = _stamp(name)
    return stamp.exists() and stamp.read_text().split() == pins(name)


def install(name: str) -> None:
    """Create the environment of a peer. Raises BenchFailed with the output of pip."""
    folder = VENVS / name
    _run([sys.executable, "-m", "venv", "--clear", str(folder)])
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"]
    _run([*pip, "install", "--require-hashes", "--no-deps", "--requirement", str(REQUIREMENTS / f"{name}.lock")])
    _stamp(name).write_text("\n".join(pins(name)))


def _stamp(name: str) -> Path:
    """Return the path of the marker file, which is written last, so that an interrupted installation is repeated."""
    return VENVS / name / ".installed"


def _run(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=INSTALL_LIMIT_S)
    except subprocess.CalledProcessError as error:
        raise BenchFailed(f"It could not be installed. {(error.stderr.splitlines() or [''])[-1]}") from None
    except subprocess.TimeoutExpired:
        raise BenchFailed(f"It was not installed within {INSTALL_LIMIT_S:.0f} s.") from None
