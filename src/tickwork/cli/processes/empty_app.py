"""The app of workers that are started without a file. It has only the built-in tasks."""

from tickwork.app import Tickwork

app = Tickwork()
