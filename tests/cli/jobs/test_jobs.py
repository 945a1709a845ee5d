"""`tickwork jobs`, on both stores."""

import json
import re
import threading
from pathlib import Path
from random import Random

import pytest

from tests.cli.conftest import Cli, Shop
from tests.waiting import eventually
from tickwork import Tickwork
from tickwork.core.ids import WorkerId
from tickwork.core.outcome import Cancelled, decide
from tickwork.store.attempt_types import Finish, NewLog
from tickwork.store.base import LEASE, WorkerRegistration

RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


def test_a_list_says_what_matters_of_each_job_and_cuts_nothing_off_in_a_pipe(cli: Cli, shop: Shop) -> None:
    shop.failed("nobody@example.org")
    waiting = shop.add.options(delay="1h", key="report").enqueue(1)
    lines = cli.ok("jobs", "list").splitlines()
    assert lines[0].split() == ["ID", "STATE", "TASK", "QUEUE", "TRIES", "WHEN", "NOTE"]
    assert re.fullmatch(rf"{waiting.id}  queued  add   default      0  in 59m\d+s?  key report", lines[1])
    assert re.search(r"  failed  send  mail         1  (now|[\d.]+s ago) +Fatal: nobody@example.org does not", lines[2])


def test_filters_choose_jobs_and_a_cursor_goes_on(cli: Cli, shop: Shop) -> None:
    jobs = [shop.add.options(collection="night", labels=["red"]).enqueue(n) for n in range(3)]
    shop.send.options(key="k").enqueue("x")
    assert len(cli.json("jobs", "list", "--task", "add")["items"]) == 3
    assert len(cli.json("jobs", "list", "--queue", "mail")["items"]) == 1
    assert len(cli.json("jobs", "list", "--key", "k", "--state", "queued")["items"]) == 1
    assert len(cli.json("jobs", "list", "--collection", "night", "--label", "red")["items"]) == 3
    assert cli.ok("jobs", "list", "--label", "blue") == "No matching jobs.\n"
    first = cli.json("jobs", "list", "--task", "add", "--limit", "2")
    rest = cli.json("jobs", "list", "--task", "add", "--limit", "2", "--cursor", first["next_cursor"])
    assert [one["id"] for one in first["items"] + rest["items"]] == [job.id for job in reversed(jobs)]
    assert rest["next_cursor"] is None


def test_a_job_as_json_has_stable_keys_and_times_in_utc(cli: Cli, shop: Shop) -> None:
    job = shop.succeeded()
    shown = cli.json("jobs", "show", job.id)
    assert set(shown) == {
        *("id", "task", "queue", "priority", "state", "args", "policy", "key", "collection", "labels", "parent"),
        *(
            "trace",
            "creator",
            "created_at",
            "run_at",
            "expires_at",
            "attempt",
            "failures",
            "crashes",
            "alone",
            "worker",
            "losses",
        ),
        *("started_at", "ended_at", "cancel_requested", "progress", "progress_note", "result", "error", "discarded"),
        *("occurrence", "job_limits", "version", "run", "step", "idx", "why", "attempts"),
    }
    assert (shown["args"], shown["result"], shown["state"]) == ({"a": 1}, 3, "succeeded")
    assert RFC_3339.fullmatch(shown["created_at"])
    assert RFC_3339.fullmatch(shown["attempts"][0]["ended_at"])
    assert shown["policy"]["backoff_s"] == 1.0
    listed = cli.json("jobs", "list")["items"][0]
    assert {**listed, "why": shown["why"], "attempts": shown["attempts"]} == shown


def test_a_page_about_a_job_shows_its_arguments_attempts_and_error(cli: Cli, shop: Shop) -> None:
    (job,) = shop.failed("nobody@example.org")
    page = cli.ok("jobs", "show", job.id)
    assert page.startswith(f"send  failed  {job.id}\nIt ended as failed at ")
    assert 'arguments   {"to": "nobody@example.org"}\n' in page
    assert "queue       mail, priority 5\n" in page
    assert "TRY  STATE   STARTED" in page
    assert 'raise Fatal(f"{to} does not exist")' in page


def test_an_id_may_be_given_in_capitals(cli: Cli, shop: Shop) -> None:
    job = shop.add.enqueue(1)
    assert cli.json("jobs", "show", job.id.upper())["id"] == job.id


def test_why_is_one_sentence(cli: Cli, shop: Shop) -> None:
    job = shop.add.enqueue(1)
    assert cli.ok("jobs", "why", job.id).startswith("it can run now, but no worker is running; start one: tickwork")
    assert set(cli.json("jobs", "why", job.id)) == {"id", "state", "why"}


def test_logs_are_printed_as_they_were_written(cli: Cli, shop: Shop) -> None:
    job = shop.succeeded()
    assert cli.ok("jobs", "logs", job.id) == "adding 1 and 2\n"
    assert cli.ok("jobs", "logs", "-f", job.id) == "adding 1 and 2\n"
    assert cli.ok("jobs", "logs", "--attempt", "2", job.id) == ""
    line = json.loads(cli.ok("jobs", "logs", "--json", job.id))
    assert (line["attempt"], line["text"]) == (1, "adding 1 and 2\n")


