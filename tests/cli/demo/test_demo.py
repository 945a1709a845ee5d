"""`tickwork demo`: it runs, shows, and leaves nothing behind."""

import io
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from rich.console import Console

from tests.cli.programs import gone, program
from tests.waiting import eventually
from tickwork.cli.demo.demo_snapshot import DemoSnapshot, NotableJob
from tickwork.cli.demo.screen import fair_share, line, screen
from tickwork.core.job import QueueView, WorkerView

NOW = datetime(2026, 11, 15, tzinfo=UTC)
ADDRESS = "http://127.0.0.1:54321/#token=0123456789abcdef"


def _picture() -> DemoSnapshot:
    worker = WorkerView("w", "host", 7, "0.1.0", ("default",), (), 10, "running", NOW, NOW + timedelta(minutes=1), 3)
    kinds = [[NotableJob(state, "a_task", "now", f"{state} {n} " + "why " * 40) for n in range(3)] for state in "abcd"]
    queues = [QueueView(name, 12, 3456, 2, 0, NOW) for name in ("default", "images", "mail")]
    ended = Counter(succeeded=123_456, failed=78, cancelled=9)
    return DemoSnapshot(NOW, [0.0, 5.0, 60.0] * 20, dict(ended), 6, 78, queues, [worker], kinds)


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40)])
def test_a_screen_fits_its_terminal(width: int, height: int) -> None:
    out = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None)
    commands = [f"export TICKWORK_URL=sqlite:////tmp/{'x' * 80}", "tickwork jobs list"]
    with out.capture() as captured:
        out.print(screen(_picture(), out, 61.0, ADDRESS, commands))
    lines = captured.get().splitlines()
    assert len(lines) < height
    assert max(map(len, lines)) <= width
    assert lines[0].startswith("Tickwork demo   61 s   123,543 jobs ended   ")
    assert f"Web UI  {ADDRESS}" in lines


def test_when_there_is_little_room_each_kind_of_job_gets_its_share() -> None:
    chosen = fair_share(_picture().jobs, 6)
    assert [seen.state for seen in chosen] == ["a", "a", "b", "b", "c", "d"]
    assert len(fair_share(_picture().jobs, 99)) == 12


def test_in_a_pipe_a_second_is_a_line() -> None:
    assert line(_picture(), 61.0) == (
        "  61 s   60.0 jobs/s  succeeded 123456  failed 78  cancelled 9  running 6  due 36  later 10368  retrying 6"
    )


@pytest.mark.process
def test_it_runs_real_jobs_and_ctrl_c_leaves_no_process_and_no_file(tmp_path: Path) -> None:
    with program(tmp_path, "demo", TMPDIR=str(tmp_path)) as demo:
        demo.says("The store is ")
        (folder,) = tmp_path.glob("tickwork-demo-*")
        eventually(lambda: re.search(r"succeeded [1-9]", demo.said), 30, "a job that succeeded")
        tree = demo.tree()
        assert len(tree) >= 5  # us, the supervisor, two children, the server
        assert demo.end(signal.SIGINT, within_s=10) == 0
        gone(tree)
    assert not folder.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["program-0.log"]


def _read(url: str, token: str = "") -> bytes:
    with urlopen(Request(url, headers={"Authorization": f"Bearer {token}"} if token else {}), timeout=10) as answer:
        return bytes(answer.read())


@pytest.mark.process
def test_its_web_ui_answers_and_tells_of_its_jobs_its_dag_and_its_schedules(tmp_path: Path) -> None:
    with program(tmp_path, "demo", TMPDIR=str(tmp_path)) as demo:
        demo.says("The web UI is ")
        url, token = re.findall(r"The web UI is (http://127\.0\.0\.1:\d+)/#token=(\S+)", demo.said)[0]
        assert b"<title>Tickwork</title>" in _read(url)
        with pytest.raises(HTTPError, match="401"):
            _read(f"{url}/api/v1/jobs")

        def has(path: str, field: str, value: str) -> bool:
            return value in [one[field] for one in json.loads(_read(f"{url}/api/v1{path}", token))["items"]]

        eventually(lambda: has("/jobs?state=succeeded", "task", "place_order"), 20, "a job that succeeded")
        eventually(lambda: has("/runs", "dag", "close_books"), 20, "a run of the dag")
        eventually(lambda: has("/schedules", "name", "close-books"), 20, "the dag's schedule")
        tree = demo.tree()
        assert demo.end(within_s=10) == 0
        gone(tree)


@pytest.mark.process
def test_it_ends_by_itself_when_asked_to(tmp_path: Path) -> None:
    with program(tmp_path, "demo", "--seconds", "2", TMPDIR=str(tmp_path)) as demo:
        assert demo.process.wait(20) == 0
    assert demo.said.splitlines()[-1].endswith(" is removed.")


@pytest.mark.process
def test_settings_of_the_user_do_not_matter_to_it(tmp_path: Path) -> None:
    (tmp_path / "tickwork.toml").write_text('url = "sqlite:////no/folder/x.db"\ndriver = "sqlite3"')
    with program(tmp_path, "demo", TMPDIR=str(tmp_path), TICKWORK_URL="nonsense", TICKWORK_DRIVER="nonsense") as demo:
        demo.says(" s  ", times=2)
        assert demo.end() == 0


@pytest.mark.process
def test_a_reader_that_leaves_ends_it_cleanly(tmp_path: Path) -> None:
    line = f"{sys.executable} -m tickwork demo | head -n 2"
    result = subprocess.run(
        ["bash", "-c", line],
        check=True,
        capture_output=True,
        text=True,
        timeout=30,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert result.stderr == ""
    assert list(tmp_path.iterdir()) == []
