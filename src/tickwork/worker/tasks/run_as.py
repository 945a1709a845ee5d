"""The user that the commands of a worker run as, where it is another one than the worker's own (`--run-as`)."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from typing import Any

from tickwork.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class SystemUser:
    """A user of this machine."""

    name: str
    uid: int
    gid: int
    home: str
    shell: str

    @property
    def identity(self) -> dict[str, Any]:
        """What `subprocess.Popen` is told: between fork and exec it drops the groups, then sets group and user."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    @property
    def environment(self) -> dict[str, str]:
        """The variables that name a user."""
        return {"HOME": self.home, "LOGNAME": self.name, "USER": self.name, "SHELL": self.shell}


def find_user(name: str) -> SystemUser:
    """Return the user that commands are to run as. Raises InvalidInput where this process cannot become that user."""
    if os.geteuid() != 0:
        raise InvalidInput(f"--run-as {name}: only a worker that runs as root can run commands as another user.")
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise InvalidInput(f"--run-as {name}: this machine has no user of that name.") from None
    if found.pw_uid == 0:
        raise InvalidInput(f"--run-as {name}: that is root, who the worker is already. Name a user with fewer rights.")
    return SystemUser(found.pw_name, found.pw_uid, found.pw_gid, found.pw_dir, found.pw_shell)
