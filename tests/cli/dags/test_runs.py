"""`tickwork run` and `tickwork runs`, on both stores."""

import json
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import Result

from tests.cli.conftest import Cli
from tests.cli.dags.dag_shop import WAIT_S, DagShop
from tests.waiting import eventually
from tickwork import Tickwork, every
from tickwork.cli.dags.run_page import choose
from tickwork.core.dag.overview import StepLine


@pytest.fixture
def shop(app: Tickwork, store_url: str, monkeypatch: pytest.MonkeyPatch) -> DagShop:
    monkeypatch.setenv("TICKWORK_URL", store_url)
    return DagShop(app)


class TestRun:
    def test_it_prints_the_id_of_a_run_of_a_stored_dag(self, cli: Cli, shop: DagShop) -> None:
        run = shop.app.run(cli.ok("run", "etl", "day=20261115", "factor=2").strip())
        assert run is not None
        assert json.loads(run.view.args) == {"day": "20261115", "factor": 2}
        assert run.version == 1

    def test_waiting_prints_the_result_and_fails_with_the_run(self, cli: Cli, shop: DagShop) -> None:
        with shop.working():
            result = cli("run", "etl", "--json", '{"day": "x"}', "--wait")
            assert result.exit_code == 1
            assert "1 step failed" in result.stderr
            shop.is_down = False
            assert cli.ok("run", "etl", "day=x", "--wait").endswith("\n60\n")

    def test_watching_ends_with_the_run(self, cli: Cli, shop: DagShop) -> None:
        with shop.working():
            result = cli("run", "etl", "day=x", "--watch")
        assert result.exit_code == 1
        assert "load failed" in result.stdout
        assert result.stdout.splitlines()[-1].startswith("etl failed in ")

    def test_what_cannot_be_started_is_told(self, cli: Cli, shop: DagShop) -> None:
        for arguments, code, said in (
            (("elt",), 3, "did you mean 'etl'?"),
            (("transform",), 3, "there is no dag 'transform'"),
            (("etl",), 2, "needs 'day'"),
            (("etl", "day=x", "factor=many"), 2, "is of type integer"),
            (("etl", "day=x", "--wait", "--watch"), 2, "give one of them"),
            (("etl", "day=x", "--timeout", "1s"), 2, "requires --wait"),
        ):
            result = cli("run", *arguments)
            assert (result.exit_code, said in result.stderr) == (code, True), result.stderr
        assert shop.app.runs() == []

    def test_a_dag_is_run_as_code_declares_it(self, cli: Cli, shop: DagShop, tmp_path: Path) -> None:
        code = "from tickwork import Tickwork\napp = Tickwork()\n@app.task\ndef tell(text): ...\n"
        (tmp_path / "declared_here.py").write_text(f"{code}@app.dag\ndef hello(name: str = 'x'):\n    tell(name)\n")
        id = cli.ok("run", "hello", "-A", "declared_here.py").strip()
        assert [(run.id, run.dag) for run in shop.app.runs("hello")] == [(id, "hello")]
        result = cli("run", "etl", "-A", "declared_here.py")
        assert (result.exit_code, "it declares hello" in result.stderr) == (3, True)

    def test_enqueue_starts_dags_as_well(self, cli: Cli, shop: DagShop) -> None:
        shop.is_down = False
        with shop.working():
            assert cli.ok("enqueue", "etl", "day=x", "factor=1", "--wait").endswith("\n6\n")


