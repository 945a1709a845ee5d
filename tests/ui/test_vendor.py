"""What others wrote is what their published versions make, and nothing else."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent.parent / "scripts" / "vendor.py"


def test_what_others_wrote_is_made_again_byte_for_byte() -> None:
    if shutil.which("npm") is None:
        said = "there is no npm: it was not compared what the web UI takes from others."
        pytest.fail(said) if os.environ.get("CI") == "true" else pytest.skip(said)
    done = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
