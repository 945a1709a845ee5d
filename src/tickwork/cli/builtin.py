"""The app of workers without a file. It has no tasks of its own; `--allow-shell` gives it one."""

from tickwork.app import Tickwork

app = Tickwork()