class TestLooking:
    def test_a_list_has_runs_only_and_can_be_chosen_from(self, cli: Cli, shop: DagShop) -> None:
        assert cli.ok("runs", "list").startswith("No runs yet.")
        failed, waiting = shop.ended(), shop.asking.enqueue()
        lines = cli.ok("runs", "list").splitlines()
        assert lines[0].split() == ["ID", "STATE", "DAG", "VERSION", "WHEN", "SCHEDULED", "FOR", "TOOK", "NOTE"]
        assert [line.split()[:3] for line in lines[1:]] == [
            [waiting.id, "queued", "asking"],
            [failed.id, "failed", "etl"],
        ]
        assert lines[2].endswith("load: RuntimeError: warehouse is down")
        assert [one["id"] for one in cli.json("runs", "list", "--dag", "etl")["items"]] == [failed.id]
        assert [one["id"] for one in cli.json("runs", "list", "--state", "queued")["items"]] == [waiting.id]
        first = cli.json("runs", "list", "--limit", "1")
        assert [one["id"] for one in cli.json("runs", "list", "--cursor", first["next_cursor"])["items"]] == [failed.id]
        assert cli.ok("runs", "list", "--dag", "nobody's") == "No matching runs.\n"

    def test_a_list_shows_the_occurrence_of_each_run(self, cli: Cli, shop: DagShop) -> None:
        schedule = shop.app.schedule("hourly", shop.asking, every("1h"), paused=True)
        schedule.backfilling([datetime(2026, 11, 16, 12, tzinfo=UTC)], 1).enqueue()
        assert "2026-11-16 12:00:00" in cli.ok("runs", "list").splitlines()[1]
        (item,) = cli.json("runs", "list")["items"]
        assert item["occurrence"]["scheduled_for"].startswith("2026-11-16T12:00:00")

    def test_a_page_shows_how_each_step_stands(self, cli: Cli, shop: DagShop) -> None:
        run = shop.ended()
        page = cli.ok("runs", "show", run.id)
        assert page.startswith(f"etl  failed  {run.id}\n")
        assert 'parameters  {"factor": 10, "day": "2026-11-15"}\n' in page
        lines = [line.split() for line in page.splitlines()]
        assert any(line[:3] == ["transform", "succeeded", "3/3"] for line in lines)
        assert any(
            line[:2] == ["load", "failed"] and line[-4:] == ["RuntimeError:", "warehouse", "is", "down"]
            for line in lines
        )
        steps = {step["name"]: step for step in cli.json("runs", "show", run.id)["steps"]}
        assert (steps["transform"]["total"], steps["transform"]["ended"], steps["transform"]["bad"]) == (3, 3, 0)
        assert steps["load"]["state"] == "failed"

    def test_a_run_that_has_not_begun_waits_with_all_its_steps(self, cli: Cli, shop: DagShop) -> None:
        run = shop.etl.enqueue(day="x")
        assert {step["state"] for step in cli.json("runs", "show", run.id)["steps"]} == {"waiting"}
        assert "no worker is running" in cli.ok("runs", "show", run.id)
        assert cli.ok("runs", "show", run.id, "--timeline") == "No step has started yet.\n"

    def test_drawings_know_states_and_times(self, cli: Cli, shop: DagShop) -> None:
        run = shop.ended()
        assert "class s2 failed" in cli.ok("runs", "show", run.id, "--mermaid")
        told = cli.json("runs", "show", run.id, "--timeline")
        assert told["bars"][0]["step"] == "extract"
        assert [link["step"] for link in told["critical_path"]] == ["extract", "transform", "load", "tell"]
        bars = cli.ok("runs", "show", run.id, "--timeline").splitlines()
        assert [line.split()[0] for line in bars[:4]] == ["extract", "transform", "load", "tell"]
        assert bars[-2].startswith("critical  ")
        assert cli("runs", "show", run.id, "--mermaid", "--json").exit_code == 2

    def test_why_is_one_sentence_of_a_run_or_a_step(self, cli: Cli, shop: DagShop) -> None:
        run = shop.ended()
        assert cli.ok("runs", "why", run.id).startswith("it ended as failed")
        assert "RuntimeError: warehouse is down" in cli.ok("runs", "why", run.id, "load")
        assert cli.json("runs", "why", run.id, "transform[1]")["state"] == "succeeded"
        assert cli("runs", "why", run.id, "nothing").exit_code == 3

    def test_logs_are_of_all_steps_or_of_one(self, cli: Cli, shop: DagShop) -> None:
        run = shop.ended()
        assert cli.ok("runs", "logs", run.id).startswith("--- extract ---\nextracting 2026-11-15\n--- transform[")
        assert cli.ok("runs", "logs", run.id, "transform[2]") == "part 3\n"
        pieces = [json.loads(line) for line in cli.ok("runs", "logs", run.id, "transform", "--json").splitlines()]
        assert {one["step"] for one in pieces} == {"transform"}
        for n in range(3):
            assert "".join(one["text"] for one in pieces if one["idx"] == n) == f"part {n + 1}\n"

    def test_what_is_no_run_is_not_found(self, cli: Cli, shop: DagShop) -> None:
        step = shop.ended().steps["load"].job
        assert step is not None
        result = cli("runs", "show", step.id)
        assert (result.exit_code, "is step 'load' of run" in result.stderr) == (3, True)
        assert cli("runs", "show", "019a8f3e-1c2d-7abc-8def-0123456789ab").exit_code == 3

    def test_jobs_say_which_step_they_are(self, cli: Cli, shop: DagShop) -> None:
        run = shop.ended()
        lines = cli.ok("jobs", "list", "--task", "load").splitlines()
        assert lines[1].endswith("etl · load: RuntimeError: warehouse is down")
        assert f"step        load of run {run.id}\n" in cli.ok("jobs", "show", lines[1].split()[0])
        assert f"tickwork runs show {run.id}\n" in cli.ok("jobs", "show", run.id)


