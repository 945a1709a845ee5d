"""`tickwork limits`, `gates`, `queues` and `tenants`, on both stores."""

from typing import Any

import pytest

from tests.cli.conftest import Cli, Shop
from tests.waiting import eventually
from tickwork import concurrency, rate


@pytest.fixture
def limited(shop: Shop) -> Shop:
    """A shop with limits, of which a worker has told the store."""
    shop.app.queue("mail", limits=[concurrency(5)])

    @shop.app.task(limits=[rate("10/s", name="stripe", key="account")])
    def charge(account: str) -> None: ...

    with shop.app.worker():
        eventually(shop.app.limits)
    return shop


class TestLimits:
    def test_an_empty_list_says_how_to_begin(self, cli: Cli, shop: Shop) -> None:
        assert cli.ok("limits", "list").startswith("No limits yet.")
        assert cli.json("limits", "list") == {"items": []}

    def test_a_list_says_what_they_are_and_what_code_says(self, cli: Cli, limited: Shop) -> None:
        limited.app.set_limit("stripe", rate("100/15m"))
        lines = cli.ok("limits", "list").splitlines()
        assert lines[0].split() == ["LIMIT", "IS", "KEY", "LIVE", "HELD", "DECLARED"]
        assert lines[1].split() == ["queue:mail#1", "5", "at", "once", "0", "0"]
        assert lines[2].split() == ["stripe", "100/15m", "account", "0", "0", "10/s,", "burst", "1"]
        mail, stripe = cli.json("limits", "list")["items"]
        assert (mail["rule"]["kind"], mail["rule"]["capacity"], mail["override"]) == ("concurrency", 5, None)
        assert (stripe["rule"]["count"], stripe["rule"]["period_s"], stripe["declared"]["burst"]) == (100, 900.0, 1)

    def test_set_and_reset(self, cli: Cli, limited: Shop) -> None:
        said = cli.ok("limits", "set", "stripe", "--rate", "5/s", "--burst", "2")
        assert said == "The limit stripe is now: 5/s, burst 2.\n"
        assert cli.ok("limits", "set", "stripe", "--concurrency", "3") == "The limit stripe is now: 3 at once.\n"
        assert cli.json("limits", "set", "stripe", "--reset")["override"] is None

    def test_a_limit_that_is_not_declared_can_be_set_and_says_so(self, cli: Cli, shop: Shop) -> None:
        result = cli("limits", "set", "stripe", "--concurrency", "3")
        assert (result.exit_code, result.stdout) == (0, "The limit stripe is now: 3 at once.\n")
        assert "No worker has declared it so far" in result.stderr
        assert cli.ok("limits", "set", "stripe", "--reset") == "The limit stripe is now: gone.\n"
        result = cli("limits", "set", "stripe", "--reset")
        assert (result.exit_code, "there is no limit 'stripe' to reset" in result.stderr) == (1, True)

    @pytest.mark.parametrize(
        "options",
        [
            (),
            ("--rate", "5/s", "--concurrency", "3"),
            ("--concurrency", "3", "--burst", "1"),
            ("--reset", "--rate", "1/s"),
        ],
    )
    def test_one_thing_at_a_time(self, cli: Cli, shop: Shop, options: tuple[str, ...]) -> None:
        result = cli("limits", "set", "stripe", *options)
        assert result.exit_code == 2
        assert "give one of: --concurrency N, --rate 10/s [--burst N], --reset" in result.stderr


