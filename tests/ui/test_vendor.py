"""Vendored files are built from the published versions of their packages, and nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

UNFETCHED = 2
SCRIPT = Path(__file__).parent.parent.parent / "scripts" / "vendor.py"


def test_what_others_wrote_is_made_again_byte_for_byte() -> None:
    done = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True, timeout=100, check=False)
    if done.returncode == UNFETCHED:
        pytest.skip(f"it was not compared what the web UI takes from others: {done.stdout}")
    assert done.returncode == 0, done.stdout + done.stderr
