"""Run commands of jobs as another system user than the worker's own (`--run-as`)."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from typing import Any

from tickwork.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class SystemUser:
    """A user of the operating system."""

    name: str
    uid: int
    gid: int
    home: str
    shell: str

    @property
    def identity(self) -> dict[str, Any]:
        """Return arguments of `subprocess.Popen` that drop the groups and set group and user between fork and exec."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment variables that describe a user."""
        return {"HOME": self.home, "LOGNAME": self.name, "USER": self.name, "SHELL": self.shell}


def find_user(name: str) -> SystemUser:
    """Return the user of this name. Raises InvalidInput if this process may not run commands as that user."""
    if os.geteuid() != 0:
        raise InvalidInput(f"--run-as {name}: only a worker that runs as root can run commands as another user.")
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise InvalidInput(f"--run-as {name}: this machine has no user of that name.") from None
    if found.pw_uid == 0:
        raise InvalidInput(f"--run-as {name}: that is root, who the worker is already. Name a user with fewer rights.")
    return SystemUser(found.pw_name, found.pw_uid, found.pw_gid, found.pw_dir, found.pw_shell)
