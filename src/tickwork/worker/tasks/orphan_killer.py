"""Kills what is left when a child is killed: the process groups of commands that it runs, which are not its own.

A tiny shell waits at the end of a pipe that only the child holds. When that end closes, however the child ended, it
kills the groups.
"""

from __future__ import annotations

import subprocess
from contextlib import suppress

_SCRIPT = """
trap '' INT TERM HUP
while read -r sign group; do
    if [ "$sign" = + ]; then groups="$groups $group "; else groups="${groups%% $group *} ${groups#* $group }"; fi
done
for group in $groups; do kill -s KILL -- "-$group" 2>/dev/null; done
"""


class OrphanKiller:
    """Watches over process groups until it is closed."""

    def __init__(self) -> None:
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT],
            stdin=subprocess.PIPE,
            env={},  # commands can read the environment of other processes of their user
            start_new_session=True,
            text=True,
        )

    def add(self, group: int) -> None:
        self._say(f"+ {group}\n")

    def remove(self, group: int) -> None:
        self._say(f"- {group}\n")

    def _say(self, line: str) -> None:
        with suppress(OSError):
            if self._shell.stdin is not None:
                self._shell.stdin.write(line)
                self._shell.stdin.flush()

    def close(self) -> None:
        """Let it kill whatever group was not removed, and end."""
        with suppress(OSError):
            if self._shell.stdin is not None:
                self._shell.stdin.close()
        self._shell.wait()
