"""The programs of examples/ run as they stand, on both stores."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
SLOW = ("04_schedules",)  # it waits for the seconds of its rules


def test_the_examples_are_there() -> None:
    assert [program.name[:2] for program in PROGRAMS[:5]] == ["01", "02", "03", "04", "09"]


@pytest.mark.parametrize(
    "program",
    [pytest.param(one, marks=pytest.mark.process if one.stem in SLOW else (), id=one.stem) for one in PROGRAMS],
)
def test_an_example_runs_to_its_end(program: Path, store_url: str, tmp_path: Path) -> None:
    environment = {**os.environ, "TICKWORK_URL": store_url}
    command = [sys.executable, str(program)]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=50, check=False
    )
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["ok"]), done.stdout + done.stderr
    assert "Traceback" not in done.stderr