def test_logs_follow_a_job_until_it_has_ended(cli: Cli, shop: Shop) -> None:
    store, job = shop.app.store, shop.add.enqueue(1)
    me = WorkerRegistration(
        id=WorkerId("w"), host="h", pid=1, version="0", queues=("default",), tasks=("add",), slots=1
    )
    store.register_worker(me, [], LEASE)
    claim = store.claim_jobs(me.id, ["default"], ["add"], 1).jobs[0].claim
    printed: list[str] = []
    follower = threading.Thread(target=lambda: printed.append(cli.ok("jobs", "logs", "-f", job.id)))
    store.append_logs([NewLog(job.id, claim, 0, "one\n")])
    follower.start()
    store.append_logs([NewLog(job.id, claim, 1, "two\n")])
    job.cancel()
    eventually(lambda: store.cancel_requests(me.id))
    assert follower.is_alive()
    end = decide(job.view, Cancelled(), Random(1))
    store.finish_attempts([Finish(job.id, 1, claim, end)], [NewLog(job.id, claim, 2, "three\n")])
    follower.join(timeout=10)
    assert printed == ["one\ntwo\nthree\n"]


def test_cancel_takes_ids_or_filters(cli: Cli, shop: Shop) -> None:
    first, *others = [shop.add.enqueue(n) for n in range(4)]
    assert cli.ok("jobs", "cancel", first.id) == "Cancelled 1 job.\n"
    assert cli.ok("jobs", "cancel", "--task", "add", "--state", "queued") == "Cancelled 3 jobs.\n"
    assert {job.state for job in others} == {"cancelled"}
    assert cli.json("jobs", "cancel", "--queue", "default") == {"cancelled": 0}


def test_what_could_not_be_cancelled_is_told_with_exit_code_1(cli: Cli, shop: Shop) -> None:
    done, live = shop.succeeded(), shop.add.enqueue(2)
    result = cli("jobs", "cancel", done.id, live.id)
    assert (result.exit_code, result.stdout) == (1, "Cancelled 1 job.\n")
    assert f"error: job {done.id} was not cancelled: it ended as succeeded" in result.stderr
    result = cli("jobs", "cancel", done.id, "--json")
    assert json.loads(result.stdout) == {"cancelled": [], "unchanged": [{"id": done.id, "state": "succeeded"}]}


def test_nothing_is_done_when_one_of_the_ids_is_unknown(cli: Cli, shop: Shop) -> None:
    job = shop.add.enqueue(1)
    assert cli("jobs", "cancel", job.id, "019a8f3e-1c2d-7abc-8def-0123456789ab").exit_code == 3
    assert job.state == "queued"


def test_retry_queues_a_failed_job_again(cli: Cli, shop: Shop) -> None:
    (job,) = shop.failed("x")
    assert cli.ok("jobs", "retry", job.id) == "Retried 1 job.\n"
    assert cli.json("jobs", "show", job.id)["state"] == "queued"
    assert cli("jobs", "retry", shop.succeeded().id).exit_code == 1


def test_a_large_result_is_named_on_the_page_and_whole_in_json(
    cli: Cli, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TICKWORK_BLOBS", str(tmp_path / "blobs"))
    app = Tickwork(shop.app.url)

    @app.task
    def make() -> str:
        return "x" * 2_000_000

    with app.worker():
        job = make.enqueue()
        job.wait(timeout=20)
        assert cli.ok("enqueue", "make", "--wait") == json.dumps("x" * 2_000_000) + "\n"
    assert re.search(
        rf"^result +2,000,002 bytes in blob \w+\.{job.id}\.1 \(all with --json\)$", cli.ok("jobs", "show", job.id), re.M
    )
    assert cli.json("jobs", "show", job.id)["result"] == "x" * 2_000_000
    (item, _) = cli.json("jobs", "list")["items"]
    assert item["result"]["$blob"]["size"] == 2_000_002
    app.close()


@pytest.mark.parametrize("shown", ["list", "show"])
def test_control_characters_from_jobs_cannot_reach_the_terminal(cli: Cli, shop: Shop, shown: str) -> None:
    (job,) = shop.failed("\x1b[31mred\u202e")
    printed = cli.ok("jobs", "list") if shown == "list" else cli.ok("jobs", "show", job.id)
    assert "\x1b" not in printed
    assert "\u202e" not in printed
    assert "Fatal: \\x1b[31mred\\u202e does not exist" in printed


def test_a_command_names_who_ran_it_and_jobs_are_listed_by_that(cli: Cli, shop: Shop) -> None:
    shop.add.enqueue(1)
    id = cli.ok("enqueue", "report").strip()
    creator = cli.json("jobs", "show", id)["creator"]
    assert creator.startswith("cli:")
    assert f"created by  {creator}" in cli.ok("jobs", "show", id)
    assert [one["id"] for one in cli.json("jobs", "list", "--creator", creator)["items"]] == [id]
    assert cli.ok("jobs", "list", "--creator", "user:ada") == "No matching jobs.\n"
