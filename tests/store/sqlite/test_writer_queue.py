"""The queue of writers in front of a SQLite file."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.store.builders import insert_one
from tests.waiting import eventually
from tickwork.store.sqlite import SqliteStore
from tickwork.store.sqlite.file import writer_queue
from tickwork.store.sqlite.file.writer_queue import WriterQueue

HOLD = """
import sys
from pathlib import Path
from tickwork.store.sqlite.file.writer_queue import WriterQueue
with WriterQueue(Path(sys.argv[1])).turn():
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db-writer"


@pytest.fixture
def new_queue(path: Path) -> Iterator[Callable[[], WriterQueue]]:
    """Each queue stands for a process: `flock` tells open files apart, not processes."""
    made: list[WriterQueue] = []

    def new() -> WriterQueue:
        made.append(WriterQueue(path))
        return made[-1]

    yield new
    for queue in made:
        queue.close()


def holding(path: Path) -> subprocess.Popen[str]:
    """A process that has its turn until it is killed or its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def waiting(path: Path) -> int:
    """Return the number of writers in the kernel's queue."""
    inode = f":{path.stat().st_ino} "
    return sum("->" in line and inode in line for line in Path("/proc/locks").read_text().splitlines())


def is_free(path: Path) -> bool:
    inode = f":{path.stat().st_ino} "
    return not any(inode in line for line in Path("/proc/locks").read_text().splitlines())


def test_writers_have_their_turns_in_the_order_in_which_they_asked(
    new_queue: Callable[[], WriterQueue], path: Path
) -> None:
    order: list[int] = []

    def write(queue: WriterQueue, number: int) -> None:
        with queue.turn():
            order.append(number)

    threads = [threading.Thread(target=write, args=(new_queue(), number)) for number in range(8)]
    with new_queue().turn():
        for number, thread in enumerate(threads):
            thread.start()
            eventually(lambda count=number + 1: waiting(path) == count)  # type: ignore[misc]
    for thread in threads:
        thread.join(10)
    assert order == list(range(8))


def test_one_writer_at_a_time_has_its_turn(new_queue: Callable[[], WriterQueue], path: Path) -> None:
    inside, most = 0, 0

    def write(queue: WriterQueue) -> None:
        nonlocal inside, most
        for _ in range(200):
            with queue.turn():
                inside += 1
                most = max(most, inside)
                os.sched_yield()
                inside -= 1

    queues = [new_queue() for _ in range(4)]
    threads = [threading.Thread(target=write, args=(queue,)) for queue in (*queues, *queues)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert most == 1
    assert is_free(path)


def test_the_turn_of_a_killed_process_is_over(new_queue: Callable[[], WriterQueue], path: Path) -> None:
    holder = holding(path)
    entered = threading.Event()

    def write() -> None:
        with new_queue().turn():
            entered.set()

    thread = threading.Thread(target=write)
    thread.start()
    eventually(lambda: waiting(path) == 1)
    holder.kill()
    holder.wait()
    assert entered.wait(10)
    thread.join(10)


def test_a_stopped_process_keeps_other_writers_for_a_limited_time(
    new_queue: Callable[[], WriterQueue], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_queue, "QUEUE_S", 0.05)
    holder, queue = holding(path), new_queue()
    went_on = 0
    try:
        holder.send_signal(signal.SIGSTOP)
        for _ in range(3):
            with queue.turn():
                went_on += 1
    finally:
        holder.send_signal(signal.SIGCONT)
        holder.communicate()
    assert went_on == 3
    eventually(lambda: is_free(path))  # no request that was given up keeps the lock
    with queue.turn():
        assert not is_free(path)
    assert is_free(path)


def test_a_thread_that_waits_for_another_goes_on_after_a_limited_time(
    new_queue: Callable[[], WriterQueue], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_queue, "QUEUE_S", 0.05)
    queue, went_on = new_queue(), threading.Event()

    def write() -> None:
        with queue.turn():
            went_on.set()

    with queue.turn():
        thread = threading.Thread(target=write)
        thread.start()
        thread.join(10)
        assert went_on.is_set()
        assert not is_free(path), "it has not ended the turn of the first"


@pytest.mark.parametrize("granted", [False, True])
def test_an_interrupted_writer_keeps_no_turn(
    new_queue: Callable[[], WriterQueue], path: Path, monkeypatch: pytest.MonkeyPatch, granted: bool
) -> None:
    """Ctrl-C, or the end of a handler's time, may interrupt a thread while it waits, or just after its turn came."""
    holder, queue = holding(path), new_queue()
    wait = writer_queue._Request.wait

    def interrupted(request: writer_queue._Request, timeout_s: float) -> bool:
        if granted:
            holder.communicate()
            wait(request, timeout_s)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(writer_queue._Request, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt), queue.turn():
            pytest.fail("it was interrupted")
    holder.communicate()
    eventually(lambda: is_free(path))
    with queue.turn():
        assert not is_free(path)
    assert is_free(path)


def test_a_forked_process_does_not_keep_the_turn_of_its_parent(
    new_queue: Callable[[], WriterQueue], path: Path
) -> None:
    script = f"""
import os, time
from pathlib import Path
from tickwork.store.sqlite.file.writer_queue import WriterQueue
queue = WriterQueue(Path({str(path)!r}))
with queue.turn():
    child = os.fork()
    if child == 0:
        os.closerange(0, 3)
        time.sleep(60)
        os._exit(0)
    print(child, flush=True)
    os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=False)
    child = int(done.stdout)
    try:
        with new_queue().turn():
            assert not is_free(path)
        assert is_free(path)
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_file_that_cannot_be_made_keeps_no_writer_waiting(tmp_path: Path) -> None:
    with WriterQueue(tmp_path / "missing" / "jobs.db-writer").turn():
        pass


def test_a_transaction_keeps_the_turn_only_until_it_has_begun(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    store = SqliteStore(str(path))
    insert_one(store)
    with store.connection() as tx:
        assert is_free(Path(f"{path}-writer"))
        tx.execute("DELETE FROM tickwork_logs")
    # A test holds the turn of a writer.
    with store._file.writing():
        assert is_free(Path(f"{path}-writer"))
    store.close()
