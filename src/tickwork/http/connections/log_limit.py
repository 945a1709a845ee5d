"""Rate limit for log records, so that clients cannot fill the log with errors."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tickwork.clock import Clock

WINDOW_S = 10.0
MOST = 5  # records of a kind in a window
KINDS = 500
LOGGERS = ("asyncio", "tickwork.http", "uvicorn.error")


class LogLimit(logging.Filter):
    """Passes a few records of each kind in ten seconds; the next record that passes reports the number of dropped
    ones.

    Records are of one kind if they have the same logger, level and first line of the unformatted message.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: dict[tuple[str, int, str], _Window] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to pass a record; add the number of dropped records to the first record of a window."""
        kind = (record.name, record.levelno, str(record.msg).partition("\n")[0][:200])
        now = self._clock.monotonic()
        with self._lock:
            window = self._seen.get(kind)
            if window is None or now - window.began >= WINDOW_S:
                self._make_room(now)
                self._seen[kind] = _Window(now)
                if window is not None and window.dropped:
                    record.msg = f"{record.msg} ({window.dropped:,} more like this since {now - window.began:.0f} s)"
                return True
            window.passed += 1
            if window.passed <= MOST:
                return True
            window.dropped += 1
            return False

    def _make_room(self, now: float) -> None:
        """If there are too many windows, remove the expired ones; if there are still too many, remove all."""
        if len(self._seen) >= KINDS:
            kept = {kind: one for kind, one in self._seen.items() if now - one.began < WINDOW_S}
            self._seen = kept if len(kept) < KINDS else {}


class _Window:
    """The counts of passed and dropped records of a kind, since `began`."""

    __slots__ = ("began", "dropped", "passed")

    def __init__(self, began: float) -> None:
        self.began = began
        self.passed = 1
        self.dropped = 0


@contextmanager
def limited_logs(clock: Clock) -> Iterator[None]:
    """Limit the log records of the server, uvicorn and asyncio within this context."""
    limit, loggers = LogLimit(clock), [logging.getLogger(name) for name in LOGGERS]
    for logger in loggers:
        logger.addFilter(limit)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(limit)
