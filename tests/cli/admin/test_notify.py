"""`tickwork notify`, on both stores."""

from tests.cli.conftest import Cli, Shop


def test_channels_and_notifications_are_made_listed_tried_and_removed(cli: Cli, shop: Shop) -> None:
    assert cli.ok("notify", "list").startswith("No notifications yet")
    assert cli.ok("notify", "channel", "ops", "--slack", "${secret.SLACK_URL}") == "Stored channel ops.\n"
    mail = ("--smtp", "mx.example", "--sender", "a@b.example", "--to", "c@d.example", "--to", "e@f.example")
    assert cli.json("notify", "channel", "mail", *mail)["to"] == ["c@d.example", "e@f.example"]
    made = cli.ok(
        "notify", "add", "night", "--on", "late", "--task", "add", "--after", "1h", "--to", "ops", "--to", "mail"
    )
    assert made == "Added night, sent to ops, mail. Test it: tickwork notify test night\n"
    lines = cli.ok("notify", "list").splitlines()
    assert lines[1].split() == ["night", "late", "task", "add", "1h", "ops,", "mail"]
    assert lines[-1].split() == ["ops", "slack", "${secret.SLACK_URL}"]
    found = cli.json("notify", "list")
    assert (found["items"][0]["after_s"], found["items"][0]["window_s"]) == (3600, 300)
    assert [one["kind"] for one in found["channels"]] == ["smtp", "slack"]
    jobs = cli.json("notify", "test", "night")["jobs"]
    assert [cli.json("jobs", "show", id)["task"] for id in jobs] == ["http", "smtp"]
    assert cli("notify", "remove-channel", "ops").exit_code == 2
    assert cli.ok("notify", "remove", "night") == "Removed night.\n"
    assert cli.json("notify", "remove-channel", "ops") == {"removed": "ops"}


def test_what_is_not_there_and_what_cannot_be(cli: Cli, shop: Shop) -> None:
    for line in ("notify remove x", "notify remove-channel x", "notify test x"):
        result = cli(*line.split())
        assert (result.exit_code, "tickwork notify list" in result.stderr) == (3, True)
    result = cli("notify", "channel", "ops")
    assert (result.exit_code, "one of: --webhook URL" in result.stderr) == (2, True)
    result = cli("notify", "add", "n", "--on", "failed", "--to", "nowhere")
    assert (result.exit_code, "there is no channel 'nowhere'" in result.stderr) == (2, True)