class TestWatching:
    def test_changes_are_told_until_the_end(self, cli: Cli, shop: DagShop) -> None:
        run, ends = shop.asks(), []
        watcher = threading.Thread(target=lambda: ends.append(cli("runs", "watch", run.id)))
        watcher.start()
        with shop.working():
            run.approve("approve", by="ada")
            watcher.join(WAIT_S)
        (result,) = ends
        assert isinstance(result, Result)
        told = result.stdout.splitlines()
        assert [line.split()[1:3] for line in told[:-1]][-1] == ["tell", "succeeded"]
        assert told[-1].startswith("asking succeeded in ")
        assert result.exit_code == 0

    def test_what_matters_is_shown_when_there_is_no_room_for_all(self) -> None:
        lines = [a_line(f"s{n}", "succeeded") for n in range(50)]
        lines += [a_line("broken", "failed"), a_line("busy", "running"), a_line("later", "waiting")]
        chosen, rest = choose(lines, 3)
        assert [line.name for line in chosen][1:] == ["broken", "busy"]
        assert rest == "... and 49 succeeded, 1 waiting"
        assert choose(lines, 100) == (lines, "")


def a_line(name: str, state: str) -> StepLine:
    return StepLine(name, "t", state, False, False, 1, 0, 0, None, None, None)


