"""The guard kills the process groups that it knows of when its owner is gone, and only those."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator

import pytest

from tests.waiting import eventually
from tickwork.worker.tasks.orphan_killer import OrphanKiller


def group() -> subprocess.Popen[bytes]:
    """A process that leads a group, with a child of its own in it."""
    return subprocess.Popen(["/bin/sh", "-c", "sleep 1000 & wait"], start_new_session=True)


def is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def groups() -> Iterator[list[subprocess.Popen[bytes]]]:
    made = [group() for _ in range(12)]
    yield made
    for one in made:
        if one.poll() is None:
            os.killpg(one.pid, signal.SIGKILL)
            one.wait()


def test_what_was_removed_is_left_alone_and_the_rest_is_killed(groups: list[subprocess.Popen[bytes]]) -> None:
    guard = OrphanKiller()
    for one in groups:
        guard.add(one.pid)
    left = groups[0], groups[5], groups[-1]
    for one in (*left, groups[5]):  # one of them twice
        guard.remove(one.pid)
    guard.close()
    for one in groups:
        if one not in left:
            assert one.wait(5) == -signal.SIGKILL
            eventually(lambda one=one: not is_alive(one.pid))
    assert [one.poll() for one in left] == [None] * 3


def test_it_knows_whole_numbers_only(groups: list[subprocess.Popen[bytes]]) -> None:
    """Removing group 12 must not touch 123 or 512."""
    guard = OrphanKiller()
    one = groups[0]
    guard.add(one.pid)
    for similar in (one.pid // 10, one.pid % 10, one.pid * 10, int(f"1{one.pid}")):
        guard.remove(similar)
    guard.close()
    assert one.wait(5) == -signal.SIGKILL


def test_it_kills_when_its_owner_is_killed(groups: list[subprocess.Popen[bytes]]) -> None:
    program = textwrap.dedent(f"""
        import os, signal
        from tickwork.worker.tasks.orphan_killer import OrphanKiller
        guard = OrphanKiller()
        guard.add({groups[0].pid})
        guard.add({groups[1].pid})
        guard.remove({groups[1].pid})
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=20).returncode == -signal.SIGKILL
    assert groups[0].wait(20) == -signal.SIGKILL
    assert groups[1].poll() is None


def test_a_guard_that_was_killed_troubles_no_other() -> None:
    guard = OrphanKiller()
    # The process of the guard is not public.
    guard._shell.kill()
    guard._shell.wait()
    guard.add(1_000_000_000)
    guard.close()
