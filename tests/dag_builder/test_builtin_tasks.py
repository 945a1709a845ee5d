"""Built-in tasks in dags of Python: a parameter of the run is data there, too."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tickwork import InvalidDag, Tickwork
from tickwork.worker.tasks.builtin import add_builtin
from tickwork.worker.tasks.shell import add_shell

SECRET = {"auth.bearer": "${secret.T}"}


@pytest.fixture
def app(tmp_path: Path) -> Tickwork:
    app = Tickwork(f"sqlite:///{tmp_path}/tickwork.db")
    add_builtin(app)
    add_shell(app)
    return app


@pytest.mark.parametrize(
    ("task", "arguments"),
    [
        ("http", lambda p: {"url": f"http://host{p}", "secrets": SECRET}),
        ("http", lambda p: {"url": p, "auth": {"basic": "ada:pass"}}),
        ("shell", lambda p: {"command": "ls", "cwd": p}),
        ("shell", lambda p: {"command": f"ls {p}"}),
        (
            "smtp",
            lambda p: {"host": p, "sender": "a@b.c", "to": [], "subject": "", "text": "", "secrets": {"password": "x"}},
        ),
    ],
)
def test_a_parameter_cannot_lead_a_command_or_a_secret_astray(app: Tickwork, task: str, arguments: Any) -> None:
    @app.dag
    def led(p: str) -> None:
        app.tasks[task](**arguments(p))

    with pytest.raises(InvalidDag, match=r"a value may not say|begins with its host"):
        _ = led.graph


def test_the_worker_is_told_the_origin_that_a_dag_writes(app: Tickwork) -> None:
    @app.dag
    def asks(p: str) -> None:
        app.tasks["http"](url=f"https://host/{p}", secrets=SECRET)

    (step,) = asks.graph.steps
    assert msgspec.json.decode(step.args.json)["origin"] == "https://host"
