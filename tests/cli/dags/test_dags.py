"""`tickwork dags`, on both stores."""

import json

import pytest

from tests.cli.conftest import Cli
from tests.cli.dags.dag_shop import DagShop
from tickwork import Tickwork


@pytest.fixture
def shop(app: Tickwork, store_url: str, monkeypatch: pytest.MonkeyPatch) -> DagShop:
    monkeypatch.setenv("TICKWORK_URL", store_url)
    return DagShop(app)


def change(shop: DagShop) -> None:
    """A second version of etl: another step, one less, and more retries."""
    app = Tickwork(shop.app.url)
    load, check = app.task(name="load", retries=5)(lambda parts: 1), app.task(name="check")(lambda day: True)
    extract = app.task(name="extract")(lambda day: [1])

    @app.dag
    def etl(day: str, factor: int = 20):  # type: ignore[no-untyped-def]
        total = load(extract(day))
        check.options(run_if="always")(day).after(total)
        return total

    assert etl.put() == 2
    app.close()


class TestList:
    def test_an_empty_list_says_how_to_begin(
        self, cli: Cli, app: Tickwork, store_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TICKWORK_URL", store_url)
        app.store.now()
        assert cli.ok("dags", "list").startswith("No dags yet.")
        assert cli.json("dags", "list") == {"items": []}

    def test_each_dag_is_listed_by_its_newest_version(self, cli: Cli, shop: DagShop) -> None:
        change(shop)
        lines = cli.ok("dags", "list").splitlines()
        assert lines[0].split() == ["NAME", "VERSION", "STEPS", "STORED", "DESCRIPTION"]
        assert [line.split()[:3] for line in lines[1:]] == [["asking", "1", "2"], ["etl", "2", "3"]]
        items = {item["name"]: item for item in cli.json("dags", "list")["items"]}
        assert set(items["etl"]) == {"name", "version", "steps", "description", "params", "created_at"}
        assert items["asking"]["params"]["properties"]["path"] == {"type": "string", "default": "a"}


class TestShow:
    def test_a_page_says_what_each_step_runs_and_how(self, cli: Cli, shop: DagShop) -> None:
        page = cli.ok("dags", "show", "etl")
        assert page.startswith("etl  version 1  4 steps\nExtract, transform, load.\n")
        assert "parameters  day: string, factor: integer = 10\n" in page
        lines = [line.split() for line in page.splitlines()]
        assert ["transform", "transform", "extract", "map", "over", "${extract.result}"] in lines
        assert ["load", "load", "transform", "retries", "0"] in lines
        assert ["tell", "tell", "load", "if", "any_failed"] in lines
        assert "by any user: Delete ${params.path}?" in cli.ok("dags", "show", "asking")

    def test_a_graph_is_given_to_who_draws_it(self, cli: Cli, shop: DagShop) -> None:
        assert cli.ok("dags", "show", "etl", "--mermaid").startswith('flowchart TD\n  s0["extract"]\n')
        graph = cli.json("dags", "show", "etl")
        assert [node["name"] for node in graph["nodes"]] == ["extract", "transform", "load", "tell"]
        assert {"from": "extract", "to": "transform", "kind": "data"} in graph["edges"]
        assert cli("dags", "show", "etl", "--mermaid", "--json").exit_code == 2

    def test_an_older_version_is_shown_by_its_number(self, cli: Cli, shop: DagShop) -> None:
        change(shop)
        assert cli.ok("dags", "show", "etl").startswith("etl  version 2  3 steps\n")
        assert cli.ok("dags", "show", "etl", "--version", "1").startswith("etl  version 1 (the newest is 2)  4 steps\n")

    def test_what_is_not_there_is_exit_code_3(self, cli: Cli, shop: DagShop) -> None:
        result = cli("dags", "show", "elt")
        assert (result.exit_code, "did you mean 'etl'?" in result.stderr) == (3, True)
        result = cli("dags", "show", "etl", "--version", "7")
        assert (result.exit_code, "the newest is 1" in result.stderr) == (3, True)


class TestDiff:
    def test_it_names_steps_and_fields_that_differ(self, cli: Cli, shop: DagShop) -> None:
        change(shop)
        lines = [line.split() for line in cli.ok("dags", "diff", "etl").splitlines()]
        assert lines[0] == ["etl:", "version", "1", "->", "2"]
        assert ["+", "check"] in lines
        assert ["-", "transform"] in lines
        assert ["-", "tell"] in lines
        assert ["~", "load", "retries:", "0", "->", "5"] in lines
        assert ["after:", '["transform"]', "->", '["extract"]'] in lines

    def test_json_has_every_change(self, cli: Cli, shop: DagShop) -> None:
        change(shop)
        told = cli.json("dags", "diff", "etl", "2", "1")
        assert (told["from"], told["to"]) == (2, 1)
        assert {"what": "changed", "step": "load", "field": "retries", "old": 5, "new": 0} in told["changes"]
        assert {"what": "added", "step": "tell", "field": None, "old": None, "new": None} in told["changes"]
        of_the_dag = [one for one in told["changes"] if one["step"] is None]
        assert {one["field"] for one in of_the_dag} == {"description", "params"}

    def test_a_version_does_not_differ_from_itself(self, cli: Cli, shop: DagShop) -> None:
        assert "No step changed." in cli.ok("dags", "diff", "etl", "1", "1")
        assert cli("dags", "diff", "etl").exit_code == 2


def test_control_characters_cannot_reach_the_terminal(cli: Cli, shop: DagShop) -> None:
    tell = shop.app.tasks["tell"]
    shop.app.dag(name="bad", description="\x1b[31mred")(lambda: tell("x")).put()
    for printed in (cli.ok("dags", "list"), cli.ok("dags", "show", "bad")):
        assert "\x1b" not in printed
    assert json.loads(cli.ok("dags", "show", "bad", "--json"))["description"] == "\x1b[31mred"
