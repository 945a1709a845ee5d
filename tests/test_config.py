"""Settings: one table, and values that cannot work are refused where they are read."""

import os
from datetime import timedelta
from pathlib import Path

import pytest

from tickwork.config import SETTINGS, effective_settings, find_settings, load_settings, sqlite_path
from tickwork.errors import InvalidInput
from tickwork.store.base import LEASE


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_by_default_a_lease_is_renewed_three_times() -> None:
    times = load_settings({}, {}).lease_times()
    assert (times.lease, times.heartbeat) == (LEASE, LEASE / 3)


def test_what_a_command_says_goes_before_the_setting() -> None:
    times = load_settings({}, {"TICKWORK_LEASE": "1m", "TICKWORK_HEARTBEAT": "5s"}).lease_times("20s")
    assert (times.lease, times.heartbeat) == (timedelta(seconds=20), timedelta(seconds=5))


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("LEASE", "1s", "a lease of 1s is too short.*at least 2s"),
        ("LEASE", "soon", "lease"),
        ("HEARTBEAT", "15s", "a heartbeat of 15s cannot keep a lease of 30s.*less than 15s"),
        ("HEARTBEAT", "0s", "heartbeat"),
        ("REAP_INTERVAL", "1ms", "a reap_interval of 1ms is too short.*100ms"),
        ("RETENTION", "task:x", "retention"),
    ],
)
def test_values_that_cannot_work_are_refused(name: str, value: str, error: str) -> None:
    with pytest.raises(InvalidInput, match=error):
        load_settings({}, {f"TICKWORK_{name}": value})


def test_a_url_of_no_file_is_refused_without_its_password() -> None:
    with pytest.raises(InvalidInput, match=r"sqlite://ada:\*\*\*@h/x' names no file"):
        sqlite_path("sqlite://ada:s3cret@h/x")


def test_each_setting_is_told_with_its_source(tmp_path: Path) -> None:
    (tmp_path / "tickwork.toml").write_text('lease = "1m"\nretention = "1d"\n')
    settings, sources = find_settings({"driver": "sqlite3"}, {"TICKWORK_URL": "postgresql://a:secret@b/c"})
    told = {one.name: (value, source) for one, value, source in effective_settings(settings, sources)}
    assert set(told) == {one.name for one in SETTINGS}
    assert told["lease"] == ("1m", str(tmp_path / "tickwork.toml"))
    assert told["url"] == ("postgresql://a:***@b/c", "TICKWORK_URL")
    assert told["driver"] == ("sqlite3", "argument")
    assert told["heartbeat"] == (None, "default")


@pytest.mark.parametrize("file", ["tickwork.toml", "pyproject.toml"])
def test_settings_of_a_folder_or_file_of_another_user_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    below = tmp_path / "below"
    below.mkdir()
    (tmp_path / file).write_text('[tool.tickwork]\nlease = "1m"\n' if file == "pyproject.toml" else 'lease = "1m"\n')
    monkeypatch.chdir(below)
    assert load_settings({}, {}).lease == "1m"
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    if os.getuid() != 0:  # else root's own files are believed, as everywhere
        with pytest.raises(InvalidInput, match=f"the settings in .*{file} are not read.*belongs to"):
            load_settings({}, {})
        return
    assert load_settings({}, {}).lease == "1m", "what root wrote is believed"
    for owned in (tmp_path, tmp_path / file):
        os.chown(owned, 4242, -1)
        with pytest.raises(InvalidInput, match=f"the settings in .*{file} are not read.*belongs to user 4242"):
            load_settings({}, {})
        os.chown(owned, 0, -1)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make links of others")
def test_settings_behind_a_link_of_another_user_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "mine.toml").write_text('lease = "1m"\n')
    link = tmp_path / "tickwork.toml"
    link.symlink_to("elsewhere/mine.toml")
    monkeypatch.chdir(tmp_path)
    assert load_settings({}, {}).lease == "1m"
    os.chown(link, 4242, -1, follow_symlinks=False)
    with pytest.raises(InvalidInput, match=r"tickwork\.toml are not read.*belongs to user 4242"):
        load_settings({}, {})


def test_a_project_of_another_user_that_says_nothing_of_us_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\n')
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    if os.getuid() == 0:
        os.chown(tmp_path / "pyproject.toml", 4242, -1)
    assert load_settings({}, {}).lease == "30s"
