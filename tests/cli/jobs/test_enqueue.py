"""`tickwork enqueue`, on both stores."""

import json
from datetime import timedelta

import pytest

from tests.cli.conftest import Cli, Shop
from tickwork.cli.jobs import enqueue as module


def _args(cli: Cli, *arguments: str, input: str | None = None) -> object:
    id = cli.ok("enqueue", "report", *arguments, input=input).strip()
    return cli.json("jobs", "show", id)["args"]


def test_values_are_json_where_they_can_be_read_as_json_and_text_elsewhere(cli: Cli, shop: Shop) -> None:
    line = ["n=3", "yes=true", "to=ada@example.org", 'quoted="3"', "list=[1, 2]", "empty=", "nan=NaN", "eq=a=b"]
    assert _args(cli, *line) == {
        "n": 3,
        "yes": True,
        "to": "ada@example.org",
        "quoted": "3",
        "list": [1, 2],
        "empty": "",
        "nan": "NaN",
        "eq": "a=b",
    }


def test_arguments_can_come_as_json_from_the_line_or_from_stdin(cli: Cli, shop: Shop) -> None:
    assert _args(cli, "--json", '{"a": {"b": null}}', "c=1") == {"a": {"b": None}, "c": 1}
    assert _args(cli, "--json", "-", input='{"a": "é"}') == {"a": "é"}


def test_a_task_that_a_worker_told_of_takes_arguments_by_position_and_its_own_queue(cli: Cli, shop: Shop) -> None:
    shop.succeeded()
    id = cli.ok("enqueue", "add", "--json", "[1, 2]").strip()
    assert cli.json("jobs", "show", id)["args"] == {"a": 1, "b": 2}
    id = cli.ok("enqueue", "send", "to=x").strip()
    assert cli.json("jobs", "show", id)["queue"] == "mail"


def test_options_say_when_where_and_how_urgent(cli: Cli, shop: Shop) -> None:
    id = cli.ok("enqueue", "report", "--in", "1h30m", "--queue", "q", "--priority", "high", "--key", "k").strip()
    view = shop.app.job(id).view  # type: ignore[union-attr]
    assert view.run_at - view.created_at == pytest.approx(timedelta(minutes=90), abs=timedelta(seconds=5))
    assert (view.queue, view.priority, view.key) == ("q", 2, "k")
    assert cli.ok("enqueue", "report", "--key", "k").strip() == id  # one live job for each key
    id = cli.ok("enqueue", "report", "--at", "2090-01-01T06:00:00+02:00", "--priority", "0").strip()
    shown = cli.json("jobs", "show", id)
    assert (shown["run_at"], shown["priority"]) == ("2090-01-01T04:00:00.000000Z", 0)


def test_waiting_prints_the_result_and_exits_with_0(cli: Cli, shop: Shop) -> None:
    @shop.app.task
    def times(a: int, b: int) -> int:
        return a * b

    with shop.app.worker():
        result = cli("enqueue", "times", "a=2", "b=3", "--wait")
    assert (result.exit_code, result.stdout) == (0, "6\n")
    assert "job " in result.stderr


def test_waiting_for_a_job_that_fails_exits_with_1_and_says_why(cli: Cli, shop: Shop) -> None:
    with shop.app.worker(queues="mail"):
        shop.send.enqueue("first")  # so that the worker has told of the task
        result = cli("enqueue", "send", "to=nobody", "--queue", "mail", "--wait")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "error: job " in result.stderr
    assert "nobody does not exist" in result.stderr


def test_waiting_ends_at_the_timeout_and_the_job_goes_on(cli: Cli, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    # The patience is no option.
    monkeypatch.setattr(module, "_PATIENCE_S", 0.05)
    result = cli("enqueue", "add", "a=1", "--wait", "--timeout", "100ms")
    assert result.exit_code == 1
    assert "waiting: it can run now, but no worker is running" in result.stderr
    assert "had not ended after" in result.stderr
    assert cli.json("jobs", "list")["items"][0]["state"] == "queued"


@pytest.mark.parametrize(
    "given", [["--json", '{"to": "ada", "to": "eve"}'], ["to=ada", 'more={"a": [{"k": 1, "\\u006b": 2}]}']]
)
def test_an_object_with_a_key_twice_is_refused(cli: Cli, shop: Shop, given: list[str]) -> None:
    result = cli("enqueue", "mail", *given)
    assert (result.exit_code, "twice in one object. Nothing was stored." in result.stderr) == (2, True)
    assert cli.json("jobs", "list")["items"] == []


def test_a_result_is_printed_as_json(cli: Cli, shop: Shop) -> None:
    @shop.app.task
    def many() -> dict[str, list[int]]:
        return {"é": [1]}

    with shop.app.worker():
        assert json.loads(cli.ok("enqueue", "many", "--wait")) == {"é": [1]}


def test_a_key_that_is_held_is_told_of(cli: Cli, shop: Shop) -> None:
    first = cli("enqueue", "report", "--key", "k", "--in", "1h")
    again = cli("enqueue", "report", "--key", "k")
    assert (again.exit_code, again.stdout) == (0, first.stdout)
    assert "No other job was stored" in again.stderr
    refused = cli("enqueue", "report", "--key", "k", "--if-exists", "error")
    other = cli("enqueue", "send", "--key", "k")
    for answer in (refused, other):
        assert (answer.exit_code, answer.stdout) == (1, "")
        assert f"job {first.stdout.strip()} of 'report' (queued)" in answer.stderr
    replaced = cli("enqueue", "report", "n=2", "--key", "k", "--if-exists", "replace")
    assert cli.json("jobs", "show", replaced.stdout.strip())["args"] == {"n": 2}


def test_arguments_are_checked_and_an_unknown_task_is_told_of(cli: Cli, shop: Shop) -> None:
    shop.succeeded()
    refused = cli("enqueue", "add", "a=1", "b=two")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "argument 'b' of task 'add' is of type integer, not 'two'" in refused.stderr
    unknown = cli("enqueue", "sendd")
    assert unknown.exit_code == 0
    assert "No worker has reported a task 'sendd' yet. Did you mean 'send'?" in unknown.stderr
