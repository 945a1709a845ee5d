"""The app of workers without a file. It has no tasks but the built-in ones."""

from tickwork.app import Tickwork

app = Tickwork()
