"""A namespace sees its own rows, keys and limits, and no others."""

from pathlib import Path

import pytest

from tickwork import Tickwork
from tickwork.config import load_settings
from tickwork.errors import InvalidInput


def test_what_is_in_one_namespace_is_not_in_another(store_url: str) -> None:
    apps = {name: Tickwork(store_url, namespace=name, upgrade=True) for name in ("red", "blue")}
    try:
        jobs = {name: app.named("mail").options(key="once", tenant=name).enqueue() for name, app in apps.items()}
        assert jobs["red"].id != jobs["blue"].id, "a key is free in each of them"
        apps["red"].pause(queue="default", reason="only here")
        apps["red"].schedule("tick", "mail", "0 * * * *")
        assert [job.id for job in apps["blue"].jobs()] == [jobs["blue"].id]
        assert apps["blue"].job(jobs["red"].id) is None
        assert apps["blue"].cancel(jobs["red"].id) == 0
        assert list(apps["blue"].store.limits.list_gates()) == []
        assert apps["blue"].store.schedules.list_schedules(10) == []
        assert len(apps["red"].store.limits.list_gates()) == 1
    finally:
        for app in apps.values():
            app.close()


def test_a_namespace_of_a_file_is_a_file_beside_it(tmp_path: Path) -> None:
    app = Tickwork(f"sqlite:///{tmp_path}/shop.db", namespace="red")
    app.named("mail").enqueue()
    app.close()
    assert (tmp_path / "shop.red.db").exists()
    assert not (tmp_path / "shop.db").exists()


@pytest.mark.parametrize("name", ["", "Red", "a-b", "../x", "1a", "a" * 31, 'a"'])
def test_a_name_that_no_file_or_schema_should_have_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="cannot name a namespace"):
        load_settings({"namespace": name}, environ={})
