"""Derive the first seed of a commit: besides fixed seeds, each commit runs different seeds, reproducibly."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

from tickwork import __version__

FIRST = 1_000_000  # above all fixed seeds
_RANGE = 1_000_000_000


def seeds_of_commit(repository: Path) -> int:
    """Return the first seed of the checked-out commit, or of the version if there is no git checkout."""
    digest = hashlib.sha256((_commit(repository) or __version__).encode()).hexdigest()
    return FIRST + int(digest, 16) % _RANGE


def _commit(repository: Path) -> str | None:
    if not (repository / ".git").exists():  # such as an unpacked archive, possibly inside another checkout
        return None
    try:
        found = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=repository, capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip()
