"""Fixtures for tests of commands: a call in this process, and a store with jobs in every state."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tickwork import Fatal, Job, Tickwork
from tickwork.cli.main import main


class Cli:
    """Calls `tickwork` with arguments, in this process."""

    def __call__(self, *arguments: str, input: str | None = None) -> Result:
        return CliRunner().invoke(main, arguments, input=input)

    def ok(self, *arguments: str, input: str | None = None) -> str:
        """Return what a command printed; check that it succeeded."""
        result = self(*arguments, input=input)
        assert result.exit_code == 0, result.output
        return result.stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self.ok(*arguments, "--json"))

    def json_beside_worker(self, *arguments: str) -> Any:
        """The same while a worker of this process runs tasks, whose prints are captured around the document."""
        printed = self.ok(*arguments, "--json")
        return json.JSONDecoder().raw_decode(printed, printed.index("{"))[0]


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing from outside the test: no settings, and a folder of its own."""
    monkeypatch.chdir(tmp_path)
    for name in (
        "TICKWORK_URL",
        "TICKWORK_DRIVER",
        "TICKWORK_BLOBS",
        "TICKWORK_DEBUG",
        "NO_COLOR",
        "COLUMNS",
        "FORCE_COLOR",
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def cli() -> Iterator[Cli]:
    """The command line; what it does to logging is undone."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield Cli()
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def file_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A SQLite file that commands find in their environment. It is not made yet."""
    url = f"sqlite:///{tmp_path}/tickwork.db"
    monkeypatch.setenv("TICKWORK_URL", url)
    return url


class Shop:
    """An app with tasks that end in every way, and jobs of them."""

    def __init__(self, app: Tickwork) -> None:
        self.app = app

        @app.task
        def add(a: int, b: int = 2) -> int:
            print(f"adding {a} and {b}")
            return a + b

        @app.task(queue="mail", retries=1, backoff="1ms")
        def send(to: str) -> None:
            raise Fatal(f"{to} does not exist")

        self.add, self.send = add, send

    def run(self) -> None:
        """Run a worker until no job is due."""
        live = [job for state in ("queued", "running") for job in self.app.jobs(state=state)]
        with self.app.worker(queues=["default", "mail"], concurrency=2):
            for job in live:
                if job.run_at <= self.app.store.now():
                    job.wait(timeout=20)

    def failed(self, *names: str) -> list[Job]:
        """Dead letters, one to each of these."""
        jobs = [self.send.enqueue(name) for name in names]
        self.run()
        return jobs

    def succeeded(self) -> Job:
        job = self.add.enqueue(1)
        self.run()
        return job


@pytest.fixture
def shop(app: Tickwork, store_url: str, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A shop on a store of either kind, which commands find in their environment."""
    monkeypatch.setenv("TICKWORK_URL", store_url)
    app.store.now()
    return Shop(app)
