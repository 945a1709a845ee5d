"""`tickwork hooks`: added, listed, shown and removed."""

from pathlib import Path

from tests.cli.conftest import Cli, Shop


def test_a_hook_is_added_listed_shown_and_removed(cli: Cli, shop: Shop) -> None:
    assert "No hooks yet" in cli.ok("hooks", "list")
    said = ["--style", "github", "--secret", "GITHUB", "--task", "build", "--arg", "commit=${body.after}"]
    assert "/hooks/pushed" in cli.ok("hooks", "add", "pushed", *said, "--arg", "n=3", "--event", "push")
    (one,) = cli.json("hooks", "list")["items"]
    assert (one["name"], one["task"], one["args"]) == ("pushed", "build", {"commit": "${body.after}", "n": 3})
    assert cli.json("hooks", "show", "pushed")["deliveries"] == []
    assert "commit: ${body.after}" in cli.ok("hooks", "show", "pushed")
    assert cli.ok("hooks", "remove", "pushed") == "Removed pushed.\n"
    assert cli("hooks", "remove", "pushed").exit_code == 3
    assert cli("hooks", "show", "pushed").exit_code == 3


def test_what_a_hook_cannot_be_is_refused_with_the_field(cli: Cli, shop: Shop) -> None:
    result = cli("hooks", "add", "h", "--style", "github", "--secret", "GITHUB", "--task", "t", "--arg", "a=${bdy.x}")
    assert (result.exit_code, "${bdy.x} names no value" in result.stderr) == (2, True)
    assert cli("hooks", "add", "h", "--style", "github", "--secret", "it is this", "--task", "t").exit_code == 2
    assert cli("hooks", "add", "a/b", "--style", "github", "--secret", "S", "--task", "t").exit_code == 2
    assert cli.json("hooks", "list") == {"items": []}


def test_the_parameters_of_its_dag_are_checked_and_what_is_unknown_is_a_warning(cli: Cli, shop: Shop) -> None:
    Path("dag.yaml").write_text("dags: {ship: {params: {order: string}, steps: {a: {task: t}}}}")
    cli.ok("apply", "dag.yaml")
    add = ["hooks", "add", "h", "--style", "github", "--secret", "S"]
    result = cli(*add, "--dag", "ship", "--arg", "ordr=${body.id}")
    assert (result.exit_code, "there is no parameter 'ordr' (did you mean 'order'?)" in result.stderr) == (2, True)
    assert cli.json("hooks", "list") == {"items": []}
    assert cli(*add, "--dag", "ship", "--arg", "order=${body.id}").stderr == ""
    assert "warning: No dag 'shp' is stored yet. Did you mean 'ship'?" in cli(*add, "--dag", "shp").stderr
    assert "warning: " in cli(*add, "--task", "nobody_has_it").stderr