class TestGates:
    def test_an_empty_list_says_how_to_begin(self, cli: Cli, shop: Shop) -> None:
        assert cli.ok("gates", "list").startswith("No gates.")
        assert cli.json("gates", "list") == {"items": []}

    def test_pause_list_and_resume(self, cli: Cli, shop: Shop) -> None:
        assert cli.ok("gates", "pause", "--task", "send", "--reason", "is down") == (
            "In force: pause task=send. Remove it: tickwork gates resume --task send\n"
        )
        job = shop.send.enqueue("x")
        with shop.app.worker():
            eventually(lambda: shop.app.gates()[0].held == 1)
        lines = cli.ok("gates", "list").splitlines()
        assert lines[0].split() == ["GATE", "SINCE", "UNTIL", "HELD", "PASSED", "ON", "BY", "REASON"]
        assert "pause task=send" in lines[1]
        assert lines[1].endswith("  is down")
        (item,) = cli.json("gates", "list")["items"]
        assert (item["kind"], item["task"], item["until"], item["held"]) == ("pause", "send", None, 1)
        assert "the gate 'pause task=send'" in cli.ok("jobs", "why", job.id)
        (queue,) = cli.json("queues")["items"]
        assert (queue["name"], queue["due"], queue["held"]) == ("mail", 0, 1)
        assert cli.ok("gates", "resume", "--task", "send") == "Removed 1 gate.\n"
        result = cli("gates", "resume", "--task", "send", "--json")
        assert (result.exit_code, result.stdout) == (1, '{\n  "lifted": 0\n}\n')
        assert "no gate has exactly these selectors" in result.stderr

    def test_each_kind_says_what_it_does(self, cli: Cli, shop: Shop) -> None:
        slow = cli.ok("gates", "slow", "--tenant", "acme", "--rate", "5/s", "--until", "2h")
        assert slow.startswith("In force until ")
        assert ": slow tenant=acme to 5/s. Remove it:" in slow
        assert ": divert label=bulk to spare." in cli.ok("gates", "divert", "--label", "bulk", "--to", "spare")
        until = ("--until", "2099-01-01T12:00+01:00")
        drop = cli.json("gates", "drop", "--collection", "campaign-7", "--queue", "mail", *until)
        assert (drop["kind"], drop["queue"], drop["until"]) == ("drop", "mail", "2099-01-01T11:00:00.000000Z")
        listed = [item["name"] for item in cli.json("gates", "list")["items"]]
        assert sorted(listed) == ["divert label=bulk", "drop queue=mail collection=campaign-7", "slow tenant=acme"]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("pause",), "a gate says what it is for: task=, queue="),
            (("pause", "--task", "a", "--until", "2026-99-01"), "'2026-99-01' is not an instant"),
            (("pause", "--task", "a", "--until", "soon"), "until"),
            (("pause", "--task", "a", "--until", "2099-01-01T12:00"), "zone"),
            (("slow", "--task", "a", "--rate", "often"), "'often' is not a rate"),
            (("slow", "--task", "a"), "missing option '--rate'"),
            (("divert", "--task", "a", "--to", "b:1"), "has a colon"),
            (("resume",), "resume says what it is for"),
        ],
    )
    def test_refusals_are_exit_code_2(self, cli: Cli, shop: Shop, arguments: tuple[str, ...], message: str) -> None:
        result = cli("gates", *arguments)
        assert result.exit_code == 2
        assert message in result.stderr
        assert shop.app.gates() == []


class TestQueues:
    def test_the_bare_command_lists(self, cli: Cli, shop: Shop) -> None:
        shop.add.enqueue(1)
        assert cli.ok("queues").split()[:15] == cli.ok("queues", "list").split()[:15]
        assert cli.json("queues")["items"][0]["name"] == cli.json("queues", "list")["items"][0]["name"] == "default"

    def test_pause_and_resume(self, cli: Cli, shop: Shop) -> None:
        assert "pause queue=mail" in cli.ok("queues", "pause", "mail", "--until", "2h", "--reason", "down")
        assert shop.app.gates()[0].gate.reason == "down"
        assert cli.json("queues", "resume", "mail") == {"lifted": 1}
        assert cli("queues", "resume", "mail").exit_code == 1

    def test_the_limit_of_a_queue_is_changed(self, cli: Cli, limited: Shop) -> None:
        assert cli.ok("queues", "limit", "mail", "--concurrency", "2") == "The limit queue:mail#1 is now: 2 at once.\n"
        assert cli.ok("queues", "limit", "mail", "--reset") == "The limit queue:mail#1 is now: 5 at once.\n"

    def test_a_queue_without_a_limit_says_how_to_get_one(self, cli: Cli, shop: Shop) -> None:
        result = cli("queues", "limit", "default", "--concurrency", "2")
        assert result.exit_code == 2
        assert "app.queue('default', limits=[concurrency(5)])" in result.stderr


def test_a_job_shows_its_limits_tenant_and_needs(cli: Cli, shop: Shop) -> None:
    @shop.app.task(limits=[concurrency(5, key="account", weight="size")], needs={"gpu": True})
    def charge(account: str, size: int) -> None: ...

    job = charge.options(tenant="acme").enqueue("a", 3)
    page = cli.ok("jobs", "show", job.id)
    for part in ("tenant      acme", "needs       gpu", "limits      task:charge#1 for a, weight 3"):
        assert part in page
    job_limits = cli.json("jobs", "show", job.id)["job_limits"]
    assert job_limits["uses"] == [{"limit": "task:charge#1", "key": "a", "weight": 3}]
    assert (job_limits["tenant"], job_limits["needs"]) == ("acme", "gpu")


class TestTenants:
    def test_set_and_list(self, cli: Cli, shop: Shop) -> None:
        assert cli.ok("tenants", "list").startswith("All tenants have weight 1.")
        assert cli.ok("tenants", "set", "acme", "3") == "acme has weight 3.\n"
        assert cli.ok("tenants", "list").split() == ["WEIGHT", "TENANT", "3", "acme"]
        assert cli.json("tenants", "list") == {"items": [{"name": "acme", "weight": 3}]}

    @pytest.mark.parametrize("weight", ["0", "101", "much"])
    def test_other_weights_are_refused(self, cli: Cli, shop: Shop, weight: Any) -> None:
        assert cli("tenants", "set", "acme", weight).exit_code == 2