class TestActing:
    def test_rerun_begins_with_what_failed(self, cli: Cli, shop: DagShop) -> None:
        run = shop.ended()
        shop.is_down = False
        assert cli.ok("runs", "rerun", run.id).startswith(f"Run {run.id} runs again. Follow it:")
        assert cli("runs", "rerun", run.id).exit_code == 2
        with shop.working():
            assert run.result(timeout=WAIT_S) == 60
        assert run.steps["tell"].state == "skipped"
        result = cli("runs", "rerun", run.id)
        assert (result.exit_code, "nothing of run" in result.stderr) == (2, True)

    def test_rerun_takes_steps_and_parameters(self, cli: Cli, shop: DagShop) -> None:
        shop.is_down = False
        run = shop.ended()
        cli.ok("runs", "rerun", run.id, "--with", "factor=1")
        with shop.working():
            assert run.result(timeout=WAIT_S) == 6
            assert cli.json_beside_worker("runs", "clear", run.id, "transform[0]")["from"] == ["transform[0]"]
            assert run.result(timeout=WAIT_S) == 6
            cli.ok("runs", "rerun", run.id, "--from", "load", "--with", "factor=5")
            assert run.result(timeout=WAIT_S) == 6
        assert cli("runs", "rerun", run.id, "--with", "factor=x").exit_code == 2
        assert cli("runs", "rerun", run.id, "--from", "nothing").exit_code == 2
        assert cli("runs", "rerun", run.id, "--from", "load", "--only-failed").exit_code == 2

    def test_only_what_failed_is_run_with_other_parameters_when_that_is_said(self, cli: Cli, shop: DagShop) -> None:
        run = shop.ended()
        shop.is_down = False
        cli.ok("runs", "rerun", run.id, "--with", "factor=1", "--only-failed")
        with shop.working():
            assert run.result(timeout=WAIT_S) == 60

    def test_approvals_are_answered_in_ones_own_name(self, cli: Cli, shop: DagShop) -> None:
        first, second = shop.asks(), shop.asks()
        assert "waits for approval by any user: Delete a?" in cli.ok("runs", "show", first.id)
        assert cli.ok("runs", "approve", first.id, "approve", "--note", "fine").startswith("Approved approve of run")
        assert cli("runs", "approve", first.id, "approve").exit_code == 2
        assert cli.json("runs", "reject", second.id, "approve")["answer"] == "rejected"
        with shop.working():
            assert first.result(timeout=WAIT_S) == "deleted a"
            assert second.wait(timeout=WAIT_S) == "failed"

    def test_cancel_ends_what_waits(self, cli: Cli, shop: DagShop) -> None:
        run = shop.asks()
        assert cli.ok("runs", "cancel", run.id) == "Cancelled 1 run.\n"
        eventually(lambda: run.state == "cancelled")
        result = cli("runs", "cancel", run.id)
        assert (result.exit_code, f"error: run {run.id} was not cancelled" in result.stderr) == (1, True)


FILE = """\
dags:
  nightly:
    params: {n: {type: integer, default: 5}}
    schedule: {cron: "0 2 * * *", paused: true}
    steps:
      count: {task: tell, args: {text: "n is ${params.n}"}}
    result: ${count.result}
"""


class TestDeclaredInFiles:
    def test_apply_stores_versions_and_says_what_changed(self, cli: Cli, shop: DagShop) -> None:
        dry = json.loads(cli.ok("apply", "-", "--dry-run", "--json", input=FILE))
        assert dry["items"][0] == {
            "kind": "dag",
            "name": "nightly",
            "change": "new",
            "version": 1,
            "was": None,
            "fields": [],
        }
        assert shop.app.dag_versions("nightly") == []
        assert "nightly  new, version 1\n" in cli.ok("apply", "-", input=FILE)
        assert "Nothing changed." in cli.ok("apply", "-", input=FILE)
        changed = cli.ok("apply", "-", input=FILE.replace("n is", "it is"))
        assert "nightly  version 2 (was 1)\n" in changed
        assert [view.version for view in shop.app.dag_versions("nightly")] == [2, 1]
        assert shop.app.schedules["nightly"].spec.target == "nightly"

    def test_a_backfill_runs_a_dag_for_each_occurrence_with_its_defaults(self, cli: Cli, shop: DagShop) -> None:
        cli.ok("apply", "-", input=FILE)
        with shop.working():
            span = ("2026-11-01", "2026-11-04")
            told = cli.json_beside_worker("schedules", "backfill", "nightly", *span, "--max-parallel", "2")
            assert (told["occurrences"], told["states"]) == (3, {"succeeded": 3})
        assert {run.result() for run in shop.app.runs("nightly")} == {"n is 5"}

    def test_a_backfill_that_is_repeated_runs_what_failed_again(self, cli: Cli, shop: DagShop) -> None:
        shop.app.schedule("nightly", shop.etl, "0 2 * * *", kwargs={"day": "x"}, paused=True)
        with shop.working():
            span = ("2026-11-01", "2026-11-02T12:00")
            assert cli("schedules", "backfill", "nightly", *span).exit_code == 1
            shop.is_down = False
            assert cli.json_beside_worker("schedules", "backfill", "nightly", *span)["states"] == {"succeeded": 2}
        runs = shop.app.runs("etl")
        assert [run.attempt for run in runs] == [2, 2]
        assert all(run.steps["extract"].job.attempt == 1 for run in runs)  # type: ignore[union-attr]
