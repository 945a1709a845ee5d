"""`tickwork dead`, on both stores."""

import re

import pytest

from tests.cli.conftest import Cli, Shop
from tickwork.cli.jobs import dead


def test_dead_letters_are_grouped_by_task_and_error_the_most_frequent_first(cli: Cli, shop: Shop) -> None:
    jobs = shop.failed("bob", "ada", "ada")
    lines = cli.ok("dead", "list").splitlines()
    assert lines[0].split() == ["COUNT", "NEWEST", "TASK", "ERROR"]
    assert re.fullmatch(r" +2  .*  send  Fatal: ada does not exist", lines[1])
    assert re.fullmatch(r" +1  .*  send  Fatal: bob does not exist", lines[2])
    assert lines[4].startswith("3 dead letters. See one: tickwork jobs show ")
    found = cli.json("dead", "list")
    assert [(one["task"], one["error"], one["count"]) for one in found["items"]] == [
        ("send", "tickwork.errors.Fatal: ada does not exist", 2),
        ("send", "tickwork.errors.Fatal: bob does not exist", 1),
    ]
    assert (found["total"], found["complete"]) == (3, True)
    assert found["items"][1]["newest_id"] == jobs[0].id


def test_no_dead_letters(cli: Cli, shop: Shop) -> None:
    shop.succeeded()
    assert cli.ok("dead", "list") == "No dead letters.\n"


def test_only_a_limited_number_of_dead_letters_are_read_and_that_is_said(
    cli: Cli, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.failed("a", "b", "c")
    monkeypatch.setattr(dead, "READ_LIMIT", 2)
    assert "2 dead letters (the newest 2; there are more)." in cli.ok("dead", "list")


def test_redrive_queues_all_or_what_matches_or_what_is_named(cli: Cli, shop: Shop) -> None:
    jobs = shop.failed("a", "b", "c")
    assert cli.ok("dead", "redrive", jobs[0].id) == "Queued 1 dead letter again.\n"
    assert cli.ok("dead", "redrive", "--task", "add") == "Queued 0 dead letters again.\n"
    assert cli("dead", "redrive", "--rate", "10/m").exit_code == 2, "all of them must be asked for"
    dry = cli.ok("dead", "redrive", "--all", "--dry-run")
    assert dry == "2 dead letters would be queued again. This was a dry run: none was queued.\n"
    assert cli.ok("dead", "redrive", "--all", "--rate", "10/m") == "Queued 2 dead letters again, at 10/m.\n"
    times = sorted(shop.app.job(job.id).run_at for job in jobs[1:])  # type: ignore[union-attr]
    assert (times[1] - times[0]).total_seconds() == pytest.approx(6, abs=0.5)


def test_dead_letters_are_chosen_by_error_and_by_time(cli: Cli, shop: Shop) -> None:
    shop.failed("ada", "ada", "bob")
    for options, count in (
        (["--error", "ada does not"], 2),
        (["--error", "nobody"], 0),
        (["--since", "1h"], 3),
        (["--until", "1h"], 0),
        (["--error", "bob", "--since", "1h", "--task", "send"], 1),
        (["--since", "2020-01-01T00:00:00Z", "--until", "2020-01-02T00:00:00Z"], 0),
    ):
        assert cli.json("dead", "redrive", *options, "--dry-run") == {"dry_run": True, "dead": count}, options
        assert cli.json("dead", "list", *options)["total"] == count, options
    assert cli.json("dead", "discard", "--error", "bob") == {"discarded": 1}
    assert cli.json("dead", "redrive", "--error", "ada") == {"redriven": 2}
    assert cli("dead", "redrive", "--since", "2020-01-01T00:00").exit_code == 2


def test_discard_needs_to_be_told_what_and_all_is_all(cli: Cli, shop: Shop) -> None:
    jobs = shop.failed("a", "b", "c")
    assert cli("dead", "discard").exit_code == 2
    assert cli.json("dead", "discard", jobs[0].id) == {"discarded": 1}
    assert cli.ok("dead", "discard", "--all") == "Discarded 2 dead letters.\n"
    assert cli.ok("dead", "list") == "No dead letters.\n"
    assert cli.json("jobs", "show", jobs[0].id)["discarded"] is True


@pytest.mark.parametrize("verb", ["redrive", "discard"])
def test_a_named_job_that_is_no_dead_letter_is_told_with_exit_code_1(cli: Cli, shop: Shop, verb: str) -> None:
    (dead_one,) = shop.failed("a")
    result = cli("dead", verb, dead_one.id, shop.succeeded().id)
    assert result.exit_code == 1
    assert "1 dead letter" in result.stdout
    assert result.stderr == "error: 1 job of those named: not a dead letter.\n"
