"""Blobs in a folder: whole or not at all, also when a process dies while it writes one."""

import os
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tickwork import blobs as module
from tickwork.blobs import AN_OBJECT, Blobs, LargeResults, LocalBlobs, NamedBlobs, open_blobs
from tickwork.config import Settings
from tickwork.core.arguments.payload import RESULT_LIMIT
from tickwork.core.blob_ref import BlobRef, reference_in
from tickwork.errors import BlobError, InvalidArguments, InvalidInput, InvalidPayload

JOB = "019a8f3e-1c2d-7abc-8def-0123456789ab"
LARGE = b'"' + b"x" * RESULT_LIMIT + b'"'
LATER = datetime.now(UTC) + timedelta(hours=1)


def key_of(data: bytes, attempt: int = 1) -> str:
    return BlobRef.of(data, JOB, attempt).key


@pytest.fixture
def blobs(tmp_path: Path) -> LocalBlobs:
    return LocalBlobs(tmp_path / "some" / "folder")


def files(blobs: LocalBlobs) -> list[Path]:
    return [path for path in blobs.folder.rglob("*") if path.is_file()]


class TestAFolder:
    def test_what_was_put_is_there_until_it_is_deleted(self, blobs: LocalBlobs) -> None:
        assert isinstance(blobs, Blobs)
        assert not blobs.folder.exists(), "it is made when it is first needed"
        assert list(blobs.keys(LATER)) == []
        one, other = key_of(b"one"), key_of(b"other")
        blobs.put(one, b"one")
        blobs.put(other, b"other")
        assert (blobs.get(one), blobs.get(other)) == (b"one", b"other")
        assert sorted(blobs.keys(LATER)) == sorted([one, other])
        blobs.delete([one, one, key_of(b"never there")])
        assert list(blobs.keys(LATER)) == [other]
        with pytest.raises(FileNotFoundError):
            blobs.get(one)

    def test_blobs_are_for_their_user_alone_whatever_the_umask(self, blobs: LocalBlobs) -> None:
        before = os.umask(0)
        try:
            blobs.put(key_of(b"one"), b"one")
        finally:
            os.umask(before)
        places = [blobs.folder, *blobs.folder.rglob("*")]
        assert {(place.is_dir(), place.stat().st_mode & 0o777) for place in places} == {(True, 0o700), (False, 0o600)}
        assert blobs.exposed() == []

    def test_a_folder_that_was_there_keeps_its_mode_and_what_is_in_it_is_closed_to_others(self, tmp_path: Path) -> None:
        blobs, key = LocalBlobs(tmp_path), key_of(b"one")
        tmp_path.chmod(0o755)
        (tmp_path / key[:2]).mkdir()
        (tmp_path / key[:2]).chmod(0o755)
        assert blobs.exposed() == [tmp_path / key[:2]]
        blobs.put(key, b"one")
        assert tmp_path.stat().st_mode & 0o777 == 0o755
        assert (tmp_path / key[:2]).stat().st_mode & 0o777 == 0o700
        assert blobs.exposed() == []

    def test_a_blob_is_found_by_its_age(self, blobs: LocalBlobs) -> None:
        key, day = key_of(b"one"), 86_400
        blobs.put(key, b"one")
        now = datetime.now(UTC)
        os.utime(blobs.folder / key[:2] / key, (now.timestamp() - day, now.timestamp() - day))
        assert list(blobs.keys(now - timedelta(hours=23))) == [key]
        assert list(blobs.keys(now - timedelta(hours=25))) == []

    def test_files_of_others_are_not_ours(self, blobs: LocalBlobs) -> None:
        blobs.put(key_of(b"one"), b"one")
        for name in ("ab/notes.txt", "notes.txt", f"sub/{key_of(b'one')}"):
            (blobs.folder / name).parent.mkdir(exist_ok=True)
            (blobs.folder / name).write_text("mine")
        assert list(blobs.keys(LATER)) == [key_of(b"one")]

    def test_a_key_leads_nowhere_else(self, blobs: LocalBlobs, tmp_path: Path) -> None:
        (tmp_path / "secret").write_text("x")
        for key in ("../../secret", "/etc/hostname", ".."):
            with pytest.raises(ValueError, match="is not the key of a blob"):
                blobs.get(key)

    def test_many_may_write_the_same_blob_at_once(self, blobs: LocalBlobs) -> None:
        key, data, wrong = key_of(LARGE), LARGE, []

        def write() -> None:
            for _ in range(10):
                blobs.put(key, data)
                if blobs.get(key) != data:
                    wrong.append(key)

        threads = [threading.Thread(target=write) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong
        assert [path.name for path in files(blobs)] == [key]

    def test_it_says_when_it_cannot_be_written(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")
        assert LocalBlobs(tmp_path / "not" / "yet").trouble() is None
        assert LocalBlobs(tmp_path / "file" / "below").trouble() == f"{tmp_path}/file is not a folder"


class TestACrash:
    def test_a_write_that_fails_leaves_nothing(self, blobs: LocalBlobs, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: object) -> None:
            raise OSError("no space left on device")

        for step in ("fsync", "rename"):
            with monkeypatch.context() as patched:
                patched.setattr(module.os, step, fail)
                with pytest.raises(OSError, match="no space"):
                    blobs.put(key_of(b"one"), b"one")
            assert files(blobs) == []

    @pytest.mark.parametrize("step", ["fsync", "rename"])
    def test_a_process_that_is_killed_before_the_rename_leaves_no_torn_blob(self, blobs: LocalBlobs, step: str) -> None:
        blobs.put(key_of(b"other"), b"other")  # the folders are there: the first fsync is that of the file
        blobs.delete([key_of(b"other")])
        (blobs.folder / key_of(b"one")[:2]).mkdir(exist_ok=True)
        program = f"""
import os, signal
from tickwork import blobs
os.{step} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
blobs.LocalBlobs({str(blobs.folder)!r}).put({key_of(b"one")!r}, b"one")
"""
        ended = subprocess.run([sys.executable, "-c", program], timeout=30, check=False)
        assert ended.returncode == -signal.SIGKILL
        with pytest.raises(FileNotFoundError):
            blobs.get(key_of(b"one"))
        (left,) = blobs.keys(LATER)
        assert left.startswith(f"{key_of(b'one')}~"), "it is found, and can be deleted as any other"
        blobs.put(key_of(b"one"), b"one")
        blobs.delete([left])
        assert [path.name for path in files(blobs)] == [key_of(b"one")]

    def test_file_and_folders_are_synced_before_a_put_returns(
        self, blobs: LocalBlobs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        done: list[str] = []
        fsync, rename = os.fsync, os.rename

        def noted_fsync(descriptor: int) -> None:
            done.append(os.readlink(f"/proc/self/fd/{descriptor}"))
            fsync(descriptor)

        def noted_rename(source: Path, target: Path) -> None:
            done.append("renamed")
            rename(source, target)

        monkeypatch.setattr(module.os, "fsync", noted_fsync)
        monkeypatch.setattr(module.os, "rename", noted_rename)
        key = key_of(b"one")
        blobs.put(key, b"one")
        above = [str(blobs.folder.parents[1]), str(blobs.folder.parents[0]), str(blobs.folder)]
        file = f"{blobs.folder}/{key[:2]}/{key}~"
        assert done[:3] == above
        assert done[3].startswith(file)
        assert done[4:] == ["renamed", f"{blobs.folder}/{key[:2]}"]


class TestResults:
    def test_a_small_one_is_stored_as_it_is(self, blobs: LocalBlobs) -> None:
        most = b"x" * RESULT_LIMIT
        assert LargeResults(blobs).keep(most, JOB, 1, "it") is most
        assert LargeResults(None).keep(most, JOB, 1, "it") is most
        assert not blobs.folder.exists()

    def test_a_large_one_is_in_a_blob_and_comes_back(self, blobs: LocalBlobs) -> None:
        stored = LargeResults(blobs).keep(LARGE, JOB, 1, "it")
        assert len(stored) < 250
        assert reference_in(stored) == BlobRef.of(LARGE, JOB, 1)
        assert LargeResults(LocalBlobs(blobs.folder)).whole(stored) == LARGE

    def test_one_for_which_there_is_no_place_is_refused_with_the_cure(self) -> None:
        with pytest.raises(InvalidPayload) as refused:
            LargeResults(None).keep(LARGE, JOB, 1, "the result of task 'big'")
        assert str(refused.value) == (
            "the result of task 'big' is 1,048,578 bytes; the cap is 1,048,576 where no place for blobs is set. "
            "Set TICKWORK_BLOBS, or Tickwork(blobs=...), to a folder that all machines share."
        )

    def test_one_that_is_too_large_for_a_blob_is_refused(
        self, blobs: LocalBlobs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "BLOB_LIMIT", RESULT_LIMIT + 1)
        with pytest.raises(InvalidPayload, match="it is 1,048,578 bytes; the cap is 1,048,577"):
            LargeResults(blobs).keep(LARGE, JOB, 1, "it")

    def test_a_blob_that_was_changed_or_is_gone_is_told_of(self, blobs: LocalBlobs) -> None:
        stored = LargeResults(blobs).keep(LARGE, JOB, 1, "it")
        (path,) = files(blobs)
        path.write_bytes(LARGE.replace(b"xx", b"xy", 1))
        with pytest.raises(BlobError, match=r"is not what was written: 1,048,578 of 1,048,578 bytes are there\."):
            LargeResults(blobs).whole(stored)
        path.unlink()
        with pytest.raises(BlobError, match=r"is not in LocalBlobs\('.*'\): .*No such file"):
            LargeResults(blobs).whole(stored)
        with pytest.raises(BlobError, match="no place for blobs is set"):
            LargeResults(None).whole(stored)

    def test_a_folder_that_cannot_be_written_is_told_of(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")
        with pytest.raises(BlobError, match=r"it could not be written to LocalBlobs\('.*'\): .*Not a directory"):
            LargeResults(LocalBlobs(tmp_path / "file")).keep(LARGE, JOB, 1, "it")

    def test_a_path_that_leads_nowhere_is_a_wrong_argument(self, blobs: LocalBlobs) -> None:
        stored = LargeResults(blobs).keep(LARGE, JOB, 1, "it")
        with pytest.raises(InvalidArguments, match="the result has no 'rows'"):
            LargeResults(blobs).whole(stored[:-2] + b',"path":["rows"]}}')


class TestSettings:
    def test_the_folder_beside_a_sqlite_file_is_closed_to_others_and_one_that_was_named_is_told_of(
        self, tmp_path: Path
    ) -> None:
        for name in ("jobs.db-blobs", "named"):
            (tmp_path / name).mkdir()
            (tmp_path / name).chmod(0o777)
        beside = open_blobs(Settings(f"sqlite:///{tmp_path}/jobs.db"))
        named = open_blobs(Settings("postgresql://host/db", blobs=str(tmp_path / "named")))
        assert isinstance(beside, LocalBlobs)
        assert isinstance(named, LocalBlobs)
        assert beside.folder.stat().st_mode & 0o777 == 0o700
        assert beside.exposed() == []
        assert named.folder.stat().st_mode & 0o777 == 0o777
        assert named.exposed() == [named.folder]
        named.folder.chmod(0o755)
        assert named.exposed() == []

    def test_a_sqlite_file_has_a_folder_beside_it(self, tmp_path: Path) -> None:
        found = open_blobs(Settings(f"sqlite:///{tmp_path}/jobs.db"))
        assert isinstance(found, LocalBlobs)
        assert found.folder == tmp_path / "jobs.db-blobs"

    def test_postgresql_has_none_unless_one_is_named(self, tmp_path: Path) -> None:
        url = "postgresql://host/db"
        assert open_blobs(Settings(url)) is None
        found = open_blobs(Settings(url, blobs=str(tmp_path / "here")))
        assert isinstance(found, LocalBlobs)
        assert found.folder == tmp_path / "here"

    def test_an_object_is_found_by_its_name(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "storage_of_a_test.py").write_text(
            f"from tickwork import LocalBlobs\nbucket = LocalBlobs({str(tmp_path / 'bucket')!r})\nnothing = 5\n"
        )
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "path", [*sys.path])
        found = open_blobs(Settings(blobs="storage_of_a_test:bucket"))
        assert isinstance(found, NamedBlobs)
        found.put(key_of(b"one"), b"one")
        assert found.get(key_of(b"one")) == b"one"
        assert list(found.keys(LATER)) == [key_of(b"one")]
        found.delete([key_of(b"one")])
        assert list(found.keys(LATER)) == []
        for name, said in (
            ("storage_of_a_test:other", "which cannot be imported: .*no attribute 'other'"),
            ("no_such_module:bucket", "which cannot be imported: No module named 'no_such_module'"),
            ("storage_of_a_test:nothing", "which is no tickwork.Blobs but 5"),
        ):
            with pytest.raises(BlobError, match=f"the setting blobs names {name}, {said}"):
                LargeResults(open_blobs(Settings(blobs=name))).keep(LARGE, JOB, 1, "it")

    def test_a_supervisor_cannot_use_an_object_of_the_program(self) -> None:
        with pytest.raises(InvalidInput, match="Give its name instead"):
            open_blobs(Settings(blobs=AN_OBJECT))
