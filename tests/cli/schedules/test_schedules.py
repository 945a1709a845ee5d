"""`tickwork schedules` and what other commands say of schedules, on both stores."""

import json

import pytest

from tests.cli.conftest import Cli, Shop
from tests.waiting import eventually
from tickwork import after, cron, every


@pytest.fixture
def report(shop: Shop) -> Shop:
    """A shop with a schedule."""
    shop.app.schedule("report", shop.add, every("1h"), kwargs={"a": 1}, description="adds up", overlap="queue")
    return shop


class TestLooking:
    def test_an_empty_list_says_how_to_begin(self, cli: Cli, shop: Shop) -> None:
        assert cli.ok("schedules", "list").startswith("No schedules yet.")
        assert cli.json("schedules", "list") == {"items": []}

    def test_a_list_has_names_states_and_the_next_occurrence(self, cli: Cli, report: Shop) -> None:
        lines = cli.ok("schedules", "list").splitlines()
        assert lines[0].split() == ["NAME", "STATE", "NEXT", "TARGET", "WHEN"]
        assert lines[1].split()[:3] == ["report", "active", "in"]
        (item,) = cli.json("schedules", "list")["items"]
        assert (item["name"], item["target"], item["state"], item["args"]) == ("report", "add", "active", {"a": 1})
        assert item["rule"]["explained"].startswith("Every 1h")
        assert item["policies"]["catchup"] == "latest"

    def test_show_has_it_all(self, cli: Cli, report: Shop) -> None:
        report.app.schedules["report"].pause("until Monday", by="ada")
        page = cli.ok("schedules", "show", "report")
        for part in ("report  paused", "adds up", "by ada: until Monday", '{"a": 1}', "latest", "queue", "0, 0 live"):
            assert part in page
        shown = cli.json("schedules", "show", "report")
        assert (shown["paused_by"], len(shown["next"]), shown["fires"]) == ("ada", 5, [])

    def test_show_says_what_became_of_occurrences(self, cli: Cli, shop: Shop) -> None:
        with shop.app.worker():
            schedule = shop.app.schedule("beat", shop.add, every("50ms"), kwargs={"a": 1}, overlap="allow")
            eventually(lambda: len(schedule.fires()) >= 2)
            schedule.pause()
        assert "start" in cli.ok("schedules", "show", "beat")
        fires = cli.json("schedules", "show", "beat")["fires"]
        assert {fire["action"] for fire in fires} == {"start"}
        job = cli.json("jobs", "show", fires[-1]["job_id"])
        assert job["occurrence"]["schedule"] == "beat"
        assert "beat, for " in cli.ok("jobs", "show", fires[-1]["job_id"])

    def test_next_marks_days_on_which_clocks_change(self, cli: Cli, shop: Shop) -> None:
        shop.app.schedule("spring", shop.add, cron("30 2 28 3 *", tz="Europe/Berlin"), kwargs={"a": 1})
        text = cli.ok("schedules", "next", "spring", "-n", "10")
        assert "02:00 -> 03:00, 1h forward" in text
        assert len(cli.json("schedules", "next", "spring", "-n", "10")["items"]) == 10

    def test_next_of_nothing(self, cli: Cli, shop: Shop) -> None:
        shop.app.schedule("once", shop.add, every("R1/2026-01-01T00:00:00Z/PT1H"), kwargs={"a": 1})
        assert cli.ok("schedules", "next", "once") == "No more occurrences of once.\n"

    @pytest.mark.parametrize("verb", ["show", "next", "run", "pause", "resume", "delete"])
    def test_one_that_is_not_there_is_exit_code_3(self, cli: Cli, shop: Shop, verb: str) -> None:
        result = cli("schedules", verb, "nobody's")
        assert result.exit_code == 3
        assert 'there is no schedule "nobody\'s"' in result.stderr


