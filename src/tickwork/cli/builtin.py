"""The tasks that come with Tickwork, for `tickwork dev` without a file. There are none yet."""

from tickwork.app import Tickwork

app = Tickwork()
