"""A fair queue of writers in front of a SQLite file.

SQLite's write lock has no queue: a writer that finds it taken tries again every half millisecond. With 16 busy workers
on one file some of them waited for 350 ms while others wrote many times. So a writer takes the lock of a second file
before it begins a transaction, and releases it once it has begun: only the first in the queue tries to get SQLite's
lock. The others wait for the second file, whose lock the kernel grants in the order of the requests.

The queue only provides fairness. SQLite's lock excludes concurrent writers, also those that do not use the queue.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from weakref import WeakSet

from tickwork.file_modes import FILE_MODE

QUEUE_S = 2.0  # A writer that waited longer tries to get SQLite's lock at once.


class WriterQueue:
    """The queue in which writers of this process wait to begin a transaction, after writers of other processes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._one_at_a_time = threading.Lock()  # Among the threads of this process.
        self._file: _FileLock | None = None

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait until it is this writer's turn, and keep the turn for the block.

        After QUEUE_S, run the block without it.
        """
        alone, locked = self._one_at_a_time.acquire(timeout=QUEUE_S), None
        try:
            locked = self._lock_file() if alone else None
            yield
        finally:
            if locked is not None:
                locked.release()
            if alone:
                self._one_at_a_time.release()

    def _lock_file(self) -> _FileLock | None:
        """Return the lock of the queue's file, taken; None if it cannot be opened or was not granted in time."""
        try:
            self._file = self._file or _FileLock(self._path)  # Created by the first write, not before.
        except OSError:  # The folder is not writable; SQLite will report that.
            return None
        return self._file if self._file.acquire(QUEUE_S) else None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class _FileLock:
    """The lock of a file (`flock`), with a time limit, granted in the kernel's order.

    `flock` has no timeout. So a thread waits for a lock that is taken; if the time is over first, that thread releases
    the lock as soon as it has it.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        self._requests: SimpleQueue[_Request | None] = SimpleQueue()
        self._waiter: threading.Thread | None = None
        self._last: _Request | None = None
        _open_locks.add(self)

    def acquire(self, timeout_s: float) -> bool:
        """Take the lock; return False on a timeout. Only one thread at a time may call this."""
        # While the waiter thread still waits for an earlier call, it would release the lock taken here.
        if self._last is None or self._last.is_over.is_set():
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pass
            else:
                return True
        self._last = _Request()
        if self._waiter is None:
            self._waiter = threading.Thread(target=self._wait, name="tickwork-writer-queue", daemon=True)
            self._waiter.start()
        self._requests.put(self._last)
        try:
            return self._last.wait(timeout_s)
        except BaseException:  # The thread was interrupted.
            if not self._last.abandon():
                self.release()
            raise

    def release(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def _wait(self) -> None:
        """Wait for the lock for each request, on the waiter thread; release it if the request was abandoned."""
        while (request := self._requests.get()) is not None:
            fcntl.flock(self._file, fcntl.LOCK_EX)
            if not request.grant():
                fcntl.flock(self._file, fcntl.LOCK_UN)
            request.is_over.set()
        os.close(self._file)

    def close(self) -> None:
        _open_locks.discard(self)
        if self._waiter is None:
            os.close(self._file)
        else:
            self._requests.put(None)  # The waiter thread may be using the file, so it closes it.

    def leave_to_parent(self) -> None:
        """Close a forked process's copy of the file; otherwise it would keep the lock of a parent that dies."""
        os.close(self._file)


class _Request:
    """A thread's request for the lock, which is granted, or abandoned on a timeout."""

    def __init__(self) -> None:
        self.is_over = threading.Event()  # Set once the waiter has finished with it.
        self._granted = threading.Event()
        self._lock = threading.Lock()
        self._is_abandoned = False

    def grant(self) -> bool:
        """Hand over the lock; return False if the caller does not wait any more."""
        with self._lock:
            if not self._is_abandoned:
                self._granted.set()
            return not self._is_abandoned

    def wait(self, timeout_s: float) -> bool:
        """Return whether the lock was handed over in time."""
        self._granted.wait(timeout_s)
        return not self.abandon()

    def abandon(self) -> bool:
        """Give up the request; return False if the lock was handed over before."""
        with self._lock:
            self._is_abandoned = not self._granted.is_set()
            return self._is_abandoned


_open_locks: WeakSet[_FileLock] = WeakSet()


def _leave_all_to_parent() -> None:
    """Close the copies of the lock files in a forked process."""
    for lock in list(_open_locks):
        lock.leave_to_parent()
    _open_locks.clear()


os.register_at_fork(after_in_child=_leave_all_to_parent)
