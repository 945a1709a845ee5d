"""Where the seeds begin that a commit runs besides the fixed ones: each commit runs others, which can be run again."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

from tickwork import __version__

FIRST = 1_000_000  # beyond the fixed seeds, whatever the commit
_RANGE = 1_000_000_000


def seeds_of_commit(repository: Path) -> int:
    """Return the first seed of the commit that is checked out; of the version, where there is no git checkout."""
    digest = hashlib.sha256((_commit(repository) or __version__).encode()).hexdigest()
    return FIRST + int(digest, 16) % _RANGE


def _commit(repository: Path) -> str | None:
    if not (repository / ".git").exists():  # as in an unpacked archive, which may lie inside of another checkout
        return None
    try:
        found = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=repository, capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip()