class TestActing:
    def test_pause_and_resume(self, cli: Cli, report: Shop) -> None:
        assert cli.ok("schedules", "pause", "report", "--reason", "quiet") == "Paused report.\n"
        assert report.app.schedules["report"].view.paused_why == "quiet"
        assert cli("schedules", "pause", "report").exit_code == 1
        cli.ok("schedules", "resume", "report")
        cli.ok("schedules", "pause", "report", "--until", "2h")
        assert ", until " in cli.ok("schedules", "show", "report")
        assert cli.json("schedules", "show", "report")["paused_until"] is not None
        for wrong in ("soon", "2020-01-01T00:00Z"):
            assert cli("schedules", "pause", "report", "--until", wrong).exit_code == 2
        assert cli.json("schedules", "resume", "report") == {"resumed": ["report"], "unchanged": []}
        assert report.app.schedules["report"].state == "active"

    def test_nothing_is_done_when_one_is_missing(self, cli: Cli, report: Shop) -> None:
        assert cli("schedules", "delete", "report", "nobody's").exit_code == 3
        assert "report" in report.app.schedules

    def test_delete(self, cli: Cli, report: Shop) -> None:
        assert cli.ok("schedules", "delete", "report") == "Deleted report.\n"
        assert len(report.app.schedules) == 0

    def test_run_prints_the_job(self, cli: Cli, report: Shop) -> None:
        job = report.app.job(cli.ok("schedules", "run", "report").strip())
        assert job is not None
        report.run()
        assert job.result() == 3

    def test_backfill_waits_for_its_jobs_and_repeats_none(self, cli: Cli, report: Shop) -> None:
        span = ("2026-11-01", "2026-11-01T03:00")
        assert len(cli.ok("schedules", "backfill", "report", *span, "--dry-run").splitlines()) == 4
        assert report.app.jobs() == []
        with report.app.worker(concurrency=4):
            told = cli.ok("schedules", "backfill", "report", *span, "--max-parallel", "2")
            assert told.endswith("4 occurrences: 4 succeeded.\n")
            again = cli.json("schedules", "backfill", "report", *span)
            assert (again["occurrences"], again["states"]) == (4, {"succeeded": 4})
            assert [(one["state"], one["is_new"]) for one in again["items"]] == [("succeeded", False)] * 4
            assert len(report.app.jobs()) == 4
            forced = cli.ok("schedules", "backfill", "report", *span, "--force")
            assert forced.endswith("4 occurrences: 4 succeeded.\n")
        assert len(report.app.jobs()) == 8

    def test_a_backfill_whose_jobs_fail_is_exit_code_1(self, cli: Cli, shop: Shop) -> None:
        shop.app.schedule("mail", shop.send, every("1h"), kwargs={"to": "ada"}, paused=True)
        with shop.app.worker(queues=["mail"]):
            eventually(lambda: shop.app.store.reads.task_definition("send"))
            result = cli("schedules", "backfill", "mail", "2026-11-01", "2026-11-01")
        assert (result.exit_code, result.stdout) == (1, "1 occurrence: 1 failed.\n")

    def test_a_backfill_with_wait_for_previous_names_the_occurrence_at_which_it_stopped(
        self, cli: Cli, shop: Shop
    ) -> None:
        rule = every("1h")
        shop.app.schedule("mail", shop.send, rule, kwargs={"to": "ada"}, paused=True, wait_for_previous=True)
        span = ("2026-11-01", "2026-11-01T02:00")
        with shop.app.worker(queues=["mail"]):
            eventually(lambda: shop.app.store.reads.task_definition("send"))
            result = cli("schedules", "backfill", "mail", *span)
            (job,) = shop.app.jobs()
            assert (result.exit_code, result.stdout) == (1, "3 occurrences: 1 failed, 2 not started.\n")
            stopped = f"error: the occurrence 2026-11-01 00:00:00 UTC did not succeed (job {job.id}, failed)"
            assert stopped in result.stderr
            assert result.stderr.endswith(f"tickwork dead discard {job.id}\n")
            cli.ok("dead", "discard", job.id)
            told = cli("schedules", "backfill", "mail", *span, "--json")
        assert [one["state"] for one in json.loads(told.stdout)["items"]] == ["failed", "failed", None]
        assert len(shop.app.jobs()) == 2
        assert cli("schedules", "backfill", "mail", *span, "--max-parallel", "2").exit_code == 2

    def test_what_cannot_be_backfilled_is_wrong_usage(self, cli: Cli, shop: Shop) -> None:
        shop.app.schedule("delay", shop.add, after("1h"), kwargs={"a": 1}, paused=True)
        assert cli("schedules", "backfill", "delay", "2026-11-01", "2026-11-02").exit_code == 2
        assert "is not an instant" in cli("schedules", "backfill", "delay", "soon", "2026-11-02").stderr


def test_one_that_code_declares_no_more_is_shown_and_warned_of(cli: Cli, shop: Shop) -> None:
    shop.app.store.schedules.declare_schedules([shop.app.schedule("old", shop.add, every("1h"), kwargs={"a": 1}).spec])
    with shop.app.worker():
        eventually(shop.app.schedules.undeclared)
        result = cli("schedules", "list")
        assert "undeclared" in result.stdout
        assert "tickwork schedules delete old" in result.stderr
        assert any("tickwork schedules delete old" in one for one in cli.json("doctor")["warnings"])
