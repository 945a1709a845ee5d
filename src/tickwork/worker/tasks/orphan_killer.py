"""Kill the process groups of commands when the child process that runs them is killed.

Commands have their own process groups, which are not killed with the child's. So a small shell process reads from a
pipe that only the child holds open. When the pipe closes, however the child ended, the shell kills the groups.
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
    """A shell process that kills the recorded process groups when this process ends or `close` is called."""

    def __init__(self) -> None:
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT],
            stdin=subprocess.PIPE,
            env={},  # because commands can read the environment of other processes of their user
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
        """Kill the groups that were not removed, and end the shell process."""
        with suppress(OSError):
            if self._shell.stdin is not None:
                self._shell.stdin.close()
        self._shell.wait()
